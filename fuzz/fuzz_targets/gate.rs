//! The stream gate: any split of a stream gives the same output, and what is not denied keeps its bytes.

#![no_main]

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use lazy::config::schema;
use lazy::proxy::gate::{Court, Findings, Gate, Passage, Policed};
use lazy::proxy::policy::{Place, Policy};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

/// A piece of a stream: raw bytes, or an event that has a form, so that the fuzzer gets past the parsers.
#[derive(Debug, Arbitrary)]
enum Piece {
    Raw(Vec<u8>),
    Start { index: u8, kind: u8, name: u8, input: Option<String> },
    Input { index: u8, json: String },
    Path { index: u8, path: String },
    Text { index: u8, text: String },
    Stop { index: u8 },
    Ping,
    MessageDelta { reason: u8 },
    MessageStop,
    Error,
}

const KINDS: [&str; 5] = ["tool_use", "text", "thinking", "server_tool_use", "tool_use_of_the_future"];
const NAMES: [&str; 6] = ["Read", "Write", "Bash", "WebFetch", "mcp__claude_ai_x", "Task"];
const REASONS: [&str; 3] = ["tool_use", "end_turn", "max_tokens"];

impl Piece {
    fn write(&self, stream: &mut Vec<u8>) {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let pick = |from: &[&'static str], at: u8| from[usize::from(at) % from.len()];
        let (name, data) = match self {
            Piece::Raw(bytes) => return stream.extend_from_slice(bytes),
            Piece::Start { index, kind, name, input } => {
                let (kind, name) = (pick(&KINDS, *kind), pick(&NAMES, *name));
                let input =
                    input.as_deref().map_or("{}".to_string(), |path| format!("{{\"file_path\":{}}}", quoted(path)));
                let block = format!("{{\"type\":\"{kind}\",\"id\":\"t\",\"name\":\"{name}\",\"input\":{input}}}");
                ("content_block_start", format!("\"index\":{},\"content_block\":{block}", index % 4))
            }
            Piece::Input { index, json } => ("content_block_delta", input(*index, json)),
            Piece::Path { index, path } => {
                ("content_block_delta", input(*index, &format!("{{\"file_path\":{}}}", quoted(path))))
            }
            Piece::Text { index, text } => {
                let delta = format!("{{\"type\":\"text_delta\",\"text\":{}}}", quoted(text));
                ("content_block_delta", format!("\"index\":{},\"delta\":{delta}", index % 4))
            }
            Piece::Stop { index } => ("content_block_stop", format!("\"index\":{}", index % 4)),
            Piece::Ping => ("ping", "\"x\":1".into()),
            Piece::MessageDelta { reason } => {
                ("message_delta", format!("\"delta\":{{\"stop_reason\":\"{}\"}}", pick(&REASONS, *reason)))
            }
            Piece::MessageStop => ("message_stop", "\"x\":1".into()),
            Piece::Error => ("error", "\"error\":{}".into()),
        };
        stream.extend_from_slice(format!("event: {name}\ndata: {{\"type\":\"{name}\",{data}}}\n\n").as_bytes());
    }
}

fn input(index: u8, json: &str) -> String {
    let json = serde_json::Value::from(json).to_string();
    format!("\"index\":{},\"delta\":{{\"type\":\"input_json_delta\",\"partial_json\":{json}}}", index % 4)
}

fuzz_target!(|given: (Vec<Piece>, Vec<u16>, bool)| {
    let (pieces, mut cuts, rules) = given;
    let mut stream = Vec::new();
    for piece in &pieces {
        piece.write(&mut stream);
    }
    let settings = match rules {
        true => schema::Policy {
            deny_path_globs: vec!["/etc/**".into(), "**/*.key".into()],
            egress_allowlist: vec!["a.b".into()],
            deny_command_globs: vec!["rm *".into()],
            ..schema::Policy::default()
        },
        // Enforced, and no call can be denied.
        false => schema::Policy {
            connector_allowlist: vec!["mcp__claude_ai_x".into()],
            deny_secret_path_reads: false,
            ..schema::Policy::default()
        },
    };
    let policy = Arc::new(Policy::from_settings(&settings, Some("/home/u".into())));
    let whole = run(&policy, &stream, &mut Vec::new());
    assert_eq!(run(&policy, &stream, &mut cuts), whole, "a split changed the output");
    let (out, over, findings) = whole;
    if !rules && !over && matches!(stream.first(), Some(b'e' | b'd')) {
        assert!(findings.denials.is_empty());
        assert_eq!(out, stream, "nothing was denied");
    }
});

fn run(policy: &Arc<Policy>, stream: &[u8], cuts: &mut [u16]) -> (Vec<u8>, bool, Findings) {
    let mut gate = Policed::stream(Court::new(policy.clone(), Place::default()));
    let mut out = VecDeque::new();
    let (mut over, mut at) = (false, 0);
    cuts.sort_unstable();
    let broken = |out: VecDeque<Bytes>| (out.into_iter().flatten().collect(), true, Findings::default());
    for cut in cuts.iter().map(|cut| usize::from(*cut) % (stream.len() + 1)).chain([stream.len()]) {
        if cut > at && !over {
            match gate.pass(Bytes::copy_from_slice(&stream[at..cut]), &mut out) {
                Ok(passage) => over = passage != Passage::On,
                Err(_) => return broken(out),
            }
            at = cut;
        }
    }
    if !over {
        match gate.end(&mut out) {
            Ok(passage) => over = passage != Passage::On,
            Err(_) => return broken(out),
        }
    }
    (out.into_iter().flatten().collect(), over, gate.findings())
}
