//! The talk of a build, in short lines.

use crate::base::{Error, text};

/// The longest line told.
const WIDTH: usize = 110;

/// Hears what an engine says and keeps the steps.
#[derive(Debug, Default)]
pub(super) struct Steps {
    last: String,
}

impl Steps {
    /// `image: step 3/9: RUN apt-get …` when a new step begins.
    pub fn hear(&mut self, line: &str) -> Option<String> {
        let said = step(line.trim())?;
        if said == self.last {
            return None;
        }
        self.last.clone_from(&said);
        Some(text::truncate_columns(&format!("image: {said}"), WIDTH))
    }
}

/// A build's failure without the builder's small talk: the last step, and what was said about it. The two streams of the
/// engine's program come in no order, so that nothing is left out for where it stands, and the step comes first.
pub(super) fn without_small_talk(error: Error, doing: &str) -> Error {
    const TALK: [&str; 7] = [
        "DEPRECATED:",
        "Install the buildx component",
        "https://docs.docker.com/go/buildx",
        "Sending build context",
        "---> ",
        "Removing intermediate container",
        "-->",
    ];
    let lines: Vec<&str> = error.message().lines().skip(1).collect();
    let is_step = |line: &&&str| step(line.trim()).is_some();
    let is_talk = |line: &&&str| line.trim().is_empty() || TALK.iter().any(|talk| line.trim().starts_with(talk));
    let last = lines.iter().rfind(is_step);
    let rest = lines.iter().filter(|line| !is_step(line) && !is_talk(line));
    let told: Vec<&str> = last.into_iter().chain(rest).copied().collect();
    if told.is_empty() {
        return error;
    }
    let message = format!("cannot {doing}:\n{}", told.join("\n"));
    error.hints().iter().fold(Error::new(error.kind(), message), |error, hint| error.hint(hint.as_str()))
}

/// The last line of a build's failure that says something of its own.
pub(super) fn reason(error: &Error) -> String {
    let lines = error.message().lines().map(str::trim);
    let mut told = lines.filter(|line| !line.is_empty() && step(line).is_none());
    text::truncate_chars(told.next_back().unwrap_or_default(), 200)
}

/// The legacy builder says `Step 3/9 : RUN …`, podman `[1/2] STEP 3/9: RUN …`, BuildKit `#7 [tools 2/5] RUN …`.
fn step(line: &str) -> Option<String> {
    let line = match line.strip_prefix('#') {
        Some(rest) => {
            let (number, rest) = rest.split_once(' ')?;
            number.parse::<u32>().ok()?;
            let (stage, what) = rest.strip_prefix('[')?.split_once("] ")?;
            let counted = stage.split(' ').next_back()?.split_once('/')?;
            counted.0.parse::<u32>().ok()?;
            return Some(format!("step {stage}: {}", text::one_line(what)));
        }
        None => line.strip_prefix('[').and_then(|rest| Some(rest.split_once("] ")?.1)).unwrap_or(line),
    };
    let rest = line.strip_prefix("Step ").or_else(|| line.strip_prefix("STEP "))?;
    let (number, what) = rest.split_once(':')?;
    let number = number.trim();
    number.split_once('/')?.0.parse::<u32>().ok()?;
    Some(format!("step {number}: {}", text::one_line(what)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builders_steps_are_told_once() {
        let mut steps = Steps::default();
        assert_eq!(steps.hear("Step 3/9 : RUN set -eu;     a"), Some("image: step 3/9: RUN set -eu; a".into()));
        assert_eq!(steps.hear("[1/2] STEP 2/3: COPY a b"), Some("image: step 2/3: COPY a b".into()));
        assert_eq!(steps.hear("#7 [tools 2/5] RUN x"), Some("image: step tools 2/5: RUN x".into()));
        assert_eq!(steps.hear("#7 [tools 2/5] RUN x"), None);
        for talk in
            ["#7 0.123 Get:1 http://x", "#1 [internal] load build definition", " ---> ab", "Stepping", "", "#", "["]
        {
            assert_eq!(steps.hear(talk), None, "{talk}");
        }
        let error =
            Error::unavailable("cannot x:\noops\nDEPRECATED: a\nStep 1/2 : FROM b\n ---> c\nStep 2/2 : RUN d\nno");
        let said = without_small_talk(error.hint("h"), "x");
        assert_eq!((said.message(), said.hints()), ("cannot x:\nStep 2/2 : RUN d\noops\nno", &["h".to_string()][..]));
        let short = without_small_talk(Error::unavailable("it took too long"), "x");
        assert_eq!(short.message(), "it took too long");
        let long = steps.hear(&format!("Step 1/1 : RUN {}", "y".repeat(500))).expect("a step");
        assert!(long.ends_with('…') && long.chars().count() <= WIDTH, "{long}");
    }
}
