//! The overview and each command's usage, made from the table.

use argh::{FlagInfoKind, Optionality};
use unicode_width::UnicodeWidthStr;

use super::style::Style;
use super::table::{self, Group};
use super::words;

const WIDTH: usize = 80;

/// The commands by group.
pub(crate) fn overview(style: Style) -> String {
    let mut out = String::from("lazy runs AI coding agents on tasks, each in a git worktree, for you to review.\n\n");
    out.push_str(&format!("{} lazy <command> [arguments]\n", style.bold("Usage:")));
    for (group, title) in Group::SHOWN {
        out.push_str(&format!("\n{}\n", style.bold(title)));
        for topic in table::topics().filter(|topic| table::group(topic) == group) {
            out.push_str(&entry_lines(&style.id(topic), topic.len(), &table::description(topic), 16));
        }
    }
    out.push_str(&format!(
        "\nA day with lazy: {}\nMore about one: {}\n",
        style.id("create, start, wait, diff, unblock or accept"),
        style.id("lazy <command> --help")
    ));
    out
}

/// How a command, or a family of them, is used.
pub(crate) fn usage(topic: &str, style: Style) -> String {
    let mut out = String::new();
    if let Some(entry) = table::entry(topic) {
        out.push_str(&command_usage(entry, style));
    } else {
        out.push_str(&format!("{}\n\n", sentence(&table::description(topic))));
        out.push_str(&format!("{} lazy {topic} <subcommand> [arguments]\n", style.bold("Usage:")));
    }
    let subs: Vec<&str> = table::subcommands(topic).collect();
    if !subs.is_empty() {
        out.push_str(&format!("\n{}\n", style.bold("Subcommands:")));
        for words in subs {
            let name = table::last_word(words);
            out.push_str(&entry_lines(&style.id(name), name.len(), &table::description(words), 16));
        }
        out.push_str(&format!("\nMore about one: {}\n", style.id(format!("lazy {topic} <subcommand> --help"))));
    }
    out
}

fn command_usage(entry: &table::Entry, style: Style) -> String {
    let info = (entry.info)();
    let flags: Vec<_> = info.flags.iter().filter(|flag| !flag.hidden && words::bare(flag) != "help").collect();
    let mut line = format!("{} lazy {}", style.bold("Usage:"), entry.words);
    for positional in info.positionals {
        line.push(' ');
        line.push_str(&match positional.optionality {
            Optionality::Required => format!("<{}>", positional.name),
            Optionality::Optional => format!("[<{}>]", positional.name),
            Optionality::Repeating | Optionality::Greedy => format!("[<{}>...]", positional.name),
        });
    }
    if !flags.is_empty() {
        line.push_str(" [options]");
    }
    let mut out = format!("{}\n\n{line}\n", sentence(info.description));
    let also: Vec<&str> = table::aliases(entry.words).collect();
    if !also.is_empty() {
        out.push_str(&format!("Also: lazy {}\n", also.join(", lazy ")));
    }
    if !info.positionals.is_empty() {
        out.push_str(&format!("\n{}\n", style.bold("Arguments:")));
        for positional in info.positionals {
            let name = format!("<{}>", positional.name);
            out.push_str(&entry_lines(&style.id(&name), name.len(), positional.description, 30));
        }
    }
    out.push_str(&format!("\n{}\n", style.bold("Options:")));
    for flag in flags {
        let short = flag.short.map_or_else(|| "    ".to_string(), |letter| format!("-{letter}, "));
        let value = match flag.kind {
            FlagInfoKind::Option { arg_name } => format!(" <{arg_name}>"),
            FlagInfoKind::Switch => String::new(),
        };
        let name = format!("{short}--{}{value}", words::bare(flag));
        let again = if flag.optionality == Optionality::Repeating { " (may be given again)" } else { "" };
        out.push_str(&entry_lines(&style.id(&name), name.len(), &format!("{}{again}", flag.description), 30));
    }
    out.push_str(&entry_lines(&style.id("-h, --help"), 10, "show this", 30));
    for note in info.notes {
        out.push_str(&format!("\n{}\n", wrap(note, 0)));
    }
    if !info.examples.is_empty() {
        out.push_str(&format!("\n{}\n", style.bold("Examples:")));
        for example in info.examples {
            out.push_str(&format!("  {example}\n"));
        }
    }
    out
}

/// `  name   description`, the description wrapped in its own column.
fn entry_lines(painted: &str, width: usize, description: &str, column: usize) -> String {
    let gap = column.saturating_sub(width + 2);
    let body = wrap(description, column);
    if gap < 2 {
        format!("  {painted}\n{}{body}\n", " ".repeat(column))
    } else {
        format!("  {painted}{}{body}\n", " ".repeat(gap))
    }
}

/// Wrapped at 80 columns; lines after the first are indented by `indent`.
fn wrap(text: &str, indent: usize) -> String {
    let mut out = String::new();
    let mut used = indent;
    for word in text.split_whitespace() {
        if used > indent && used + 1 + word.width() > WIDTH {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            used = indent;
        } else if used > indent {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += word.width();
    }
    out
}

/// With a capital and a full stop.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    let whole = format!("{first}{}", chars.as_str());
    wrap(&if whole.ends_with('.') { whole } else { format!("{whole}.") }, 0)
}
