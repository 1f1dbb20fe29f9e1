//! The pre-pass over the command line, in front of `argh`.
//!
//! `argh` reads `--name value` of one command. People also type `--name=value`, `-n20`, `-yf`, `--help` at the end, a
//! flag twice, and words that almost exist. This file turns all that into the plain form, or refuses it in our words.

use std::ffi::OsString;

use argh::{CommandInfoWithArgs, FlagInfo, FlagInfoKind, Optionality};

use super::app::App;
use super::table::{self, Entry, Running};
use crate::base::{Error, Result, text};

/// What the words ask for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// The list of commands.
    Overview,
    /// The version.
    Version,
    /// How a command, or a family of commands, is used.
    Usage(&'static str),
    /// A command, with its words in plain form.
    Run(&'static Entry, Tokens),
}

/// The words of one command in plain form.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Tokens {
    /// Flags as `--name`, with their values.
    pub flags: Vec<(String, Option<String>)>,
    /// The other words.
    pub positionals: Vec<String>,
}

impl Tokens {
    /// As `argh` reads them: flags first, then everything else behind `--`, so that no word is mistaken for a flag.
    pub fn argv(&self) -> Vec<&str> {
        let mut argv = Vec::new();
        for (name, value) in &self.flags {
            argv.push(name.as_str());
            argv.extend(value.as_deref());
        }
        argv.push("--");
        argv.extend(self.positionals.iter().map(String::as_str));
        argv
    }
}

/// Words that once were commands, and what replaced them.
const REMOVED: &[(&str, &str)] = &[
    ("pending", "lazy list"),
    ("task", "lazy list"),
    ("session", "lazy list"),
    ("abandon", "lazy close"),
    ("prompts", "lazy system prompts"),
    ("logs", "lazy daemon logs"),
];

/// Reads the words after the program's name.
///
/// # Errors
/// [`crate::base::Kind::Usage`] naming what is wrong and the nearest thing that exists.
pub(crate) fn read(args: &[OsString]) -> Result<Asked> {
    let words = args
        .iter()
        .map(|arg| {
            arg.to_str().map(str::to_string).ok_or_else(|| {
                Error::usage(format!("the argument {:?} is not UTF-8", arg.to_string_lossy())).hint("lazy --help")
            })
        })
        .collect::<Result<Vec<String>>>()?;
    let Some(first) = words.first() else { return Ok(Asked::Overview) };
    match first.as_str() {
        "-h" | "--help" => return Ok(Asked::Overview),
        "-V" | "--version" => return Ok(Asked::Version),
        "help" => return help_topic(&words[1..]),
        "version" if words.len() == 1 => return Ok(Asked::Version),
        flag if flag.starts_with('-') => {
            return Err(Error::usage(format!("there are no flags before the command, and {flag} stands there"))
                .hint("lazy --help"));
        }
        _ => {}
    }
    let (topic, rest) = resolve(&words)?;
    let before_end = rest.iter().take_while(|word| *word != "--");
    if before_end.clone().any(|word| word == "-h" || word == "--help") {
        return Ok(Asked::Usage(topic));
    }
    let Some(entry) = table::entry(topic) else { return Err(half_a_command(topic)) };
    let tokens = normalize(entry.words, &(entry.info)(), rest)?;
    Ok(Asked::Run(entry, tokens))
}

fn help_topic(words: &[String]) -> Result<Asked> {
    if words.is_empty() {
        return Ok(Asked::Overview);
    }
    resolve(words).map(|(topic, _)| Asked::Usage(topic))
}

/// The command or family that the first words name, and the words after them.
fn resolve(words: &[String]) -> Result<(&'static str, &[String])> {
    let first = table::canonical(&words[0]);
    let known = table::topics().find(|topic| *topic == first);
    let Some(family) = known else { return Err(unknown_command(&words[0])) };
    let subs: Vec<&'static str> = table::subcommands(family).collect();
    let Some(second) = words.get(1).filter(|word| !subs.is_empty() && !word.starts_with('-')) else {
        return Ok((family, &words[1..]));
    };
    let wanted = table::canonical_sub(family, second);
    match subs.iter().find(|sub| table::last_word(sub) == wanted) {
        Some(sub) => Ok((sub, &words[2..])),
        // `lazy completion bash`: a family whose own command takes words
        None if table::entry(family).is_some_and(|entry| !(entry.info)().positionals.is_empty()) => {
            Ok((family, &words[1..]))
        }
        None => {
            let error = Error::usage(format!("lazy {family} has no subcommand {second:?}"));
            Err(match text::nearest(second, subs.iter().map(|sub| table::last_word(sub))) {
                Some(near) => error.hint(format!("lazy {family} {near}")),
                None => error.hint(format!("lazy {family} --help")),
            })
        }
    }
}

