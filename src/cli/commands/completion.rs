//! `lazy completion`: a script for the shell, made from the table of commands.

use argh::{ArgsInfo, FromArgs};

use crate::base::{Error, Result};
use crate::cli::app::App;
use crate::cli::table::{self, Group, Run};
use crate::cli::words;

/// a completion script for your shell
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    example = "eval \"$(lazy completion bash)\"          # in ~/.bashrc",
    example = "eval \"$(lazy completion zsh)\"           # in ~/.zshrc",
    example = "lazy completion fish | source            # in ~/.config/fish/config.fish"
)]
pub(crate) struct Completion {
    /// bash, zsh or fish
    #[argh(positional)]
    shell: Option<String>,
    /// for bash
    #[argh(switch)]
    bash: bool,
    /// for zsh
    #[argh(switch)]
    zsh: bool,
    /// for fish
    #[argh(switch)]
    fish: bool,
}

impl Run for Completion {
    async fn run(self, app: App) -> Result<u8> {
        let flags = [(self.bash, "bash"), (self.zsh, "zsh"), (self.fish, "fish")];
        let mut wanted: Vec<&str> = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
        wanted.extend(self.shell.as_deref());
        let script = match wanted[..] {
            ["bash"] => bash(),
            ["zsh"] => zsh(),
            ["fish"] => fish(),
            [other] => {
                return Err(Error::usage(format!(
                    "there is no completion for {other:?}; there is one for bash, zsh, fish"
                ))
                .hint("lazy completion bash"));
            }
            _ => return Err(Error::usage("name one shell: bash, zsh or fish").hint("lazy completion bash")),
        };
        app.print(script)?;
        Ok(0)
    }
}

/// Commands whose first word is a finished task.
const FINISHED: &[&str] = &["reopen", "show", "view", "diff"];

fn names() -> String {
    let visible = table::topics().filter(|topic| table::group(topic) != Group::Hidden);
    visible.flat_map(|topic| std::iter::once(topic).chain(table::aliases(topic))).collect::<Vec<_>>().join(" ")
}

fn flags(entry: &table::Entry) -> Vec<String> {
    let info = (entry.info)();
    let own = info.flags.iter().filter(|flag| !flag.hidden && words::bare(flag) != "help");
    own.map(|flag| format!("--{}", words::bare(flag))).chain(["--help".to_string()]).collect()
}

fn takes_task(entry: &table::Entry) -> bool {
    (entry.info)().positionals.iter().any(|positional| matches!(positional.name, "task" | "tasks" | "id"))
}

/// The cases that both Bourne shells read: flags of a command, subcommands of a family, whether words are tasks.
fn cases() -> (String, String, String) {
    let (mut by_flag, mut by_family, mut by_task) = (String::new(), String::new(), String::new());
    for entry in table::COMMANDS.iter().filter(|entry| entry.group != Group::Hidden) {
        by_flag.push_str(&format!("    '{}') words='{}' ;;\n", entry.words, flags(entry).join(" ")));
        if takes_task(entry) {
            let all = if FINISHED.contains(&entry.words) { " --all" } else { "" };
            by_task.push_str(&format!("    '{}') words=$(lazy list{all} --ids-only 2>/dev/null) ;;\n", entry.words));
        }
    }
    for topic in table::topics() {
        let subs: Vec<&str> = table::subcommands(topic).map(table::last_word).collect();
        if !subs.is_empty() {
            by_family.push_str(&format!("    '{topic}') words='{}' ;;\n", subs.join(" ")));
        }
    }
    (by_flag, by_family, by_task)
}

fn bash() -> String {
    let (by_flag, by_family, by_task) = cases();
    format!(
        r#"# lazy completion for bash
_lazy_words() {{
  local first=$1 second=$2 position=$3 current=$4 words='' command=$1
  if [ "$position" -eq 1 ]; then
    words='{names}'
  else
    case "$first" in
    ls|tasks) command=list ;;
    doc) command=document ;;
    esac
    case "$command" in
{by_family}    esac
    if [ -n "$words" ] && [ "$position" -gt 2 ]; then
      command="$first $second"
      words=''
    elif [ -n "$words" ] && [ "${{current#-}}" = "$current" ]; then
      printf '%s\n' $words
      return
    fi
    words=''
    if [ "${{current#-}}" != "$current" ]; then
      case "$command" in
{by_flag}      esac
    else
      case "$command" in
{by_task}      esac
    fi
  fi
  printf '%s\n' $words
}}
_lazy() {{
  local current=${{COMP_WORDS[COMP_CWORD]}}
  COMPREPLY=($(compgen -W "$(_lazy_words "${{COMP_WORDS[1]}}" "${{COMP_WORDS[2]}}" "$COMP_CWORD" "$current")" -- "$current"))
}}
complete -o default -F _lazy lazy
"#,
        names = names()
    )
}

