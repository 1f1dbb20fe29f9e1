use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::base::Millis;
use crate::model::{Actor, Comment, RunnerKind, TaskId, TaskType};

fn section(text: &str, heading: &str) -> String {
    let start = text.find(&format!("## {heading}\n")).expect("the section is there");
    let rest = &text[start..];
    let end = rest[3..].find("\n## ").map_or(rest.len(), |at| at + 3);
    rest[..end].trim_end().to_string()
}

fn parts(variant: Variant) -> SystemPrompt<'static> {
    SystemPrompt { variant, runner: RunnerKind::Host, chattiness: None, features: &[], docs_url: None }
}

fn comment(text: &str, name: Option<&str>) -> Comment {
    Comment {
        id: "c".into(),
        task_id: TaskId::random(),
        content: text.into(),
        created_at: Millis::parse("2026-12-01T09:30:00Z").expect("a time"),
        actor: Some(Actor::Builder),
        source: None,
        actor_email: None,
        actor_name: name.map(str::to_string),
    }
}

#[test]
fn every_prompt_renders_with_its_placeholders_and_nothing_else() {
    for prompt in ALL {
        let values: Vec<(&str, &str)> = prompt.placeholders.iter().map(|name| (*name, "VALUE")).collect();
        let text = render(prompt.name, &values).expect(prompt.name);
        assert!(!text.contains("{{") && !text.contains("}}"), "{}: a placeholder was left", prompt.name);
        assert!(!text.trim().is_empty() && !prompt.purpose.is_empty());
        assert_eq!(text.matches("VALUE").count(), prompt.placeholders.len(), "{}: each is used once", prompt.name);
        for dropped in prompt.placeholders {
            let fewer: Vec<_> = values.iter().copied().filter(|(name, _)| name != dropped).collect();
            let error = render(prompt.name, &fewer).expect_err("a placeholder is not filled");
            assert!(error.message().contains(dropped) && error.message().contains(prompt.name), "{error}");
        }
        let more: Vec<_> = values.iter().copied().chain([("surplus", "x")]).collect();
        assert!(render(prompt.name, &more).expect_err("an unknown value").message().contains("surplus"));
    }
}

#[test]
fn the_catalogue_and_the_directory_agree() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/prompts");
    let files: BTreeSet<String> = std::fs::read_dir(directory)
        .expect("the directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().trim_end_matches(".md").to_string())
        .collect();
    let names: BTreeSet<String> = ALL.iter().map(|prompt| prompt.name.to_string()).collect();
    assert_eq!(names, files);
    assert_eq!(names.len(), ALL.len(), "a name is listed twice");
}

#[test]
fn the_discipline_is_the_same_in_both_instructions() {
    let first = section(&render("system-instructions", &[]).expect("renders"), "Git and transport discipline");
    let resume = section(&render("system-instructions-resume", &[]).expect("renders"), "Git and transport discipline");
    assert_eq!(first, resume);
    for word in [
        "lazy_commit",
        "git stash",
        "rebase",
        "only channel",
        "turn-handoff.jsonl",
        "\"kind\":\"journal\"",
        "\"blocking\":true",
    ] {
        assert!(first.contains(word), "{word}");
    }
}

#[test]
fn no_prompt_names_an_address() {
    for prompt in ALL {
        for word in ["http://", "https://", "localhost", "127.0.0.1", "curl "] {
            assert!(!prompt.text.contains(word), "{} tells of {word}", prompt.name);
        }
    }
}

#[test]
fn the_handoff_examples_in_the_prompt_are_what_is_read_back() {
    let text = render("system-instructions", &[]).expect("renders");
    let entries: Vec<crate::model::exchange::HandoffEntry> = text
        .lines()
        .filter(|line| line.starts_with("    {"))
        .map(|line| serde_json::from_str(line.trim()).expect("a line of the handoff file"))
        .collect();
    let kinds: Vec<(&str, Option<bool>)> = entries.iter().map(|entry| (entry.kind.as_str(), entry.blocking)).collect();
    assert_eq!(kinds, [("journal", None), ("raised", Some(false)), ("raised", Some(true))]);
}

#[test]
fn values_are_never_read_again() {
    let text = render("goal-context-start", &[("goal", "use {{goal}} and {{nothing}} and }} {{")]).expect("renders");
    assert!(text.contains("use {{goal}} and {{nothing}} and }} {{"));
}

