//! The one list of commands: help, completion and dispatch read it.

use std::future::Future;
use std::pin::Pin;

use argh::{ArgsInfo, CommandInfoWithArgs, FromArgs};

use super::app::App;
use super::commands as c;
use crate::base::Result;

/// A command that runs.
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<u8>>>>;

/// A command: its arguments are the struct, its work is [`Run::run`].
pub(crate) trait Run: FromArgs + ArgsInfo + 'static {
    /// Does it and returns the exit code.
    fn run(self, app: App) -> impl Future<Output = Result<u8>>;
}

/// Groups of the overview, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// Making and reshaping tasks.
    Tasks,
    /// Running and reviewing them.
    Work,
    /// Looking.
    Inspect,
    /// The project.
    Setup,
    /// The daemon.
    Daemon,
    /// The installation.
    System,
    /// Not shown.
    Hidden,
}

impl Group {
    /// In the order of the overview.
    pub const SHOWN: [(Group, &'static str); 6] = [
        (Group::Tasks, "Task management"),
        (Group::Work, "Working on tasks"),
        (Group::Inspect, "Inspect"),
        (Group::Setup, "Setup"),
        (Group::Daemon, "Daemon"),
        (Group::System, "System"),
    ];
}

/// A row of the table.
pub(crate) struct Entry {
    /// The words that name it: `start`, `daemon stop`.
    pub words: &'static str,
    /// Where the overview shows it.
    pub group: Group,
    /// Its flags, words and description.
    pub info: fn() -> CommandInfoWithArgs,
    /// Parses plain words and starts it; the error is `argh`'s text.
    pub run: fn(App, &[&str]) -> std::result::Result<Running, String>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "lazy {}", self.words)
    }
}

const fn row<C: Run>(words: &'static str, group: Group) -> Entry {
    Entry { words, group, info: info::<C>, run: start::<C> }
}

fn info<C: Run>() -> CommandInfoWithArgs {
    C::get_args_info()
}

fn start<C: Run>(app: App, argv: &[&str]) -> std::result::Result<Running, String> {
    let command = C::from_args(&["lazy"], argv).map_err(|exit| exit.output)?;
    Ok(Box::pin(command.run(app)))
}

/// Every command.
pub(crate) const COMMANDS: &[Entry] = &[
    row::<c::create::Create>("create", Group::Tasks),
    row::<c::typed::Fix>("fix", Group::Tasks),
    row::<c::typed::Refactor>("refactor", Group::Tasks),
    row::<c::typed::Document>("document", Group::Tasks),
    row::<c::edit::Edit>("edit", Group::Tasks),
    row::<c::notes::Comment>("comment", Group::Tasks),
    row::<c::notes::Journal>("journal", Group::Tasks),
    row::<c::notes::Tag>("tag", Group::Tasks),
    row::<c::notes::Untag>("untag", Group::Tasks),
    row::<c::ending::Prioritize>("prioritize", Group::Tasks),
    row::<c::start::Start>("start", Group::Work),
    row::<c::wait::Wait>("wait", Group::Work),
    row::<c::watch::Watch>("watch", Group::Work),
    row::<c::ask::Ask>("ask", Group::Work),
    row::<c::unblock::Unblock>("unblock", Group::Work),
    row::<c::start::Resume>("resume", Group::Work),
    row::<c::start::Sync>("sync", Group::Work),
    row::<c::ending::Stop>("stop", Group::Work),
    row::<c::accept::Accept>("accept", Group::Work),
    row::<c::ending::Reject>("reject", Group::Work),
    row::<c::ending::Close>("close", Group::Work),
    row::<c::ending::Reopen>("reopen", Group::Work),
    row::<c::list::List>("list", Group::Inspect),
    row::<c::list::Active>("active", Group::Inspect),
    row::<c::list::Blocked>("blocked", Group::Inspect),
    row::<c::show::Show>("show", Group::Inspect),
    row::<c::show::View>("view", Group::Inspect),
    row::<c::status::TaskState>("status", Group::Inspect),
    row::<c::diff::Diff>("diff", Group::Inspect),
    row::<c::shell::Shell>("shell", Group::Inspect),
    row::<c::search::Search>("search", Group::Inspect),
    row::<c::raised::List>("raised", Group::Inspect),
    row::<c::raised::List>("raised list", Group::Inspect),
    row::<c::raised::Respond>("raised respond", Group::Inspect),
    row::<c::raised::Acknowledge>("raised acknowledge", Group::Inspect),
    row::<c::raised::Dismiss>("raised dismiss", Group::Inspect),
    row::<c::raised::Promote>("raised promote", Group::Inspect),
    row::<c::raised::Blocking>("raised blocking", Group::Inspect),
    row::<c::stats::Audit>("stats audit", Group::Inspect),
    row::<c::stats::Tokens>("stats tokens", Group::Inspect),
    row::<c::init::Init>("init", Group::Setup),
    row::<c::doctor::Doctor>("doctor", Group::Setup),
    row::<c::config::Show>("config show", Group::Setup),
    row::<c::config::Lookup>("config get", Group::Setup),
    row::<c::config::Path>("config path", Group::Setup),
    row::<c::config::Check>("config check", Group::Setup),
    row::<c::policy::Check>("policy check", Group::Setup),
    row::<c::policy::Replay>("policy replay", Group::Setup),
    row::<super::demo::Demo>("demo", Group::Setup),
    row::<c::daemon::Start>("daemon start", Group::Daemon),
    row::<c::daemon::Stop>("daemon stop", Group::Daemon),
    row::<c::daemon::Restart>("daemon restart", Group::Daemon),
    row::<c::daemon::Status>("daemon status", Group::Daemon),
    row::<c::daemons::List>("daemon list", Group::Daemon),
    row::<c::daemons::KillStray>("daemon kill-stray", Group::Daemon),
    row::<c::logs::Logs>("daemon logs", Group::Daemon),
    row::<c::system::State>("system status", Group::System),
    row::<c::system::Prompts>("system prompts", Group::System),
    row::<c::image::Build>("system build", Group::System),
    row::<c::image::ExportDockerfile>("system export-dockerfile", Group::System),
    row::<c::upgrade::Upgrade>("upgrade", Group::System),
    row::<c::completion::Completion>("completion", Group::System),
];