fn zsh() -> String {
    let (by_flag, by_family, by_task) = cases();
    format!(
        r#"#compdef lazy
# lazy completion for zsh
_lazy() {{
  local first=${{words[2]}} second=${{words[3]}} position=$((CURRENT - 1)) current=${{words[CURRENT]}}
  local -a found
  found=(${{(f)"$(_lazy_words "$first" "$second" "$position" "$current")"}})
  compadd -- $found
}}
_lazy_words() {{
  emulate -L sh
  local first=$1 second=$2 position=$3 current=$4 words='' command=$1
  if [ "$position" -eq 1 ]; then
    words='{names}'
  else
    case "$first" in
    ls|tasks) command=list ;;
    doc) command=document ;;
    esac
    case "$command" in
{by_family}    esac
    if [ -n "$words" ] && [ "$position" -gt 2 ]; then
      command="$first $second"
      words=''
    elif [ -n "$words" ] && [ "${{current#-}}" = "$current" ]; then
      printf '%s\n' $words
      return
    fi
    words=''
    if [ "${{current#-}}" != "$current" ]; then
      case "$command" in
{by_flag}      esac
    else
      case "$command" in
{by_task}      esac
    fi
  fi
  printf '%s\n' $words
}}
if [ -n "$ZSH_VERSION" ] && (( $+functions[compdef] )); then
  compdef _lazy lazy
fi
"#,
        names = names()
    )
}

fn fish() -> String {
    let mut out = String::from("# lazy completion for fish\ncomplete -c lazy -f\n");
    for topic in table::topics().filter(|topic| table::group(topic) != Group::Hidden) {
        for name in std::iter::once(topic).chain(table::aliases(topic)) {
            let about = quoted(&table::description(topic));
            out.push_str(&format!("complete -c lazy -n __fish_use_subcommand -a {name} -d {about}\n"));
        }
    }
    for entry in table::COMMANDS.iter().filter(|entry| entry.group != Group::Hidden) {
        let condition = condition(entry.words);
        if let Some((family, sub)) = entry.words.split_once(' ') {
            let subs: Vec<&str> = table::subcommands(family).map(table::last_word).collect();
            let not_yet =
                format!("__fish_seen_subcommand_from {family}; and not __fish_seen_subcommand_from {}", subs.join(" "));
            let about = quoted(&table::description(entry.words));
            out.push_str(&format!("complete -c lazy -n '{not_yet}' -a {sub} -d {about}\n"));
        }
        for flag in (entry.info)().flags.iter().filter(|flag| !flag.hidden) {
            let value = if matches!(flag.kind, argh::FlagInfoKind::Option { .. }) { " -r" } else { "" };
            let about = quoted(flag.description);
            out.push_str(&format!("complete -c lazy -n '{condition}' -l {}{value} -d {about}\n", words::bare(flag)));
        }
        if takes_task(entry) {
            let all = if FINISHED.contains(&entry.words) { " --all" } else { "" };
            out.push_str(&format!("complete -c lazy -n '{condition}' -a '(lazy list{all} --ids-only 2>/dev/null)'\n"));
        }
    }
    out
}

fn condition(words: &str) -> String {
    words.split(' ').map(|word| format!("__fish_seen_subcommand_from {word}")).collect::<Vec<_>>().join("; and ")
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_knows_every_command() {
        for script in [bash(), zsh(), fish()] {
            for entry in table::COMMANDS {
                assert!(script.contains(table::last_word(entry.words)), "{}", entry.words);
            }
            assert!(script.contains("lazy list --ids-only"));
            assert!(!script.contains("-ids-only'"), "hidden flags stay hidden");
        }
    }
}
