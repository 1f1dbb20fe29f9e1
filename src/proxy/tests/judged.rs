//! With rules: what of a response waits, what ends it, and what it may be encoded in.

use super::*;

/// A proxy that judges by the default rules.
async fn policed() -> Bench {
    bench_with(|config| {
        let settings = crate::config::schema::Policy::default();
        config.policy = Arc::new(policy::Policy::from_settings(&settings, Some("/home/u".into())));
    })
    .await
}

fn tool_events(path: &str) -> String {
    let input = json!({ "file_path": path }).to_string();
    [
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t0", "name": "Read", "input": {}}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": input}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}}),
    ]
    .iter()
    .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("a type")))
    .collect()
}

#[tokio::test]
async fn with_rules_text_still_comes_at_once_and_a_call_waits_for_its_end() {
    let bench = policed().await;
    let key = bench.placeholder();
    let client = bench.client.clone();
    let call = tokio::spawn(async move {
        let headers = [("x-api-key", key.expose())];
        client.request(Method::POST, "/v1/messages", &headers, request().to_string()).await.expect("answered")
    });
    let mut arrived = bench.arrived().await;
    arrived.begin_events().await;
    let mut response = call.await.expect("joins");
    arrived.chunk(START).await;
    assert_eq!(next(&mut response).await.expect("more").expect("whole"), START);
    let events = tool_events("src/main.rs");
    let half = events.find("event: content_block_stop").expect("a stop");
    arrived.chunk(&events.as_bytes()[..half]).await;
    let ping = b"event: ping\ndata: {\"type\":\"ping\"}\n\n";
    arrived.chunk(ping).await;
    assert_eq!(next(&mut response).await.expect("more").expect("whole"), &ping[..], "the call is still held");
    arrived.chunk(&events.as_bytes()[half..]).await;
    arrived.write("0\r\n\r\n").await;
    assert_eq!(read_body(response.into_body(), 1 << 20).await.expect("whole"), events);
    let record = bench.ended().await;
    assert_eq!((record.error, record.enforcement, record.unjudged), (None, None, None));
    assert_eq!(record.judged[0].paths, ["src/main.rs"]);
    assert_eq!(record.usage.and_then(|usage| usage.output_tokens), Some(5));
}

#[tokio::test]
async fn a_damaged_call_ends_the_response_and_the_request() {
    let bench = policed().await;
    let key = bench.placeholder();
    let (response, arrived) = tokio::join!(bench.post(key.expose(), request()), async {
        let mut arrived = bench.arrived().await;
        arrived.begin_events().await;
        arrived.chunk(START).await;
        arrived.chunk(tool_events("x").replace("\\\"x\\\"}", "").as_bytes()).await;
        arrived
    });
    let body = read_body(response.into_body(), 1 << 20).await.expect("the end says what happened");
    let body = std::str::from_utf8(&body).expect("text");
    assert!(body.contains("event: error\ndata: ") && !body.contains("t0") && !body.contains("message_delta"), "{body}");
    // The rest of the upstream's response is not waited for.
    arrived.hung_up().await;
    let record = bench.ended().await;
    assert!(record.error.as_deref().is_some_and(|error| error.contains("damaged")), "{record:?}");
    assert!(record.usage_partial && record.judged[0].verdict == gate::Verdict::Damaged, "{record:?}");
}

/// The events of `tool_events` in every encoding that is known, each with its name.
fn encoded(plain: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    use std::io::Write;
    let level = flate2::Compression::default();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), level);
    gzip.write_all(plain).expect("encodes");
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), level);
    zlib.write_all(plain).expect("encodes");
    let mut bare = flate2::write::DeflateEncoder::new(Vec::new(), level);
    bare.write_all(plain).expect("encodes");
    vec![
        ("gzip", gzip.finish().expect("encodes")),
        ("deflate", zlib.finish().expect("encodes")),
        ("deflate", bare.finish().expect("encodes")),
        ("zstd", zstd::encode_all(plain, 3).expect("encodes")),
        ("br", brotli_stored(plain)),
    ]
}

/// Brotli without compression: one block of metadata-free, uncompressed bytes, and the end.
fn brotli_stored(plain: &[u8]) -> Vec<u8> {
    assert!((1..=1 << 16).contains(&plain.len()));
    // Window bits 16 (0), not the last, 4 nibbles of length (00), the length less one, uncompressed (1), filled up.
    let length = (plain.len() - 1) as u32;
    let bits: u32 = (length << 4) | (1 << 20);
    let mut out = bits.to_le_bytes()[..3].to_vec();
    out.extend_from_slice(plain);
    // The last block, empty.
    out.push(3);
    out
}

#[tokio::test]
async fn encoded_responses_are_decoded_to_be_judged_and_only_then() {
    for (path, denied) in [("~/.ssh/id_rsa", true), ("src/main.rs", false)] {
        let plain = [START, tool_events(path).as_bytes()].concat();
        for (coding, body) in encoded(&plain) {
            for (bench, judged) in [(policed().await, true), (bench().await, false)] {
                let key = bench.placeholder();
                let (response, ()) = tokio::join!(bench.post(key.expose(), request()), async {
                    let mut arrived = bench.arrived().await;
                    assert_eq!(arrived.header("accept-encoding"), Some("identity"));
                    arrived.write(format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: {coding}\r\ntransfer-encoding: chunked\r\n\r\n")).await;
                    for piece in body.chunks(50) {
                        arrived.chunk(piece).await;
                    }
                    arrived.write("0\r\n\r\n").await;
                });
                assert_eq!(response.headers().contains_key("content-encoding"), !judged);
                let got = read_body(response.into_body(), 1 << 20).await.expect("whole");
                match (judged, denied) {
                    (false, _) => assert_eq!(got, body, "{coding}: untouched"),
                    (true, false) => assert_eq!(got, plain, "{coding}"),
                    (true, true) => assert!(String::from_utf8_lossy(&got).contains("lazy proxy blocked"), "{coding}"),
                }
                if judged {
                    let record = bench.ended().await;
                    assert_eq!(record.enforcement.is_some(), denied);
                    assert_eq!(record.usage.and_then(|usage| usage.output_tokens), Some(5), "{coding}");
                }
            }
        }
    }
}

#[tokio::test]
async fn an_encoding_that_breaks_off_or_is_not_known_does_not_pass() {
    let plain = [START, tool_events("src/main.rs").as_bytes()].concat();
    for (coding, body) in encoded(&plain).into_iter().chain([("gzip, br", plain.clone()), ("snappy", plain.clone())]) {
        let bench = policed().await;
        let key = bench.placeholder();
        let (response, ()) = tokio::join!(bench.post(key.expose(), request()), async {
            let mut arrived = bench.arrived().await;
            let half = &body[..body.len() - body.len() / 3];
            let head = format!(
                "content-type: text/event-stream\r\ncontent-encoding: {coding}\r\ncontent-length: {}",
                half.len()
            );
            arrived.write(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n")).await;
            arrived.stream.write_all(half).await.ok();
        });
        let status = response.status().as_u16();
        let outcome = read_body(response.into_body(), 1 << 20).await;
        match coding {
            "gzip, br" | "snappy" => assert_eq!(status, 502, "{coding}"),
            _ => assert!(status == 200 && outcome.is_err(), "{coding}: ended as whole"),
        }
    }
}