fn unknown_command(word: &str) -> Error {
    if let Some((_, instead)) = REMOVED.iter().find(|(old, _)| *old == word) {
        return Error::usage(format!("there is no command {word:?} any more")).hint(*instead);
    }
    let error = Error::usage(format!("there is no command {word:?}"));
    match text::nearest(word, table::names_for_people()) {
        Some(near) => error.hint(format!("lazy {near}")).hint("lazy --help"),
        None => error.hint("lazy --help"),
    }
}

fn half_a_command(family: &str) -> Error {
    let subs: Vec<&str> = table::subcommands(family).map(table::last_word).collect();
    Error::usage(format!("lazy {family} needs one of: {}", subs.join(", "))).hint(format!("lazy {family} --help"))
}

/// Turns the words after a command into plain form.
pub(crate) fn normalize(command: &str, info: &CommandInfoWithArgs, words: &[String]) -> Result<Tokens> {
    let mut tokens = Tokens::default();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if word == "--" {
            tokens.positionals.extend(rest.cloned());
            break;
        }
        // a lone dash is a word: the usual name for standard input
        if !word.starts_with('-') || word == "-" {
            tokens.positionals.push(word.clone());
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_string())),
                None => (long, None),
            };
            let flag = long_flag(info, name).ok_or_else(|| unknown_flag(command, info, &format!("--{name}")))?;
            take(command, flag, value, &mut rest, &mut tokens)?;
        } else {
            shorts(command, info, word, &mut rest, &mut tokens)?;
        }
    }
    // A command that offers a menu is completed later, where a person can be asked.
    if !(tokens.positionals.is_empty() && super::choose::offers(command)) {
        require_positionals(command, info, &tokens.positionals)?;
    }
    Ok(tokens)
}

/// `-m text`, `-mtext`, `-n20`, `-yf`.
fn shorts<'a>(
    command: &str,
    info: &CommandInfoWithArgs,
    word: &str,
    rest: &mut impl Iterator<Item = &'a String>,
    tokens: &mut Tokens,
) -> Result<()> {
    let letters = &word[1..];
    for (at, letter) in letters.char_indices() {
        let flag = info
            .flags
            .iter()
            .find(|flag| flag.short == Some(letter))
            .ok_or_else(|| unknown_flag(command, info, &format!("-{letter}")))?;
        let tail = &letters[at + letter.len_utf8()..];
        if takes_value(flag) && !tail.is_empty() {
            let value = tail.strip_prefix('=').unwrap_or(tail);
            return take(command, flag, Some(value.to_string()), rest, tokens);
        }
        take(command, flag, None, rest, tokens)?;
    }
    Ok(())
}

fn take<'a>(
    command: &str,
    flag: &FlagInfo<'_>,
    inline: Option<String>,
    rest: &mut impl Iterator<Item = &'a String>,
    tokens: &mut Tokens,
) -> Result<()> {
    let name = format!("--{}", bare(flag));
    let value = match (takes_value(flag), inline) {
        (false, None) => None,
        (false, Some(value)) => {
            return Err(Error::usage(format!("{name} takes no value, and {value:?} was given"))
                .hint(format!("lazy {command} {name}")));
        }
        (true, Some(value)) => Some(value),
        (true, None) => Some(
            rest.next()
                .cloned()
                .ok_or_else(|| Error::usage(format!("{name} needs a value")).hint(format!("lazy {command} --help")))?,
        ),
    };
    if flag.optionality != Optionality::Repeating {
        tokens.flags.retain(|(known, _)| *known != name);
    }
    tokens.flags.push((name, value));
    Ok(())
}

/// Refuses too few or too many words.
pub(crate) fn require_positionals(command: &str, info: &CommandInfoWithArgs, given: &[String]) -> Result<()> {
    let usage = || format!("lazy {command} --help");
    let missing = info
        .positionals
        .iter()
        .enumerate()
        .find(|(at, positional)| positional.optionality == Optionality::Required && *at >= given.len());
    if let Some((_, positional)) = missing {
        return Err(Error::usage(format!("lazy {command} needs <{}>: {}", positional.name, positional.description))
            .hint(usage()));
    }
    let collects =
        info.positionals.iter().any(|p| matches!(p.optionality, Optionality::Repeating | Optionality::Greedy));
    if !collects && given.len() > info.positionals.len() {
        let extra = &given[info.positionals.len()];
        let error = Error::usage(format!("lazy {command} does not know what to do with {extra:?}"));
        return Err(if extra.contains(char::is_whitespace) || info.positionals.is_empty() {
            error.hint(usage())
        } else {
            error.hint("put text with spaces in quotes").hint(usage())
        });
    }
    Ok(())
}

