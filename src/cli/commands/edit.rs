//! `lazy edit`.

use argh::{ArgsInfo, FromArgs};

use super::create::Form;
use crate::base::{Error, Result};
use crate::cli::app::App;
use crate::cli::input::{Answer, Enter};
use crate::cli::progress::Talk;
use crate::cli::session::Session;
use crate::cli::table::Run;
use crate::cli::{editor, fields, input, render};
use crate::model::{Effort, Priority, TaskType};
use crate::rpc::commands as rpc;

/// change a task that is not finished
#[derive(Debug, Default, FromArgs, ArgsInfo)]
#[argh(note = "An empty text clears: --code \"\", --parent \"\" (top level), --runner \"\" (the project's).")]
pub(crate) struct Edit {
    /// the task: its code, its id or the start of its id
    #[argh(positional)]
    task: String,
    /// the goal
    #[argh(option, arg_name = "text")]
    goal: Option<String>,
    /// the prompt; also read from standard input
    #[argh(option, arg_name = "text")]
    prompt: Option<String>,
    /// the handle
    #[argh(option, arg_name = "code")]
    code: Option<String>,
    /// the parent task, or the branch the work goes into
    #[argh(option, arg_name = "task|branch")]
    parent: Option<String>,
    /// the kind of work
    #[argh(option, long = "type", arg_name = "type", from_str_fn(fields::task_type))]
    task_type: Option<TaskType>,
    /// the model
    #[argh(option, arg_name = "model", from_str_fn(fields::model))]
    model: Option<String>,
    /// the agent; another one starts a fresh conversation
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
    /// print the report as JSON
    #[argh(switch)]
    json: bool,
}

impl Run for Edit {
    async fn run(self, app: App) -> Result<u8> {
        let form = Form::from_switch(self.json);
        let mut params = rpc::EditParams {
            task: self.task,
            goal: self.goal,
            prompt: self.prompt,
            model: self.model,
            effort: self.effort,
            task_type: self.task_type,
            code: self.code,
            parent: self.parent,
            runner: self.runner,
            agent: self.agent,
            priority: self.priority,
        };
        if is_empty(&params) {
            fill(&app, &mut params).await?;
        }
        let session = Session::open(&app, form.talk()).await?;
        let report = session.call::<rpc::Edit>(&params).await?;
        match form {
            Form::Json => app.print_json(&report)?,
            Form::Text => app.print(render::moved::edited(&report, app.style))?,
        }
        Ok(0)
    }
}

fn is_empty(params: &rpc::EditParams) -> bool {
    let rpc::EditParams { task: _, goal, prompt, model, effort, task_type, code, parent, runner, agent, priority } =
        params;
    [goal, prompt, model, code, parent, runner, agent].iter().all(|field| field.is_none())
        && effort.is_none()
        && task_type.is_none()
        && priority.is_none()
}

/// With no flag: a piped prompt, or questions.
async fn fill(app: &App, params: &mut rpc::EditParams) -> Result<()> {
    if !app.process.stdin_is_terminal() {
        params.prompt = input::given(app, None).await?;
        return if params.prompt.is_some() {
            Ok(())
        } else {
            Err(Error::usage("nothing to change was given").hint("lazy edit --help"))
        };
    }
    let session = Session::open(app, Talk::Narrate).await?;
    let report = session.call::<rpc::Show>(&rpc::TaskParams { task: params.task.clone() }).await?;
    let goal = input::ask_line(app, "Goal", &report.task.goal)?;
    params.goal = (goal != report.task.goal).then_some(goal);
    if input::confirm(app, "Edit the prompt in your editor?", Enter::No)? == Answer::Yes {
        let prompt = editor::write(app, "the prompt", &report.task.prompt).await?;
        params.prompt = prompt.filter(|prompt| *prompt != report.task.prompt);
    }
    Ok(())
}
