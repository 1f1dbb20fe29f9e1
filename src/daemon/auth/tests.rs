use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::{Code, TaskRef};

const A: &str = "aaaaaaaa-0000-4000-8000-000000000001";

fn minted(kind: IdentityKind) -> Presented {
    Presented::Minted(Box::new(Identity {
        token: Token::random(),
        kind,
        task_id: (kind == IdentityKind::Task).then(|| A.parse().expect("id")),
        email: (kind == IdentityKind::User).then(|| "ann@example.com".into()),
        name: (kind == IdentityKind::User).then(|| "Ann".into()),
        label: "x".into(),
        created_at: String::new(),
        owner_pid: None,
    }))
}

fn own() -> Named {
    Named { id: A.parse().expect("id"), code: Some(Code::read("fix")), task_ref: Some(TaskRef::read("fix")) }
}

/// The status of each surface for one token: `/rpc`, shutdown, `/mcp/<own>`, `/mcp/<other>`, `/mcp/_`.
fn statuses(presented: impl Fn() -> Presented) -> [u16; 5] {
    fn status<T>(result: Result<T>) -> u16 {
        result.map_or_else(|error| error.kind().http_status(), |_| 200)
    }
    let mcp = |segment: &str| {
        status(session(presented()).and_then(|session| authorize(session, &claim(segment)?, Some(&own())).map(drop)))
    };
    [
        status(principal(presented())),
        status(require_control(presented(), "end the daemon")),
        mcp("fix"),
        mcp("other"),
        mcp("_"),
    ]
}

#[test]
fn the_table() {
    assert_eq!(statuses(|| Presented::Nothing), [401; 5]);
    assert_eq!(statuses(|| Presented::Unknown), [401; 5]);
    assert_eq!(statuses(|| Presented::Shared), [200, 200, 401, 401, 401]);
    assert_eq!(statuses(|| minted(IdentityKind::Control)), [200, 200, 401, 401, 401]);
    assert_eq!(statuses(|| minted(IdentityKind::User)), [200, 403, 401, 401, 401]);
    assert_eq!(statuses(|| minted(IdentityKind::Task)), [401, 401, 200, 403, 403]);
    assert_eq!(statuses(|| minted(IdentityKind::Builder)), [401, 401, 403, 403, 200]);
}

#[test]
fn a_task_may_be_claimed_under_every_name_and_no_other() {
    let session = Session::Task(A.parse().expect("id"));
    for name in [A, "aaaaaaaa", "fix"] {
        let caller = authorize(session, &claim(name).expect("reads"), Some(&own())).expect(name);
        assert_eq!(caller.own_task(), Some(A.parse().expect("id")));
        assert_eq!(caller.by.actor, Actor::Agent);
    }
    let error = authorize(session, &Claim::Task("other".into()), Some(&own())).expect_err("another task");
    assert!(error.message().contains("fix") && error.message().contains("other"), "{error}");
    assert_eq!(authorize(session, &Claim::Task(A.into()), None).expect_err("gone").kind(), Kind::NotFound);
    assert_eq!(authorize(session, &Claim::Task("fix".into()), None).expect_err("gone").kind(), Kind::Forbidden);
}

#[test]
fn a_token_in_the_path_is_named_and_not_repeated() {
    let token = Token::random();
    for secret in [token.expose(), "sk-ant-api03-lazy-0123", &format!("x-{}", token.expose())] {
        let error = claim(secret).expect_err("a token");
        assert_eq!(error.kind(), Kind::Invalid);
        assert!(error.message().contains("Authorization"), "{error}");
        assert!(!error.message().contains(secret));
    }
    for bad in ["", "-a", ".a", "a b", "a/b", "a?b", "é", &"x".repeat(81)] {
        assert_eq!(claim(bad).expect_err(bad).kind(), Kind::Invalid);
    }
    assert!(claim(&"x".repeat(80)).is_ok());
    assert!(!looks_like_token(A), "an id is no token");
}

#[test]
fn the_scheme_is_read_in_any_case_and_nothing_else_is() {
    let read = |value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", value.parse().expect("a header"));
        bearer(&headers).map(str::to_string)
    };
    assert_eq!(read("Bearer abc").as_deref(), Some("abc"));
    assert_eq!(read("bearer  abc ").as_deref(), Some("abc"));
    for bad in ["abc", "Basic abc", "Bearer", "Bearer  "] {
        assert_eq!(read(bad), None, "{bad}");
    }
}

#[test]
fn control_names_an_actor_and_a_person_is_pinned() {
    let take = |principal: Principal, params: Value| {
        let mut params = params.as_object().cloned().expect("an object");
        take_caller(principal, &mut params).map(|caller| (caller, params))
    };
    let (caller, rest) =
        take(Principal::Control, json!({"actor": "builder", "actor_email": "b@x", "task": "a"})).expect("ok");
    assert_eq!((caller.by.actor, caller.by.actor_email.as_deref()), (Actor::Builder, Some("b@x")));
    assert_eq!(Value::Object(rest), json!({"task": "a"}));
    let (caller, _) = take(Principal::Control, json!({})).expect("ok");
    assert_eq!((caller.by.actor, caller.kind), (Actor::Human, CallerKind::Control));
    for bad in [json!({"actor": "root"}), json!({"actor": 1}), json!({"actor": ""}), json!({"actor_name": []})] {
        assert_eq!(take(Principal::Control, bad).expect_err("no actor").kind(), Kind::Invalid);
    }
    let ann = || Principal::Person { email: Some("ann@example.com".into()), name: Some("Ann".into()) };
    for own in [json!({}), json!({"actor": "human"}), json!({"actor_email": "ann@example.com", "actor_name": "Ann"})] {
        let (caller, rest) = take(ann(), own).expect("herself");
        assert_eq!(caller.by.actor_email.as_deref(), Some("ann@example.com"));
        assert_eq!(caller.kind, CallerKind::User);
        assert!(rest.is_empty());
    }
    for foreign in [json!({"actor": "system"}), json!({"actor_email": "bob@x"}), json!({"actor_name": "Bob"})] {
        assert_eq!(take(ann(), foreign).expect_err("another").kind(), Kind::Forbidden);
    }
}

proptest! {
    #[test]
    fn a_claim_is_never_something_a_path_or_log_could_misread(segment in ".{0,100}") {
        if let Ok(Claim::Task(name)) = claim(&segment) {
            prop_assert_eq!(&name, &segment);
            prop_assert!(name.len() <= SEGMENT_LIMIT && !looks_like_token(&name));
            prop_assert!(name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/'));
        }
    }
}
