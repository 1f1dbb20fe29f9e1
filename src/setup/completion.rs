//! Shell completion: whether it is there, and the command that puts it there.

use std::path::PathBuf;

use crate::base::{Process, files};

/// The completion of a person's shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// `bash`, `zsh` or `fish`.
    pub shell: &'static str,
    /// The file found, when it is installed.
    pub installed: Option<PathBuf>,
    /// The command that installs it.
    pub command: String,
}

/// The completion of the shell that `$SHELL` names; `None` for a shell lazy has none for.
pub fn of_shell(process: &Process) -> Option<Completion> {
    let shell = PathBuf::from(process.var("SHELL")?);
    let (shell, file, start) = match shell.file_name()?.to_str()? {
        "bash" => ("bash", ".local/share/bash-completion/completions/lazy", ".bashrc"),
        "zsh" => ("zsh", ".zfunc/_lazy", ".zshrc"),
        "fish" => ("fish", ".config/fish/completions/lazy.fish", ".config/fish/config.fish"),
        _ => return None,
    };
    let home = process.home().ok()?;
    let loads_it = |path: &PathBuf| {
        let bytes = files::read_written(path).ok().flatten().unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains("lazy completion")
    };
    let installed =
        Some(home.join(file)).filter(|path| path.is_file()).or_else(|| Some(home.join(start)).filter(loads_it));
    let directory = file.rsplit_once('/').map_or("", |(directory, _)| directory);
    let mut command = format!("mkdir -p ~/{directory} && lazy completion {shell} > ~/{file}");
    if shell == "zsh" {
        command.push_str(" && echo 'fpath=(~/.zfunc $fpath); autoload -Uz compinit && compinit' >> ~/.zshrc");
    }
    Some(Completion { shell, installed, command })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;
    use std::fs;

    #[test]
    fn installed_completion_is_seen() {
        let home = tempfile::tempdir().expect("temp dir");
        let path = home.path().to_str().expect("utf-8");
        let of = |shell: &str| {
            of_shell(&Process::fake(["lazy"], &[("HOME", path), ("SHELL", shell)], home.path(), Millis(0)))
        };
        assert_eq!(of("/bin/tcsh"), None);
        let fish = of("/usr/bin/fish").expect("known");
        assert_eq!((fish.shell, fish.installed), ("fish", None));
        assert!(fish.command.contains("lazy completion fish > ~/.config/fish/completions/lazy.fish"));
        fs::write(home.path().join(".bashrc"), "source <(lazy completion bash)\n").expect("writes");
        assert_eq!(of("/bin/bash").expect("known").installed, Some(home.path().join(".bashrc")));
        fs::create_dir(home.path().join(".zfunc")).expect("directory");
        fs::write(home.path().join(".zfunc/_lazy"), "").expect("writes");
        assert!(of("/bin/zsh").expect("known").installed.is_some());
    }
}
