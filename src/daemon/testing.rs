//! Stand-ins for what the routes lead to, and a client that says exactly what it is told to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};

use super::binary::BinaryId;
use super::dispatch::{Dispatch, Named};
use super::router::{Front, Router};
use super::status::Facts;
use super::tools::{Tools, Work};
use crate::base::{Error, Millis, Process};
use crate::http::{Client, Drain, Server, read_body};
use crate::model::{Code, TaskId};
use crate::ops::{Caller, Narrator};
use crate::rpc::client::header_text;
use crate::rpc::state_dir::ProxyStatus;
use crate::rpc::tokens::{Token, Tokens};

/// What the stand-in commands did.
#[derive(Default)]
pub(super) struct Seen {
    /// `slow` has begun.
    pub begun: Notify,
    /// `slow` may end.
    pub go: Gate,
    /// How often `slow` came to its end.
    pub finished: AtomicU32,
    /// How often anything at all ran.
    pub ran: AtomicU32,
}

/// Closed until permits are added.
pub(super) struct Gate(pub Semaphore);

impl Default for Gate {
    fn default() -> Self {
        Gate(Semaphore::new(0))
    }
}

struct StandIn {
    seen: Arc<Seen>,
    tasks: BTreeMap<TaskId, Code>,
}

impl Dispatch for StandIn {
    fn call(&self, command: &str, caller: Caller, params: Value, narrator: Narrator) -> Option<Work> {
        let seen = self.seen.clone();
        let begin = move || seen.ran.fetch_add(1, Ordering::SeqCst);
        let seen = self.seen.clone();
        let work: Work = match command {
            "echo" => Box::pin(async move {
                begin();
                Ok(json!({ "by": caller.by, "kind": format!("{:?}", caller.kind), "params": params }))
            }),
            "slow" => Box::pin(async move {
                begin();
                narrator.phase("being slow");
                seen.begun.notify_one();
                seen.go.0.acquire().await.expect("never closed").forget();
                seen.finished.fetch_add(1, Ordering::SeqCst);
                Ok(json!("done"))
            }),
            "wait" => Box::pin(async move {
                begin();
                seen.begun.notify_one();
                std::future::pending().await
            }),
            "refuse" => Box::pin(async {
                Err(Error::conflict("not now").hint("lazy list").with_details(json!({ "why": "because" })))
            }),
            "panic" => Box::pin(async { panic!("this one breaks") }),
            _ => return None,
        };
        Some(work)
    }

    fn names(&self) -> Vec<&'static str> {
        vec!["echo", "slow", "wait", "refuse", "panic"]
    }

    fn task(&self, id: TaskId) -> Option<Named> {
        let code = self.tasks.get(&id)?.clone();
        Some(Named { id, code: Some(code), task_ref: None })
    }

    fn running_agents(&self) -> u32 {
        2
    }
}

impl Tools for StandIn {
    fn call(&self, caller: Caller, tool: &str, arguments: Map<String, Value>, _: Narrator) -> Work {
        self.seen.ran.fetch_add(1, Ordering::SeqCst);
        let tool = tool.to_string();
        Box::pin(async move { Ok(json!({ "tool": tool, "task": caller.own_task(), "arguments": arguments })) })
    }
}

/// Routes on a real port, with stand-ins behind them.
pub(super) struct World {
    pub dir: tempfile::TempDir,
    pub base: String,
    pub root: String,
    pub shared: Token,
    /// Of task `fix`.
    pub task_token: Token,
    pub task: TaskId,
    pub seen: Arc<Seen>,
    pub drain: Drain,
    pub end: Arc<Notify>,
    pub server: Server,
    pub tokens: Arc<Tokens>,
}

impl World {
    pub async fn new() -> World {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("größtes projekt");
        std::fs::create_dir(&path).expect("the project");
        let process = Process::fake(["lazy"], &[], dir.path(), Millis(0));
        let tokens = Arc::new(Tokens::open(dir.path().join("mcp-tokens.json")).expect("opens"));
        let (task, other) = (TaskId::random(), TaskId::random());
        let task_token = tokens.mint_task(&process, task, "lazy-fix").expect("mints");
        tokens.mint_task(&process, other, "lazy-other").expect("mints");
        let tasks = BTreeMap::from([(task, Code::read("fix")), (other, Code::read("other"))]);
        let (seen, drain, end) = (Arc::new(Seen::default()), Drain::new(), Arc::new(Notify::new()));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("an address");
        let front = Arc::new(Front::default());
        let server = Server::serve(listener, front.clone(), drain.clone()).expect("serves");
        let shared = Token::random();
        let base = format!("http://{address}");
        let starting = send(&base, Method::GET, "/daemon/status", &[], "").await;
        assert_eq!(starting.0, 503, "nothing is served before it is wired");
        front.wire(Router {
            root: path.clone(),
            shared: shared.clone(),
            tokens: tokens.clone(),
            dispatch: Arc::new(StandIn { seen: seen.clone(), tasks: tasks.clone() }),
            tools: Arc::new(StandIn { seen: seen.clone(), tasks }),
            facts: Facts {
                started: Instant::now(),
                instance_id: "i".into(),
                project_root: path.to_str().expect("utf-8").into(),
                address,
                bind_host: "127.0.0.1".into(),
                proxy: ProxyStatus { address: "http://127.0.0.1:1".into(), upstream: "http://127.0.0.1:2".into() },
                agent_limit: 4,
                binary: BinaryId::compute(&process),
            },
            drain: drain.clone(),
            end: end.clone(),
            heartbeat: Duration::from_millis(20),
        });
        let root = path.to_str().expect("utf-8").to_string();
        World { dir, base, root, shared, task_token, task, seen, drain, end, server, tokens }
    }

    /// A call as the command line makes it: shared token, right project.
    pub async fn rpc(&self, command: &str, body: &str) -> (u16, Value) {
        self.post(&format!("/rpc/{command}"), &self.shared, Some(&self.root), body).await
    }

    /// A call of task `fix`'s agent.
    pub async fn mcp(&self, segment: &str, tool: &str, body: &str) -> (u16, Value) {
        self.post(&format!("/mcp/{segment}/{tool}"), &self.task_token, Some(&self.root), body).await
    }

    pub async fn post(&self, path: &str, token: &Token, project: Option<&str>, body: &str) -> (u16, Value) {
        let bearer = format!("Bearer {}", token.expose());
        let project = project.map(header_text);
        let mut headers = vec![("authorization", bearer.as_str())];
        headers.extend(project.as_deref().map(|project| ("x-lazy-project", project)));
        send(&self.base, Method::POST, path, &headers, body).await
    }

    pub fn ran(&self) -> u32 {
        self.seen.ran.load(Ordering::SeqCst)
    }
}

/// One request; the status, and the body as JSON (lines of JSON become an array).
pub(super) async fn send(base: &str, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
    let client = Client::new(base).expect("an address");
    let response = client.request(method, path, headers, body.to_string()).await.expect("an answer");
    let status = response.status().as_u16();
    let bytes = read_body(response.into_body(), 1 << 20).await.expect("a body");
    let text = String::from_utf8(bytes.to_vec()).expect("utf-8");
    let value = serde_json::from_str(&text)
        .unwrap_or_else(|_| text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line")).collect());
    (status, value)
}
