//! lazy: AI coding agents on tasks, unattended and many at once, each in its own worktree, behind a proxy that holds
//! the credential; and their work reviewable, mergeable and recoverable.
//!
//! This page is the map. `docs/architecture.md` draws the same for people.
//!
//! # Rooms
//!
//! Each room's `mod.rs` says what it is for, what holds in it, which files it owns and what it refuses. Which room may
//! import which stands in `tests/guards/arrows.rs`, and nowhere else.
//!
//! | room | job |
//! | --- | --- |
//! | [`base`] | the process as a value, errors with hints, files written whole, locks, ids, hashes, time, text, logging |
//! | [`model`] | records as stored, names, the transition table, gates as pure decisions; no I/O and no clock |
//! | [`proc`] | the only spawner: process groups, bounded waits and output, the timers of a watched agent |
//! | [`http`] | loopback HTTP/1.1: server with drain, client, heartbeat envelope, event streams |
//! | [`config`] | `lazy.toml`: find, load, check, explain, edit with comments kept |
//! | [`store`] | the task store: lists of edits applied whole or not at all, the index in memory |
//! | [`exchange`] | the mailbox between the daemon and a task's supervisor |
//! | [`git`] | one repository: reads by gix, everything else by the git program; worktrees, commits, merges |
//! | [`agent`] | what differs between agents: argv, environment, stream, failure classes; and the prompts |
//! | [`forge`] | where accepted work goes; the local repository so far |
//! | [`rpc`] | what crosses the daemon's wire: commands, tokens, state directory, client |
//! | [`runner`] | what a run lives in: containers of Docker or Podman, host processes; images, and the program that containers mount |
//! | [`proxy`] | placeholder in, real credential out, one record for each request |
//! | [`mcp`] | the agent's tools over stdio: validates and relays, cannot act |
//! | [`ops`] | the operations, one definition each; `ops/reconcile` turns responses, deaths and time into edits |
//! | [`supervisor`] | the phases of a turn, beside the agent; never opens the store |
//! | [`container`] | the first process of a container: its user, its authorities, the link's inner end, the supervisor again and again |
//! | [`setup`] | what works without a daemon: init, doctor, images, upgrade, statistics |
//! | [`daemon`] | one for each project: bring-up, who may call, routes, tools, loops, drain |
//! | [`demo`] | a scripted model server and a small built-in agent |
//! | [`cli`] | words in, one operation, its report out |
//! | [`applet`] | which program am I: the name I was started under, then the first word |
//!
//! # Processes at run time
//!
//! All are this one executable, but for the agent and the model.
//!
//! | process | started by | lives | talks to |
//! | --- | --- | --- | --- |
//! | `lazy <command>` | a person | one command | the daemon, `POST /rpc/<command>` |
//! | daemon, proxy included | any command that needs it | until `lazy daemon stop` | store, git, mailboxes; upstream model |
//! | `lazy-agent init` | the engine, as a container's first process | as long as the container | nobody; carries connections to the daemon |
//! | supervisor | the daemon through the runner | one command of a task; outlives a daemon that dies | mailbox, git |
//! | agent (`claude`, `lazy demo-agent`) | the supervisor | one prompt | the proxy, its MCP server |
//! | `lazy mcp` | the agent | as long as its standard input | the daemon, `POST /mcp/<task>/<tool>` |
//!
//! # Files on disk
//!
//! | file | owner |
//! | --- | --- |
//! | `<root>/lazy.toml` | the person; written once by `setup` |
//! | `<root>/.gitignore` (four lines) | `setup` |
//! | `<root>/.lazy/worktrees/<ref>/` | made by `git`, worked in by the agent |
//! | `<root>/.lazy/logs/proxy-audit.jsonl` and one older segment | `proxy` |
//! | `<root>/.lazy/auto-resume-queue.json` | `ops` (reconcile) |
//! | `<root>/.lazy/recovery/` | `cli` (typed text that the daemon has not got yet) |
//! | `<worktree>/.lazy-lock`, `<worktree>/.lazy/recovery/*.patch` | `git` |
//! | `<worktree>/.lazy-task-sandbox/mcp.json` | `supervisor`, through `agent` |
//! | `<worktree>/.lazy-task-sandbox/system-prompt.md`, `.claude/`, `.demo/` | `agent`, and the agent itself |
//! | `<worktree>/.lazy-task-sandbox/turn-handoff.jsonl` | the agent; read and removed by `supervisor` |
//! | `<common git dir>/info/exclude` (three lines) | `git` |
//! | `~/.lazy/<project>/` (`[storage] external_path`): `version.json`, `project.json`, `.storage-lock`, `journal/`, `tasks/` | `store` |
//! | `~/.lazy/daemon/<slug>/`: `daemon.lock`, `lazy.pid`, `web-port`, `root`, `token`, `startup-error`, `daemon.log` | `daemon`, paths in `rpc` |
//! | `~/.lazy/daemon/<slug>/mcp-tokens.json`, `mcp/daemon-mcp-<run>.json` | `rpc` (registry), `daemon` (minted) |
//! | `~/.lazy/daemon/<slug>/proxy-tokens.json`, `proxy-port` | `proxy` (grants), `daemon` (port) |
//! | `~/.lazy/bin/lazy-agent-<id>`, `lazy-agent-current`; `~/.lazy/run/images/` | `runner` |
//! | `~/.lazy/link/<slug>/link.sock` | `daemon`; alone in a directory that containers see |
//! | `~/.lazy/protocol/<task uuid>/` | `exchange` |
//! | `~/.lazy/run/<slug>/<run>.json`, `~/.lazy/logs/<slug>/<run>.log` | `runner` |
//!
//! # Invariants
//!
//! - One daemon for a project, one writer for a store: each holds a lock that the operating system releases.
//! - A list of edits is applied whole or not at all. A status and its history row cannot come apart.
//! - Persist before launch: a turn is recorded before anything of it runs.
//! - An unread response is never destroyed, and recorded once.
//! - A rule about who may do what, from which status, lives in the operation, never in a face.
//! - Who is calling is decided by the token presented, never by what the caller says.
//! - The real credential is in the daemon's memory and in requests to the upstream, in no file, argument, log or run.
//! - A person's checkout, index and branch are never lost or touched unasked: a merge is made beside them.
//! - The daemon finishes what it began, whoever listens. No wait and no buffer is unbounded.
//! - Only `base::process` prints, only `proc` spawns, only `base::Process` is asked for environment, cwd and clock.

pub mod agent;
pub mod applet;
pub mod base;
pub mod cli;
pub mod config;
pub mod container;
pub mod daemon;
pub mod demo;
pub mod exchange;
pub mod forge;
pub mod git;
pub mod http;
pub mod mcp;
pub mod model;
pub mod ops;
pub mod proc;
pub mod proxy;
pub mod rpc;
pub mod runner;
pub mod setup;
pub mod store;
pub mod supervisor;
