//! Every prompt there is.

/// A prompt of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prompt {
    /// The file's name without `.md`.
    pub name: &'static str,
    /// The text with its placeholders.
    pub text: &'static str,
    /// The placeholders' names.
    pub placeholders: &'static [&'static str],
    /// What it is for, in a few words.
    pub purpose: &'static str,
}

macro_rules! prompts {
    ($($name:literal [$($placeholder:literal),*] $purpose:literal;)*) => {
        /// The catalogue, in the order in which `lazy system prompts` lists it.
        pub const ALL: &[Prompt] = &[$(Prompt {
            name: $name,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/prompts/", $name, ".md")),
            placeholders: &[$($placeholder),*],
            purpose: $purpose,
        },)*];
    };
}

prompts! {
    "system-instructions" [] "how to work on a task: the first turn";
    "system-instructions-resume" [] "how to go on with a task: later turns";
    "ask-system-prompt" [] "how to answer a question without changing anything";
    "mcp-server-instructions" [] "what the server of the lazy tools says of itself";
    "tool-instructions" [] "the lazy tools an agent has";
    "chattiness-terse" [] "how much to say: little";
    "chattiness-normal" [] "how much to say: a normal amount";
    "chattiness-chatty" [] "how much to say: a lot";
    "host-process-agent-instructions" [] "where the agent runs: a process on the user's machine";
    "docker-agent-instructions" [] "where the agent runs: a container";
    "features" ["features"] "what is switched on in the project";
    "documentation" ["docs_url"] "where lazy's documentation is";
    "maintain-context" ["entries"] "files to keep in step with the work";
    "goal-context-start" ["goal"] "opens the first prompt";
    "goal-context-continue" ["goal"] "opens the prompt of a later turn";
    "comments" ["comments"] "comments left on the task";
    "fix-methodology" [] "how to work on a task of type fix";
    "refactor-methodology" [] "how to work on a task of type refactor";
    "document-methodology" [] "how to work on a task of type document";
    "feedback" ["feedback"] "the reviewer's feedback";
    "feedback-redelivery" ["feedback", "older_count"] "feedback whose turn was cut short, again";
    "resume-context" [] "going on after an interruption";
    "permission-pushback" ["count", "files"] "protected files were changed: undo or justify";
    "maintain-followup" ["count", "entries"] "files that should have kept in step did not";
    "merge-conflict-resolution" ["parent_branch", "files"] "resolve the conflicts of a merge";
    "merge-conflict-resolution-resume" ["parent_branch", "files"] "the same, in the conversation that did the work";
}