fn unknown_flag(command: &str, info: &CommandInfoWithArgs, flag: &str) -> Error {
    let error = Error::usage(format!("lazy {command} has no flag {flag}"));
    let known = info.flags.iter().filter(|flag| !flag.hidden).map(bare);
    match text::nearest(flag.trim_start_matches('-'), known.filter(|_| flag.starts_with("--"))) {
        Some(near) => error.hint(format!("lazy {command} --{near}")).hint(format!("lazy {command} --help")),
        None => error.hint(format!("lazy {command} --help")),
    }
}

fn long_flag(info: &CommandInfoWithArgs, name: &str) -> Option<&'static FlagInfo<'static>> {
    info.flags.iter().find(|flag| bare(flag) == name)
}

/// A flag's long name without dashes.
pub(crate) fn bare<'a>(flag: &FlagInfo<'a>) -> &'a str {
    flag.long.trim_start_matches('-')
}

fn takes_value(flag: &FlagInfo<'_>) -> bool {
    matches!(flag.kind, FlagInfoKind::Option { .. })
}

/// Hands the words to the command.
///
/// # Errors
/// A value that does not parse, named with its flag.
pub(crate) fn launch(app: &App, entry: &'static Entry, tokens: &Tokens) -> Result<Running> {
    (entry.run)(app.clone(), &tokens.argv()).map_err(|output| value_error(entry.words, tokens, output.trim()))
}

/// Our words for what `argh` still refuses: a value that does not parse.
fn value_error(command: &str, tokens: &Tokens, output: &str) -> Error {
    let usage = format!("lazy {command} --help");
    for (name, value) in &tokens.flags {
        let Some(value) = value else { continue };
        if let Some((_, why)) = output.split_once(&format!("option '{name}' with value '{value}': ")) {
            return Error::usage(format!("{name}: {why}")).hint(usage);
        }
    }
    for value in &tokens.positionals {
        if let Some((_, why)) = output.split_once(&format!("with value '{value}': ")) {
            return Error::usage(why).hint(usage);
        }
    }
    Error::usage(output.lines().collect::<Vec<_>>().join(" ")).hint(usage)
}

#[cfg(test)]
mod tests {
    use argh::{ArgsInfo, FromArgs};
    use proptest::prelude::*;

    use super::*;

    /// a command with every kind of flag
    #[derive(Debug, PartialEq, FromArgs, ArgsInfo)]
    struct Sample {
        /// a word
        #[argh(positional)]
        task: String,
        /// more words
        #[argh(positional)]
        rest: Vec<String>,
        /// a text
        #[argh(option, short = 'm', arg_name = "text")]
        message: Option<String>,
        /// a number
        #[argh(option, short = 'n', arg_name = "number")]
        number: Option<u32>,
        /// collects
        #[argh(option, arg_name = "tag")]
        tag: Vec<String>,
        /// a switch
        #[argh(switch, short = 'y')]
        yes: bool,
        /// another
        #[argh(switch, short = 'f')]
        follow: bool,
    }

    fn parse<W: AsRef<str>>(words: &[W]) -> Result<Sample> {
        let words: Vec<String> = words.iter().map(|word| word.as_ref().to_string()).collect();
        let tokens = normalize("sample", &Sample::get_args_info(), &words)?;
        Sample::from_args(&["lazy"], &tokens.argv()).map_err(|exit| value_error("sample", &tokens, exit.output.trim()))
    }

