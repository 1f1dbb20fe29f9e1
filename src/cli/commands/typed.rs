//! `lazy fix`, `lazy refactor`, `lazy document`: a task with a method in its prompt.

use argh::{ArgsInfo, FromArgs};

use super::create::{Form, create};
use super::system;
use crate::base::{Error, Result};
use crate::cli::app::App;
use crate::cli::table::Run;
use crate::cli::{fields, input};
use crate::model::TaskType;
use crate::rpc::commands as rpc;

macro_rules! typed {
    ($(#[$doc:meta])* $name:ident, $kind:expr, $prompt:literal) => {
        $(#[$doc])*
        #[derive(Debug, FromArgs, ArgsInfo)]
        pub(crate) struct $name {
            /// what is to be achieved, in one line
            #[argh(option, arg_name = "text")]
            goal: Option<String>,
            /// what the agent is told, in front of the method; also read from standard input
            #[argh(option, arg_name = "text")]
            prompt: Option<String>,
            /// the model
            #[argh(option, arg_name = "model", from_str_fn(fields::model))]
            model: Option<String>,
            /// a handle for the task
            #[argh(option, arg_name = "code")]
            code: Option<String>,
            /// a parent task, or the branch the work goes into
            #[argh(option, arg_name = "task|branch")]
            parent: Option<String>,
        }

        impl Run for $name {
            async fn run(self, app: App) -> Result<u8> {
                let Some(goal) = self.goal else {
                    return Err(Error::usage("a task needs a goal; give it with --goal")
                        .hint(concat!("lazy ", $prompt, " --goal \"what is to be achieved\"")));
                };
                let words = input::given(&app, self.prompt).await?;
                let params = rpc::CreateParams {
                    prompt: Some(with_method(words.as_deref(), &goal, $prompt)?),
                    goal,
                    code: self.code,
                    parent: self.parent,
                    model: self.model,
                    task_type: Some($kind),
                    ..rpc::CreateParams::default()
                };
                create(&app, &params, Form::Text).await
            }
        }
    };
}

typed!(
    /// make a task that finds and mends a defect
    Fix, TaskType::Fix, "fix"
);
typed!(
    /// make a task that changes the shape of code and not what it does
    Refactor, TaskType::Refactor, "refactor"
);
typed!(
    /// make a task that writes documents and nothing else
    Document, TaskType::Document, "document"
);

/// The person's words (the goal when there are none), a rule, the method.
fn with_method(words: Option<&str>, goal: &str, prompt: &str) -> Result<String> {
    let name = format!("{prompt}-methodology");
    let method = system::prompt(&name)
        .ok_or_else(|| Error::internal(format!("the built-in prompt {name:?} is missing from this build")))?;
    let words = words.map(str::trim).filter(|words| !words.is_empty()).unwrap_or(goal);
    Ok(format!("{words}\n\n---\n\n{}", method.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_come_first_and_the_goal_stands_in_for_them() {
        for prompt in ["fix", "refactor", "document"] {
            let text = with_method(Some(" It forgets. \n"), "goal", prompt).expect("there is a method");
            assert!(text.starts_with("It forgets.\n\n---\n\n"), "{text}");
            assert!(with_method(Some("  "), "the goal", prompt).expect("method").starts_with("the goal\n\n---\n\n"));
        }
    }
}
