//! What lazy reads out of a Dockerfile: the images it starts from.

use std::collections::BTreeMap;

/// The images after `FROM`, with `ARG` defaults filled in; names of earlier stages are left out.
pub(super) fn bases(text: &str) -> Vec<String> {
    let mut args: BTreeMap<String, String> = BTreeMap::new();
    let mut stages: Vec<String> = Vec::new();
    let mut found = Vec::new();
    for line in logical_lines(text) {
        let mut words = line.split_whitespace();
        match words.next().map(str::to_ascii_uppercase).as_deref() {
            Some("ARG") if stages.is_empty() && found.is_empty() => {
                for word in words {
                    if let Some((name, value)) = word.split_once('=') {
                        let value = value.trim_matches(['"', '\'']).to_string();
                        args.insert(name.to_string(), value);
                    }
                }
            }
            Some("FROM") => {
                let mut words = words.skip_while(|word| word.starts_with("--"));
                let Some(image) = words.next() else { continue };
                let image = filled_in(image, &args);
                if !stages.iter().any(|stage| stage.eq_ignore_ascii_case(&image)) {
                    found.push(image);
                }
                if let (Some(word), Some(name)) = (words.next(), words.next())
                    && word.eq_ignore_ascii_case("as")
                {
                    stages.push(name.to_string());
                }
            }
            _ => {}
        }
    }
    found
}

/// Lines without comments, continued ones joined.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        match line.strip_suffix('\\') {
            Some(part) => open.push_str(&format!("{part} ")),
            None => {
                open.push_str(line);
                lines.push(std::mem::take(&mut open));
            }
        }
    }
    lines.push(open);
    lines
}

fn filled_in(image: &str, args: &BTreeMap<String, String>) -> String {
    let mut image = image.to_string();
    for (name, value) in args.iter().rev() {
        image = image.replace(&format!("${{{name}}}"), value).replace(&format!("${name}"), value);
    }
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_found_through_stages_and_arguments() {
        let text = "# syntax=x\nARG BASE=lazy-runner\nARG V=\"1\"\nfrom --platform=linux/amd64 node:$V AS build\nRUN a \\\n  # why\n  FROM x\n\
                    FROM build\nFROM ${BASE}:latest\n";
        assert_eq!(bases(text), ["node:1", "lazy-runner:latest"]);
        assert!(bases("").is_empty());
        assert_eq!(bases("FROM \\\n lazy-runner"), ["lazy-runner"]);
    }
}
