//! Labels.

use crate::base::{Error, Result};

/// Lowercase, each run of other characters one `-`, none at the ends.
///
/// # Errors
/// [`crate::base::Kind::Invalid`] when no letter or digit is left.
pub fn normalize(text: &str) -> Result<String> {
    let mut tag = String::new();
    for c in text.chars().flat_map(char::to_lowercase) {
        if c.is_alphanumeric() {
            tag.push(c);
        } else if !tag.ends_with('-') {
            tag.push('-');
        }
    }
    let tag = tag.trim_matches('-').to_string();
    if tag.is_empty() {
        Err(Error::invalid(format!("{text:?} is not a tag: it needs a letter or a digit")))
    } else {
        Ok(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_slugs() {
        assert_eq!(normalize("#Needs  Review!").expect("tag"), "needs-review");
        assert!(normalize("--").is_err());
    }
}
