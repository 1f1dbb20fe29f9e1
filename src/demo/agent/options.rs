//! The arguments of `lazy demo-agent`.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::agent::TurnMode;
use crate::base::{Error, Process, Result, ResultExt};

/// What the arguments say. The worktree is the directory it was started in.
#[derive(Debug)]
pub struct Options {
    /// `--read-only` gives [`TurnMode::ReadOnly`].
    pub mode: TurnMode,
    /// `--system-prompt TEXT` or `--system-prompt-file FILE`.
    pub system_prompt: String,
    /// `--resume ID`.
    pub resume: Option<String>,
    /// `--model ID`.
    pub model: Option<String>,
    /// `--mcp-config FILE`.
    pub mcp_config: Option<PathBuf>,
    /// `--sandbox DIRECTORY`; `.lazy-task-sandbox` in the worktree unless given.
    pub sandbox: PathBuf,
    /// The worktree.
    pub worktree: PathBuf,
}

impl Options {
    /// Reads the arguments. `--effort LEVEL` is taken and not used: the demo agent has no levels.
    ///
    /// # Errors
    /// [`crate::base::Kind::Usage`] for an unknown option or a missing value.
    pub fn parse(process: &Process, args: &[OsString]) -> Result<Options> {
        let worktree = process.cwd().to_path_buf();
        let mut options = Options {
            mode: TurnMode::Work,
            system_prompt: String::new(),
            resume: None,
            model: None,
            mcp_config: None,
            sandbox: worktree.join(".lazy-task-sandbox"),
            worktree,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let name = arg.to_string_lossy().into_owned();
            let mut value = || {
                args.next()
                    .cloned()
                    .ok_or_else(|| Error::usage(format!("the option {name} of demo-agent needs a value")))
            };
            match name.as_str() {
                "--read-only" => options.mode = TurnMode::ReadOnly,
                "--system-prompt" => options.system_prompt = text(&name, value()?)?,
                "--system-prompt-file" => {
                    let path = PathBuf::from(value()?);
                    options.system_prompt = std::fs::read_to_string(&path)
                        .io_context(|| format!("cannot read the system prompt {}", path.display()))?;
                }
                "--resume" => options.resume = Some(text(&name, value()?)?),
                "--model" => options.model = Some(text(&name, value()?)?),
                "--effort" => drop(value()?),
                "--mcp-config" => options.mcp_config = Some(PathBuf::from(value()?)),
                "--sandbox" => options.sandbox = PathBuf::from(value()?),
                _ => return Err(Error::usage(format!("unknown option {name:?} for demo-agent"))),
            }
        }
        Ok(options)
    }
}

fn text(name: &str, value: OsString) -> Result<String> {
    value.into_string().map_err(|_| Error::usage(format!("the value of {name} is not UTF-8 text")))
}
