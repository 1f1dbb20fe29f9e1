//! Text that came from people and machines, made safe to store and to show.

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
