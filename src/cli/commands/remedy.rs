//! The remedies of `lazy doctor`: each lists, asks, acts.

use crate::base::text::plural;
use crate::base::time::duration_text;
use crate::base::{Error, Kind, Result};
use crate::cli::app::App;
use crate::cli::input::{Answer, Enter, confirm, require_person};
use crate::cli::session;
use crate::config::{self, Project};
use crate::setup::images::{Disposal, Images, Listed};
use crate::setup::leftovers;

/// How a remedy goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Only lists.
    DryRun,
    /// Asks for each item.
    Ask,
    /// Does all of it.
    Yes,
}

impl Manner {
    /// From the two switches that every remedy has.
    ///
    /// # Errors
    /// [`crate::base::Kind::Usage`] for both.
    pub fn from_switches(dry_run: bool, yes: bool) -> Result<Manner> {
        match (dry_run, yes) {
            (true, true) => Err(Error::usage("--dry-run and --yes exclude each other")),
            (true, false) => Ok(Manner::DryRun),
            (false, true) => Ok(Manner::Yes),
            (false, false) => Ok(Manner::Ask),
        }
    }
}

/// `lazy doctor --clean-docker-images`.
pub(super) async fn clean_images(app: &App, manner: Manner) -> Result<u8> {
    let images = Images::open(&app.process, &session::project(app).await?)?;
    let all = images.list().await?;
    for image in all.iter().filter(|image| image.disposal != Disposal::Removable) {
        app.print(format!("{}  {}", line(&images, image), app.style.dim(word(image.disposal))))?;
    }
    let removable: Vec<&Listed> = all.iter().filter(|image| image.disposal == Disposal::Removable).collect();
    let lines: Vec<String> =
        removable.iter().map(|image| format!("{}  {}", line(&images, image), word(image.disposal))).collect();
    let remove = async |at: usize| images.remove(removable[at]).await;
    act(app, manner, "image", "--clean-docker-images", &lines, remove).await
}

/// `lazy doctor --clean-orphaned-containers`. Works outside of any project for those whose project is gone.
pub(super) async fn clean_containers(app: &App, manner: Manner) -> Result<u8> {
    let process = &app.process;
    let project = match Project::find(process, process.cwd()) {
        Ok(project) => Some((config::load_for_daemon(process, &project.root)?.config, project)),
        Err(error) if error.kind() == Kind::NotFound => None,
        Err(error) => return Err(error),
    };
    let known = project.as_ref().map(|(config, project)| (project, config));
    let orphans = leftovers::orphaned_containers(process, known).await?;
    let lines: Vec<String> = orphans.iter().map(|orphan| format!("{}  {}", orphan.name, orphan.reason)).collect();
    act(app, manner, "container", "--clean-orphaned-containers", &lines, async |at| orphans[at].remove().await).await
}

/// `lazy doctor --clean-worktrees`.
pub(super) async fn clean_worktrees(app: &App, manner: Manner) -> Result<u8> {
    let process = &app.process;
    let project = session::project(app).await?;
    let config = config::load_for_daemon(process, &project.root)?.config;
    let (clean, changed): (Vec<_>, Vec<_>) = leftovers::finished_worktrees(process, &project, &config)
        .await?
        .into_iter()
        .partition(|worktree| worktree.changes == 0);
    for worktree in &changed {
        let path = worktree.path.display();
        let changes = plural(worktree.changes, "uncommitted change");
        app.print(format!("{path}  {}; it has {changes} and stays", worktree.reason))?;
    }
    let lines: Vec<String> =
        clean.iter().map(|worktree| format!("{}  {}", worktree.path.display(), worktree.reason)).collect();
    let remove = async |at: usize| leftovers::remove_worktree(process, &project, &clean[at]).await;
    act(app, manner, "worktree", "--clean-worktrees", &lines, remove).await
}

/// Lists, asks, and removes one after the other.
async fn act(
    app: &App,
    manner: Manner,
    noun: &str,
    flag: &str,
    lines: &[String],
    remove: impl AsyncFn(usize) -> Result<()>,
) -> Result<u8> {
    for line in lines {
        app.print(line)?;
    }
    if lines.is_empty() {
        app.print(format!("There is no {noun} to remove."))?;
        return Ok(0);
    }
    if manner == Manner::DryRun {
        app.print(format!("{} would be removed.", plural(lines.len(), noun)))?;
        return Ok(0);
    }
    if manner == Manner::Ask {
        require_person(app, &format!("removing {noun}s"), &format!("lazy doctor {flag} --yes"))?;
    }
    let (mut removed, mut failed) = (0, 0);
    for (at, line) in lines.iter().enumerate() {
        if manner == Manner::Ask && confirm(app, &format!("Remove {line}?"), Enter::Yes)? == Answer::No {
            continue;
        }
        match remove(at).await {
            Ok(()) => removed += 1,
            Err(error) => {
                failed += 1;
                app.warn_all(&[error.full_message()]);
            }
        }
    }
    app.print(format!("{} removed.", plural(removed, noun)))?;
    Ok(u8::from(failed > 0))
}

fn line(images: &Images, image: &Listed) -> String {
    let id = image.id.trim_start_matches("sha256:");
    let name = if image.names.is_empty() { "<no name>".to_string() } else { image.names.join(", ") };
    let age = image.created.map_or("?".to_string(), |created| duration_text(images.now().since(created)));
    format!("{}  {name}  {} MB  {age} old", &id[..id.len().min(12)], image.size / 1_000_000)
}

fn word(disposal: Disposal) -> &'static str {
    match disposal {
        Disposal::Needed => "needed",
        Disposal::InUse => "in use by a container",
        Disposal::Removable => "not needed",
    }
}