#[test]
fn an_unknown_prompt_suggests_the_nearest() {
    let error = render("system-instruction", &[]).expect_err("no such prompt");
    assert_eq!(error.kind(), Kind::NotFound);
    assert_eq!(error.hints(), ["lazy view lazy-prompt-system-instructions"]);
}

#[test]
fn the_system_prompt_begins_with_the_chattiness() {
    let features = ["zeta".to_string(), "alpha".to_string()];
    let text = system_prompt(SystemPrompt {
        chattiness: Some("terse"),
        features: &features,
        docs_url: Some("https://docs.example.com/lazy"),
        ..parts(Variant::First)
    })
    .expect("composes");
    assert!(text.starts_with("## How much to say\n\nBe terse."), "{text}");
    let order = ["# You work on a task", "## The lazy tools", "## Where you run", "- `alpha`\n- `zeta`", "example.com"];
    let places: Vec<usize> = order.iter().map(|part| text.find(part).expect(part)).collect();
    assert!(places.is_sorted(), "{places:?}");
    let plain = system_prompt(parts(Variant::First)).expect("composes");
    assert!(plain.starts_with("# You work on a task") && !plain.contains("How much") && !plain.contains("Switched on"));
    let error = system_prompt(SystemPrompt { chattiness: Some("loud"), ..parts(Variant::First) });
    assert!(error.expect_err("unknown").message().contains("terse, normal or chatty"));
}

#[test]
fn the_variants_and_runners_differ() {
    assert!(system_prompt(parts(Variant::Resume)).expect("composes").starts_with("# You go on"));
    let ask = system_prompt(parts(Variant::Ask)).expect("composes");
    assert!(ask.starts_with("## The lazy tools") && !ask.contains("Git and transport"), "its rules are put before it");
    let docker = SystemPrompt { runner: RunnerKind::Docker, ..parts(Variant::First) };
    let podman = SystemPrompt { runner: RunnerKind::Podman, ..parts(Variant::First) };
    let text = system_prompt(docker).expect("composes");
    assert!(text.contains("passwordless `sudo`"));
    assert_eq!(text, system_prompt(podman).expect("composes"));
    assert!(!system_prompt(parts(Variant::First)).expect("composes").contains("sudo"));
}

#[test]
fn the_first_prompt_holds_goal_comments_methodology_and_request() {
    let comments = [comment("first line\nsecond", None), comment("also this", Some("Ada"))];
    let text = turn_prompt(TurnPrompt {
        goal: "Mend the clock",
        task_type: TaskType::Fix,
        comments: &comments,
        body: Body::Prompt("It runs {{backwards}}.\n"),
    })
    .expect("composes");
    let order = [
        "Your task: Mend the clock",
        "- 2026-12-01 09:30, builder: first line\n  second\n- 2026-12-01 09:30, Ada: also this",
        "How to work on a fix",
        "It runs {{backwards}}.",
    ];
    let places: Vec<usize> = order.iter().map(|part| text.find(part).expect(part)).collect();
    assert!(places.is_sorted() && text.ends_with("{{backwards}}."), "{text}");
}

#[test]
fn later_prompts_carry_their_message() {
    let parts = |body| TurnPrompt { goal: "g", task_type: TaskType::Fix, comments: &[], body };
    let text = turn_prompt(parts(Body::Feedback("rename it"))).expect("composes");
    assert!(text.starts_with("The task you go on with: g") && text.contains("rename it"));
    assert!(!text.contains("How to work on a fix"), "the way of working is told once");
    assert!(turn_prompt(parts(Body::Resume)).expect("composes").contains("was interrupted"));
    assert!(turn_prompt(parts(Body::Message("as it is"))).expect("composes").ends_with("\n\nas it is"));
    assert!(turn_prompt(parts(Body::Feedback(" \n"))).is_err());
    assert!(turn_prompt(parts(Body::Prompt(""))).is_err());
}

#[test]
fn redelivered_feedback_keeps_its_order_and_counts_the_older() {
    let text = redelivery(&["one".into(), " ".into(), "two".into()]).expect("composes");
    assert!(text.contains("unread too: 1.") && text.contains("one\n\n---\n\ntwo"), "{text}");
    assert!(redelivery(&["only".into()]).expect("composes").contains("unread too: 0."));
    assert!(redelivery(&[]).is_err());
}

proptest! {
    #[test]
    fn any_value_arrives_whole(value in "\\PC*") {
        let text = render("comments", &[("comments", &format!("<{value}>"))]).expect("renders");
        let wanted = format!("<{value}>");
        prop_assert!(text.contains(&wanted));
    }
}
