//! Any stream, cut anywhere.

use super::*;

/// A stream of blocks, pings between and inside of them, as an upstream may send it.
fn streams(inputs: impl Strategy<Value = (&'static str, String)>) -> impl Strategy<Value = String> {
    let block = prop_oneof![
        "[ -~é😀\n]{0,20}".prop_map(|text| (None, text)),
        inputs.prop_map(|(name, input)| (Some(name), input)),
    ];
    let blocks = prop::collection::vec((block, any::<bool>()), 0..6);
    (blocks, prop::sample::select(vec!["\n", "\r\n", "\r"])).prop_map(|(blocks, line)| {
        let mut stream = begin();
        for (index, ((name, content), ping)) in blocks.into_iter().enumerate() {
            let index = index as u64;
            stream += &name.map_or_else(|| text(index, &content), |name| tool(index, name, &content));
            stream += if ping { PING } else { "" };
        }
        (stream + &end("tool_use")).replace('\n', line)
    })
}

fn allowed() -> impl Strategy<Value = (&'static str, String)> {
    prop_oneof![
        Just(("Read", OPEN.to_string())),
        Just(("Grep", "{\"pattern\":\"é😀\"}".to_string())),
        Just(("Bash", "{\"command\":\"cat ~/.ssh/id_dsa\"}".to_string())),
        Just(("LS", String::new())),
    ]
}

fn any_call() -> impl Strategy<Value = (&'static str, String)> {
    prop_oneof![
        allowed(),
        Just(("Read", SECRET.to_string())),
        Just(("mcp__claude_ai_mail", "{\"to\":\"x\"}".to_string())),
        Just(("Read", "{\"file_path\":\"to".to_string())),
    ]
}

proptest! {
    #[test]
    fn nothing_denied_means_the_same_bytes(
        stream in streams(allowed()),
        cuts in prop::collection::vec(any::<usize>(), 0..40),
    ) {
        let (out, over, findings) = run_cut(court(), stream.as_bytes(), &cuts);
        prop_assert!(!over && findings.denials.is_empty() && findings.unjudged.is_none());
        prop_assert_eq!(String::from_utf8_lossy(&out), stream);
    }

    #[test]
    fn any_cut_gives_the_same(
        stream in streams(any_call()),
        cuts in prop::collection::vec(any::<usize>(), 0..40),
    ) {
        let whole = run_cut(court(), stream.as_bytes(), &[]);
        prop_assert_eq!(run_cut(court(), stream.as_bytes(), &cuts), whole.clone());
        let out = String::from_utf8(whole.0).expect("text");
        prop_assert!(!out.contains("id_rsa\\\"}"), "{}", out);
        if !whole.1 {
            assembled(&out.replace("\r\n", "\n").replace('\r', "\n"));
        }
    }

    #[test]
    fn any_bytes_are_survived(stream in prop::collection::vec(any::<u8>(), 0..300), cuts in prop::collection::vec(any::<usize>(), 0..9)) {
        prop_assert_eq!(run_cut(court(), &stream, &cuts), run_cut(court(), &stream, &[]));
    }
}
