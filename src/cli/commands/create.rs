//! `lazy create`.

use argh::{ArgsInfo, FromArgs};

use crate::base::{Error, Result};
use crate::cli::app::App;
use crate::cli::progress::Talk;
use crate::cli::session::Session;
use crate::cli::table::Run;
use crate::cli::{editor, fields, input, render};
use crate::model::{Effort, Priority, TaskType};
use crate::rpc::commands as rpc;

/// make a task in the backlog
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(example = "lazy create \"Fix the login\" --prompt \"The form loses the password …\" --code fix-login")]
pub(crate) struct Create {
    /// what is to be achieved, in one line; as --goal
    #[argh(positional, arg_name = "goal")]
    words: Option<String>,
    /// what is to be achieved, in one line
    #[argh(option, arg_name = "text")]
    goal: Option<String>,
    /// what the agent is told; also read from standard input
    #[argh(option, arg_name = "text")]
    prompt: Option<String>,
    /// a handle for the task: lower-case letters, digits, hyphens
    #[argh(option, arg_name = "code")]
    code: Option<String>,
    /// a parent task, or the branch the work goes into
    #[argh(option, arg_name = "task|branch")]
    parent: Option<String>,
    /// the kind of work
    #[argh(option, long = "type", arg_name = "type", from_str_fn(fields::task_type))]
    task_type: Option<TaskType>,
    /// the model
    #[argh(option, arg_name = "model", from_str_fn(fields::model))]
    model: Option<String>,
    /// the agent
    #[argh(option, arg_name = "agent")]
    agent: Option<String>,
    /// low, medium, high, xhigh or max
    #[argh(option, arg_name = "effort", from_str_fn(fields::effort))]
    effort: Option<Effort>,
    /// host, docker or podman
    #[argh(option, arg_name = "runner", from_str_fn(fields::runner))]
    runner: Option<String>,
    /// low, normal, high or urgent
    #[argh(option, arg_name = "priority", from_str_fn(fields::priority))]
    priority: Option<Priority>,
    /// a label
    #[argh(option, arg_name = "tag")]
    tag: Vec<String>,
    /// print the report as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Create {
    async fn run(self, app: App) -> Result<u8> {
        if self.words.is_some() && self.goal.is_some() {
            return Err(Error::usage("the goal is given twice").hint("lazy create --goal \"what is to be achieved\""));
        }
        let (goal, prompt) = match self.goal.or(self.words) {
            Some(goal) => (goal, input::given(&app, self.prompt).await?),
            None => ask(&app, self.prompt).await?,
        };
        let params = rpc::CreateParams {
            goal,
            prompt,
            code: self.code,
            parent: self.parent,
            model: self.model,
            task_type: self.task_type,
            agent: self.agent,
            effort: self.effort,
            runner: self.runner,
            priority: self.priority,
            tags: self.tag,
        };
        create(&app, &params, Form::from_switch(self.json)).await
    }
}

/// How a report is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl Form {
    /// From `--json`.
    pub fn from_switch(json: bool) -> Form {
        if json { Form::Json } else { Form::Text }
    }

    /// Whether a command with this answer narrates.
    pub fn talk(self) -> Talk {
        if self == Form::Json { Talk::Silent } else { Talk::Narrate }
    }
}

/// Makes the task and prints it.
pub(crate) async fn create(app: &App, params: &rpc::CreateParams, form: Form) -> Result<u8> {
    if params.goal.trim().is_empty() {
        return Err(Error::usage("the goal is empty").hint("lazy create --goal \"what is to be achieved\""));
    }
    let session = Session::open(app, form.talk()).await?;
    let report = session.call::<rpc::Create>(params).await?;
    match form {
        Form::Json => app.print_json(&report)?,
        Form::Text => app.print(render::moved::created(&report, app.style))?,
    }
    Ok(0)
}

async fn ask(app: &App, prompt: Option<String>) -> Result<(String, Option<String>)> {
    if !app.process.stdin_is_terminal() {
        return Err(Error::usage("a task needs a goal; give it with --goal")
            .hint("lazy create --goal \"what is to be achieved\" --prompt \"what the agent is told\""));
    }
    let goal = input::ask_line(app, "Goal", "")?;
    if goal.is_empty() {
        return Err(Error::usage("the goal is empty").hint("lazy create --goal \"what is to be achieved\""));
    }
    let prompt = match prompt {
        Some(prompt) => Some(prompt),
        None => editor::write(app, "the prompt", &format!("\n# The prompt for: {goal}\n")).await?,
    };
    Ok((goal, prompt))
}
