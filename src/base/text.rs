//! Text that came from people and machines, made safe to store and to show.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Replaces control characters other than tab, line feed and carriage return by printable escapes such as `\u0000`.
pub fn escape_controls(text: &str) -> String {
    if !text.chars().any(is_unsafe) {
        return text.to_string();
    }
    text.chars().fold(String::with_capacity(text.len() + 16), |mut out, c| {
        if is_unsafe(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
        out
    })
}

/// Between these two stands the code of a colour in text on its way to a terminal: [`for_terminal`] turns the three into
/// the escape sequence. They are no characters (Unicode keeps them for use inside a program), so no text has them.
pub const COLOR_MARKS: (char, char) = ('\u{fdd0}', '\u{fdd1}');

/// The codes of colours that may stand between [`COLOR_MARKS`]; the first one ends the others.
pub const COLORS: [&str; 10] = ["0", "1", "2", "31", "32", "33", "34", "35", "36", "1;31"];

/// Text as a terminal may have it: our own colours become escape sequences, and whatever else could move the cursor,
/// hide or reorder text is made visible, wherever it came from.
///
/// This is the one place for that: [`super::Process`] passes all that people read through it.
pub fn for_terminal(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_deceiving(c) || c == COLOR_MARKS.0) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let color = (c == COLOR_MARKS.0).then(|| after.split_once(COLOR_MARKS.1)).flatten();
        match color.filter(|(code, _)| COLORS.contains(code)) {
            Some((code, after)) => {
                out.push_str(&format!("\x1b[{code}m"));
                rest = after;
                continue;
            }
            None if c == '\r' && after.starts_with('\n') => out.push(c),
            None if is_deceiving(c) || c == COLOR_MARKS.0 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            None => out.push(c),
        }
        rest = after;
    }
    Cow::Owned(out)
}

/// Controls of a terminal, and those that turn the direction of writing.
fn is_deceiving(c: char) -> bool {
    let control = c.is_control() && !matches!(c, '\t' | '\n');
    control || matches!(c, '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn is_unsafe(c: char) -> bool {
    c.is_control() && !matches!(c, '\t' | '\n' | '\r')
}

/// The first line, with control characters escaped and white space folded.
pub fn one_line(text: &str) -> String {
    escape_controls(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// At most `width` columns, with `…` for what was cut.
pub fn truncate_columns(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_string();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let w = c.width().unwrap_or(0);
        if used + w + 1 > width {
            break;
        }
        used += w;
        out.push(c);
    }
    out.push('…');
    out
}

/// Padded with spaces on the right to `width` columns; longer text stays whole.
pub fn pad_columns(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// At most `limit` characters, with `…` for what was cut.
pub fn truncate_chars(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_string(),
        Some(_) => {
            let cut = text.char_indices().nth(limit.saturating_sub(1)).map_or(0, |(at, _)| at);
            format!("{}…", &text[..cut])
        }
    }
}

/// The known name nearest to `word`, if it is near enough to be a slip of the finger.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::normalized_damerau_levenshtein(&word.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(score, _)| *score >= 0.5)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// `1 commit`, `2 commits`.
pub fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// `1.2M`, `3.4k`, or the number.
pub fn count_text(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}.{}k", count / 1_000, count % 1_000 / 100),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_become_visible() {
        assert_eq!(escape_controls("a\0b\tc\nd\u{9b}"), "a\\u0000b\tc\nd\\u009b");
    }

    #[test]
    fn only_our_own_colours_reach_a_terminal() {
        let (a, b) = COLOR_MARKS;
        let text = format!("{a}36{b}fix{a}0{b} \x1b[2J\x07 \u{9b}31m a\rb c\r\nd\t\u{202e}e");
        let shown = for_terminal(&text);
        assert_eq!(shown, "\x1b[36mfix\x1b[0m \\u001b[2J\\u0007 \\u009b31m a\\u000db c\r\nd\t\\u202ee");
        assert_eq!(for_terminal(&format!("{a}8{b}hidden")), "\\ufdd08\u{fdd1}hidden");
        assert!(matches!(for_terminal("plain é 日本\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn cutting_respects_wide_characters() {
        assert_eq!(truncate_columns("日本語です", 6), "日本…");
        assert_eq!(truncate_columns("abc", 3), "abc");
        assert_eq!(truncate_chars("abcdef", 4), "abc…");
        assert_eq!(pad_columns("日", 4), "日  ");
    }

    #[test]
    fn near_names_are_found() {
        assert_eq!(nearest("strat", ["start", "stop"]), Some("start"));
        assert_eq!(nearest("xyzzy", ["start", "stop"]), None);
    }
}
