//! Authorities that the project names are appended to the bundle that the image's TLS programs read.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use crate::base::{Error, Result, ResultExt, hash};

/// Where OpenSSL, curl, git and most others look, on Debian and its like.
pub const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Of neither file more is read.
const LIMIT: u64 = 8 << 20;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// Appends to `bundle` the certificates of `extra` that it lacks; creates it if need be. How many were appended; 0
/// when there is no `extra`.
///
/// # Errors
/// [`crate::base::Kind::Invalid`] when `extra` holds no certificate or is too long; [`crate::base::Kind::Io`] when a
/// file cannot be read or written.
pub fn extend(extra: &Path, bundle: &Path) -> Result<usize> {
    let Some(extra_text) = read(extra)? else { return Ok(0) };
    if blocks(&extra_text).next().is_none() {
        return Err(Error::invalid(format!("{} holds no certificate", extra.display())));
    }
    let present = read(bundle)?;
    let lacking = lacking(present.as_deref().unwrap_or_default(), &extra_text);
    if lacking.is_empty() {
        return Ok(0);
    }
    let doing = || format!("cannot write {}", bundle.display());
    if let Some(parent) = bundle.parent().filter(|_| present.is_none()) {
        fs::create_dir_all(parent).io_context(doing)?;
    }
    let torn = present.is_some_and(|text| !text.is_empty() && !text.ends_with('\n'));
    let text = if torn { "\n" } else { "" }.to_string() + &lacking.concat();
    let mut file = OpenOptions::new().append(true).create(true).open(bundle).io_context(doing)?;
    file.write_all(text.as_bytes()).io_context(doing)?;
    Ok(lacking.len())
}

fn read(path: &Path) -> Result<Option<String>> {
    let doing = || format!("cannot read {}", path.display());
    let file = match File::open(path) {
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.io_context(doing)?,
    };
    let mut bytes = Vec::new();
    file.take(LIMIT + 1).read_to_end(&mut bytes).io_context(doing)?;
    if bytes.len() as u64 > LIMIT {
        return Err(Error::invalid(format!("{} is longer than {} MiB", path.display(), LIMIT >> 20)));
    }
    // Names of authorities stand between the certificates, in whatever encoding.
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// The blocks of `extra` that `bundle` lacks, each once, as they are appended.
fn lacking(bundle: &str, extra: &str) -> Vec<String> {
    let mut known: HashSet<String> = blocks(bundle).map(key).collect();
    let lacking = blocks(extra).filter(|body| known.insert(key(body)));
    lacking.map(|body| format!("{BEGIN}\n{}\n{END}\n", lines(body).collect::<Vec<_>>().join("\n"))).collect()
}

/// What stands between the marks, certificate for certificate. A block without its end is none.
fn blocks(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(BEGIN).skip(1);
    parts.filter_map(|part| part.split_once(END).map(|(body, _)| body)).filter(|body| !body.trim().is_empty())
}

fn lines(body: &str) -> impl Iterator<Item = &str> {
    body.lines().map(str::trim).filter(|line| !line.is_empty())
}

/// The same certificate may be broken into lines in several ways.
fn key(body: &str) -> String {
    hash::content_id(lines(body).collect::<String>().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Kind;

    fn block(body: &str) -> String {
        format!("{BEGIN}\n{body}\n{END}\n")
    }

    #[test]
    fn what_is_missing_is_appended_once() {
        let dir = tempfile::tempdir().expect("temp dir");
        let (extra, bundle) = (dir.path().join("ca.pem"), dir.path().join("ssl/certs/bundle.crt"));
        assert_eq!(extend(&extra, &bundle).expect("nothing to do"), 0);
        assert!(!bundle.exists());
        let text = format!("# Büro\r\n{BEGIN}\r\nAA\r\nBB\r\n{END}\r\n{}{}", block("CC"), block("CC"));
        fs::write(&extra, text).expect("writes");
        assert_eq!(extend(&extra, &bundle).expect("creates"), 2);
        assert_eq!(fs::read_to_string(&bundle).expect("reads"), block("AA\nBB") + &block("CC"));
        assert_eq!(extend(&extra, &bundle).expect("again"), 0);
        let old = format!("{BEGIN}\nAAB\nB\n{END}");
        fs::write(&bundle, &old).expect("writes");
        assert_eq!(extend(&extra, &bundle).expect("appends"), 1);
        assert_eq!(fs::read_to_string(&bundle).expect("reads"), format!("{old}\n{}", block("CC")));
    }

    #[test]
    fn a_file_without_a_certificate_changes_nothing() {
        let dir = tempfile::tempdir().expect("temp dir");
        let (extra, bundle) = (dir.path().join("ca.pem"), dir.path().join("bundle.crt"));
        for bad in ["", "hello", BEGIN, "-----BEGIN PRIVATE KEY-----\nAA\n-----END PRIVATE KEY-----\n", &block(" ")] {
            fs::write(&extra, bad).expect("writes");
            assert_eq!(extend(&extra, &bundle).expect_err(bad).kind(), Kind::Invalid);
        }
        fs::write(&extra, block("A")).expect("writes");
        fs::create_dir(&bundle).expect("odd");
        assert_eq!(extend(&extra, &bundle).expect_err("a directory").kind(), Kind::Io);
    }
}