    fn asked(words: &[&str]) -> Result<Asked> {
        read(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn refusal(words: &[&str]) -> (String, Vec<String>) {
        let error = asked(words).expect_err("refused");
        assert_eq!(error.kind().exit_code(), 2);
        (error.message().to_string(), error.hints().to_vec())
    }

    #[test]
    fn flags_are_read_as_people_type_them() {
        let sample =
            parse(&["-yf", "fix", "--message=a=b", "-n20", "--tag", "x", "more", "--tag=y", "-"]).expect("reads");
        assert_eq!(
            sample,
            Sample {
                task: "fix".into(),
                rest: vec!["more".into(), "-".into()],
                message: Some("a=b".into()),
                number: Some(20),
                tag: vec!["x".into(), "y".into()],
                yes: true,
                follow: true,
            }
        );
        assert_eq!(
            parse(&["a", "-m", "--yes"]).expect("a value may look like a flag").message.as_deref(),
            Some("--yes")
        );
        assert_eq!(parse(&["a", "-m=x", "-m", "y", "-y", "-y"]).expect("the last wins").message.as_deref(), Some("y"));
        assert_eq!(parse(&["--", "--yes", "help"]).expect("words").task, "--yes");
        assert_eq!(parse(&["help"]).expect("a task may be called help").task, "help");
    }

    #[test]
    fn what_is_wrong_is_said_in_our_words() {
        for (words, said) in [
            (&["a", "--mesage=x"][..], "has no flag --mesage"),
            (&["a", "-x"], "has no flag -x"),
            (&["a", "--yes=no"], "takes no value"),
            (&["a", "--message"], "needs a value"),
            (&["a", "--number", "x"], "--number: "),
            (&[], "needs <task>"),
        ] {
            let error = parse(words).expect_err(said);
            assert!(error.message().contains(said), "{error}");
            assert!(!error.hints().is_empty(), "{error}");
            assert_eq!(error.kind(), crate::base::Kind::Usage);
        }
        assert_eq!(parse(&["a", "--mesage=x"]).expect_err("typo").hints()[0], "lazy sample --message");
    }

    #[test]
    fn help_wins_anywhere_before_the_end_of_flags() {
        for words in [
            &["start", "-h"][..],
            &["start", "x", "--no-such", "--help"],
            &["help", "start"],
            &["start", "-m", "-h"],
            &["ls", "--help"],
            &["doc", "-h"],
        ] {
            assert!(matches!(asked(words).expect("help"), Asked::Usage("start" | "list" | "document")), "{words:?}");
        }
        assert!(matches!(asked(&["daemon", "logs", "-h"]).expect("help"), Asked::Usage("daemon logs")));
        assert!(matches!(asked(&["daemon", "-h"]).expect("help"), Asked::Usage("daemon")));
        assert!(matches!(asked(&["raised", "ack", "-h"]).expect("help"), Asked::Usage("raised acknowledge")));
        assert!(matches!(asked(&["show", "--", "--help"]).expect("a task"), Asked::Run(..)));
        for words in [&[][..], &["-h"], &["--help"], &["help"]] {
            assert!(matches!(asked(words).expect("overview"), Asked::Overview));
        }
        for words in [&["-V"][..], &["--version"], &["version"]] {
            assert!(matches!(asked(words).expect("version"), Asked::Version));
        }
    }

    #[test]
    fn unknown_words_bring_the_nearest_one() {
        assert_eq!(refusal(&["strat"]).1[0], "lazy start");
        assert_eq!(refusal(&["unblok", "x"]).1[0], "lazy unblock");
        assert_eq!(refusal(&["daemon", "stat"]).1[0], "lazy daemon start");
        assert_eq!(refusal(&["raised", "dismis", "a", "b"]).1[0], "lazy raised dismiss");
        assert_eq!(refusal(&["abandon", "x"]).1, ["lazy close"]);
        assert_eq!(refusal(&["zzzzzz"]).1, ["lazy --help"]);
        assert!(refusal(&["--json", "list"]).0.contains("no flags before the command"));
        assert!(refusal(&["daemon"]).0.contains("needs one of"));
        assert!(refusal(&["stop", "a", "b"]).0.contains("\"b\""));
        assert_eq!(refusal(&["list", "--flt"]).1[0], "lazy list --flat");
        assert!(!refusal(&["list", "--ids"]).1[0].contains("ids-only"), "hidden flags are not proposed");
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        use std::os::unix::ffi::OsStringExt as _;
        let error = read(&["show".into(), OsString::from_vec(vec![0xff])]).expect_err("not UTF-8");
        assert_eq!(error.kind(), crate::base::Kind::Usage);
    }

    proptest! {
        #[test]
        fn any_text_is_a_value_in_both_forms(task in ".*", message in ".*") {
            let inline = parse(&[format!("--message={message}"), "--".into(), task.clone()]).expect("inline");
            let apart = parse(&["--message".into(), message.clone(), "--".into(), task.clone()]).expect("apart");
            prop_assert_eq!(&inline, &apart);
            prop_assert_eq!(inline.message, Some(message));
            prop_assert_eq!(inline.task, task);
        }

        #[test]
        fn words_behind_the_end_of_flags_stay_as_they_are(words in proptest::collection::vec(".*", 1..6)) {
            let mut line = vec!["--".to_string()];
            line.extend(words.clone());
            let sample = parse(&line).expect("reads");
            prop_assert_eq!(&sample.task, &words[0]);
            prop_assert_eq!(&sample.rest, &words[1..]);
        }

        #[test]
        fn collecting_flags_keep_all_and_their_order(tags in proptest::collection::vec("[a-z-]{0,6}", 0..6)) {
            let mut line: Vec<String> = tags.iter().map(|tag| format!("--tag={tag}")).collect();
            line.push("task".into());
            prop_assert_eq!(parse(&line).expect("reads").tag, tags);
        }

        #[test]
        fn no_words_break_it(words in proptest::collection::vec("(-{0,3}[a-zA-Z=]{0,8}|.{0,5})", 0..6)) {
            let line: Vec<OsString> = words.iter().map(OsString::from).collect();
            if let Err(error) = read(&line) {
                prop_assert_eq!(error.kind(), crate::base::Kind::Usage);
                prop_assert!(!error.hints().is_empty());
            }
            parse(&words).ok();
        }
    }
}
