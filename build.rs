//! Takes in what may be compiled into the executable: with `LAZY_EMBED_AGENT=<path>`, a Linux build of lazy for the
//! containers of a machine whose own executables do not run there.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo::rustc-check-cfg=cfg(embedded_agent)");
    println!("cargo::rerun-if-env-changed=LAZY_EMBED_AGENT");
    println!("cargo::rerun-if-changed=build.rs");
    let Some(given) = env::var_os("LAZY_EMBED_AGENT").filter(|path| !path.is_empty()).map(PathBuf::from) else {
        return;
    };
    println!("cargo::rerun-if-changed={}", given.display());
    let bytes = match fs::read(&given) {
        Ok(bytes) => bytes,
        Err(error) => return fail(&format!("LAZY_EMBED_AGENT: cannot read {}: {error}", given.display())),
    };
    if !bytes.starts_with(b"\x7fELF") {
        return fail(&format!("LAZY_EMBED_AGENT: {} is no Linux executable", given.display()));
    }
    let Some(out) = env::var_os("OUT_DIR").map(PathBuf::from) else { return fail("OUT_DIR is not set") };
    match fs::write(out.join("lazy-agent"), bytes) {
        Ok(()) => println!("cargo::rustc-cfg=embedded_agent"),
        Err(error) => fail(&format!("LAZY_EMBED_AGENT: cannot copy it to {}: {error}", out.display())),
    }
}

fn fail(message: &str) {
    println!("cargo::error={message}");
}
