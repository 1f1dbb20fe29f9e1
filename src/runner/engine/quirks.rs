//! What an engine's installation is like, asked once.

use super::argv::Quirks;
use super::program::{Engine, QUERY};
use crate::base::Result;
use crate::model::RunnerKind;

impl Engine {
    /// Asks the engine about itself.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub async fn quirks(&self) -> Result<Quirks> {
        let format = match self.kind() {
            RunnerKind::Podman => "rootless={{.Host.Security.Rootless}} selinux={{.Host.Security.SELinuxEnabled}} ",
            _ => "{{range .SecurityOptions}}{{.}} {{end}}",
        };
        let said = self.text(["info", "--format", format], QUERY, "ask the engine about itself").await?;
        Ok(read(&said))
    }
}

fn read(said: &str) -> Quirks {
    let has = |docker: &str, podman: &str| {
        said.split_whitespace().any(|word| word == podman || word.split(',').any(|part| part == docker))
    };
    Quirks {
        rootless: has("name=rootless", "rootless=true"),
        shifts_users: has("name=userns", "-"),
        selinux: has("name=selinux", "selinux=true"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_engines_words_are_read() {
        assert_eq!(read("name=seccomp,profile=default"), Quirks::default());
        assert_eq!(read("rootless=false selinux=false"), Quirks::default());
        assert_eq!(
            read("name=seccomp,profile=default name=selinux name=userns name=rootless name=cgroupns"),
            Quirks { rootless: true, shifts_users: true, selinux: true }
        );
        assert_eq!(read("rootless=true selinux=true"), Quirks { rootless: true, shifts_users: false, selinux: true });
    }
}
