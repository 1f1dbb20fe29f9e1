//! Patterns, paths, URLs and inputs: whatever they are, they are judged, and equal paths are judged alike.

#![no_main]

use lazy::proxy::policy::{Arguments, Forms, Glob, Place, Stars, host, secret_pattern, straighten};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str, &[u8])| {
    let (pattern, text, json) = input;
    let place = Place { worktree: Some("/nowhere/w".into()), home: Some("/home/u".into()) };
    for stars in [Stars::Segments, Stars::Anything] {
        let glob = Glob::new(pattern, stars);
        glob.matches(text);
        if !pattern.contains('*') {
            assert_eq!(glob.matches(text), pattern == text, "a pattern without stars is itself");
            assert!(glob.matches(pattern));
        }
    }
    assert!(Glob::new("**", Stars::Segments).matches(text));
    assert_eq!(Glob::new("*", Stars::Segments).matches(text), !text.contains('/'));

    let straight = straighten(text);
    assert_eq!(straighten(&straight), straight);
    assert!(!straight.contains("//"));
    let forms = Forms::of(text, &place);
    assert_eq!(forms.iter().next(), Some(text));
    // The same file written with detours.
    let detour = format!("./x/../{text}");
    if !text.starts_with(['/', '~']) && text.trim() == text {
        assert_eq!(Forms::of(&detour, &place).normal(), forms.normal());
    }
    // What is secret stays secret when it is put straight, unless a step back takes it out.
    if secret_pattern(text).is_some() && !text.split('/').any(|part| part == "..") && !straight.is_empty() {
        let last_is_dot = text.trim_end_matches('/').ends_with("/.");
        assert!(last_is_dot || secret_pattern(&straight).is_some(), "{text:?} became {straight:?}");
    }
    if let Some(host) = host(text) {
        assert!(host.is_ascii() && !host.contains(['/', '@', '\\', ' ', '%']), "{host:?}");
    }
    Arguments::read(json).ok();
});