const ALIASES: &[(&str, &str)] = &[("ls", "list"), ("tasks", "list"), ("doc", "document")];
const SUB_ALIASES: &[(&str, &str, &str)] = &[
    ("raised", "ls", "list"),
    ("raised", "ack", "acknowledge"),
    ("raised", "answer", "respond"),
    ("daemon", "ls", "list"),
];

/// What families of commands are about.
const FAMILIES: &[(&str, &str)] = &[
    ("config", "the project's configuration: effective values, one value, where it is, whether it loads"),
    ("daemon", "the background process that owns the project's tasks"),
    ("policy", "the rules for tool calls: what they say to one, and to those that were made"),
    ("stats", "what the audit trail tells: requests, tokens; and whether it is what was written"),
    ("system", "the installation: its state, the image of containers, the built-in prompts"),
];

/// The row for exactly these words.
pub(crate) fn entry(words: &str) -> Option<&'static Entry> {
    COMMANDS.iter().find(|entry| entry.words == words)
}

/// First words: commands and families, each once.
pub(crate) fn topics() -> impl Iterator<Item = &'static str> {
    let mut seen: Vec<&'static str> = Vec::new();
    COMMANDS.iter().map(|entry| first_word(entry.words)).filter(move |word| {
        let fresh = !seen.contains(word);
        if fresh {
            seen.push(word);
        }
        fresh
    })
}

/// First words and aliases that a person may type.
pub(crate) fn names_for_people() -> impl Iterator<Item = &'static str> {
    topics().chain(ALIASES.iter().map(|(alias, _)| *alias))
}

/// The rows below a family, as whole words (`daemon stop`).
pub(crate) fn subcommands(family: &str) -> impl Iterator<Item = &'static str> {
    COMMANDS
        .iter()
        .map(|entry| entry.words)
        .filter(move |words| words.split_once(' ').is_some_and(|(first, _)| first == family))
}

/// The group a first word is shown in.
pub(crate) fn group(topic: &str) -> Group {
    COMMANDS.iter().find(|entry| first_word(entry.words) == topic).map_or(Group::Hidden, |entry| entry.group)
}

/// What a first word is about, in one line.
pub(crate) fn description(topic: &str) -> String {
    match FAMILIES.iter().find(|(family, _)| *family == topic) {
        Some((_, text)) => (*text).to_string(),
        None => entry(topic).map(|entry| (entry.info)().description.to_string()).unwrap_or_default(),
    }
}

/// Aliases of a first word.
pub(crate) fn aliases(topic: &str) -> impl Iterator<Item = &'static str> {
    ALIASES.iter().filter(move |(_, name)| *name == topic).map(|(alias, _)| *alias)
}

/// The command an alias stands for.
pub(crate) fn canonical(word: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == word).map_or(word, |(_, name)| name)
}

/// The subcommand an alias stands for.
pub(crate) fn canonical_sub<'a>(family: &str, word: &'a str) -> &'a str {
    SUB_ALIASES.iter().find(|(f, alias, _)| *f == family && *alias == word).map_or(word, |(_, _, name)| name)
}

/// The last word of a row's words.
pub(crate) fn last_word(words: &str) -> &str {
    words.rsplit_once(' ').map_or(words, |(_, last)| last)
}

fn first_word(words: &'static str) -> &'static str {
    words.split_once(' ').map_or(words, |(first, _)| first)
}
