//! Patterns: `*` within a segment, `**` anything, all else literally itself.
//!
//! Anchored at both ends and case-sensitive. `?`, `[` and `{` are plain characters: paths such as `app/[id]/page.tsx` are
//! meant as they stand. `**/` also matches nothing at all, so that `**/*.key` covers `a.key`. In a command `*` crosses
//! slashes too. Matching takes time proportional to pattern times text, whatever they are.

/// What a star may cross.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stars {
    /// `*` stays within a segment of a path.
    Segments,
    /// `*` is anything.
    Anything,
}

/// One compiled pattern.
#[derive(Debug, Clone)]
pub struct Glob {
    text: String,
    /// The bytes before the first star: most texts are told apart by them.
    prefix: usize,
    tokens: Vec<Token>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// Any bytes but slashes.
    Star,
    /// Any bytes.
    Any,
    /// The door to [`Token::Within`] and past it.
    Dirs,
    /// Any bytes up to and including a slash.
    Within,
}

impl Glob {
    /// Compiles a pattern; every text is one.
    pub fn new(text: &str, stars: Stars) -> Glob {
        let bytes = text.as_bytes();
        let mut tokens = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at] != b'*' {
                tokens.push(Token::Byte(bytes[at]));
                at += 1;
                continue;
            }
            let run = bytes[at..].iter().take_while(|byte| **byte == b'*').count();
            let begins = at == 0 || bytes[at - 1] == b'/';
            at += run;
            if run == 1 && stars == Stars::Segments {
                tokens.push(Token::Star);
            } else if stars == Stars::Segments && begins && bytes.get(at) == Some(&b'/') {
                tokens.extend([Token::Dirs, Token::Within]);
                at += 1;
            } else {
                tokens.push(Token::Any);
            }
        }
        let prefix = tokens.iter().take_while(|token| matches!(token, Token::Byte(_))).count();
        Glob { text: text.to_string(), prefix, tokens }
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the whole of `text` fits.
    pub fn matches(&self, text: &str) -> bool {
        let text = text.as_bytes();
        let literal = &self.text.as_bytes()[..self.prefix];
        let Some(rest) = text.strip_prefix(literal) else { return false };
        let tokens = &self.tokens[self.prefix..];
        let mut present = vec![false; tokens.len() + 1];
        let mut next = vec![false; tokens.len() + 1];
        enter(tokens, &mut present, 0);
        for byte in rest {
            next.fill(false);
            let mut alive = false;
            for at in (0..tokens.len()).filter(|at| present[*at]) {
                let (stays, goes) = match tokens[at] {
                    Token::Byte(wanted) => (false, wanted == *byte),
                    Token::Star => (*byte != b'/', false),
                    Token::Any => (true, false),
                    Token::Dirs => (false, false),
                    Token::Within => (true, *byte == b'/'),
                };
                if stays {
                    enter(tokens, &mut next, at);
                }
                if goes {
                    enter(tokens, &mut next, at + 1);
                }
                alive |= stays || goes;
            }
            if !alive {
                return false;
            }
            std::mem::swap(&mut present, &mut next);
        }
        present[tokens.len()]
    }
}

/// Marks a place, and the places that are reached from it for free.
fn enter(tokens: &[Token], places: &mut [bool], at: usize) {
    if places[at] {
        return;
    }
    places[at] = true;
    match tokens.get(at) {
        Some(Token::Star | Token::Any) => enter(tokens, places, at + 1),
        Some(Token::Dirs) => {
            enter(tokens, places, at + 1);
            enter(tokens, places, at + 2);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(pattern: &str, text: &str) -> bool {
        Glob::new(pattern, Stars::Segments).matches(text)
    }

    #[test]
    fn stars_and_literals() {
        for (pattern, text, fits) in [
            ("/etc/**", "/etc/passwd", true),
            ("/etc/**", "/etc/ssl/private/x", true),
            ("/etc/**", "/etc", false),
            ("/etc/*", "/etc/ssl/x", false),
            ("/etc/*", "/etc/hosts", true),
            ("**/*.key", "/a/b.key", true),
            ("**/*.key", "b.key", true),
            ("**/*.key", "/a/b.keys", false),
            ("/a/**/z", "/a/z", true),
            ("/a/**/z", "/a/b/c/z", true),
            ("/a/**/z", "/a/bz", false),
            ("/a/b**", "/a/b/c", true),
            ("app/[id]/?", "app/[id]/?", true),
            ("app/[id]/?", "app/i/x", false),
            ("/A", "/a", false),
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("**", "a/b", true),
            ("/é/*", "/é/ü", true),
        ] {
            assert_eq!(path(pattern, text), fits, "{pattern} on {text}");
        }
        let command = Glob::new("rm -rf *", Stars::Anything);
        assert!(command.matches("rm -rf /a/b c") && !command.matches("rm -r x"));
        assert!(Glob::new("**/", Stars::Anything).matches("x/"));
    }

    #[test]
    fn many_stars_take_no_longer_than_their_product() {
        let pattern = "*a".repeat(200);
        assert!(!path(&pattern, &"a".repeat(5000).replace("aaaaa", "aaaa/")));
        assert!(!Glob::new(&"**a".repeat(200), Stars::Anything).matches(&format!("{}b", "a".repeat(5000))));
    }

    /// The same by trying everything.
    fn slow(pattern: &[u8], text: &[u8]) -> bool {
        match pattern {
            [] => text.is_empty(),
            [b'*', b'*', rest @ ..] => {
                let rest = rest.iter().position(|byte| *byte != b'*').map_or(&[][..], |at| &rest[at..]);
                (0..=text.len()).any(|at| slow(rest, &text[at..]))
            }
            [b'*', rest @ ..] => {
                (0..=text.len()).take_while(|at| *at == 0 || text[at - 1] != b'/').any(|at| slow(rest, &text[at..]))
            }
            [byte, rest @ ..] => text.first() == Some(byte) && slow(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn whatever_the_plain_meaning_matches_matches(pattern in "[ab/*]{0,8}", text in "[ab/]{0,8}") {
            let plain = slow(pattern.as_bytes(), text.as_bytes());
            // Beyond the plain meaning only `**/` may match more.
            if plain || !pattern.contains("**/") {
                prop_assert_eq!(path(&pattern, &text), plain, "{} on {}", pattern, text);
            }
        }
    }
}
