//! From method and path to a route; and how a path is written to the log.

use hyper::Method;

use super::auth::looks_like_token;

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// `GET /daemon/status`
    Status,
    /// `POST /daemon/shutdown`
    Shutdown,
    /// `POST /rpc/<command>`
    Rpc(String),
    /// `POST /mcp/<task>/<tool>`
    Mcp {
        /// The claim, decoded.
        task: String,
        /// The tool, decoded.
        tool: String,
    },
    /// A route that exists, asked in another way than this.
    Only(&'static str),
    /// Nothing.
    Nowhere,
}

impl Route {
    /// The route of a request.
    pub fn of(method: &Method, path: &str) -> Route {
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let post = *method == Method::POST;
        match segments[..] {
            ["daemon", "status"] if matches!(*method, Method::GET | Method::HEAD) => Route::Status,
            ["daemon", "status"] => Route::Only("GET"),
            ["rpc", ""] | ["mcp", _, ""] => Route::Nowhere,
            ["daemon", "shutdown"] | ["rpc", _] | ["mcp", _, _] if !post => Route::Only("POST"),
            ["daemon", "shutdown"] => Route::Shutdown,
            ["rpc", command] => Route::Rpc(decoded(command)),
            ["mcp", task, tool] => Route::Mcp { task: decoded(task), tool: decoded(tool) },
            _ => Route::Nowhere,
        }
    }
}

fn decoded(segment: &str) -> String {
    crate::rpc::client::header_text_decoded(segment)
}

/// A path for the log: without query, and without anything that could be a secret or is not plain.
pub(super) fn for_log(path: &str) -> String {
    let segments = path.split('/').take(6).map(|segment| {
        let plain = segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
        if !plain || segment.len() > 80 || looks_like_token(segment) { "…" } else { segment }
    });
    segments.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn routes() {
        let post = |path: &str| Route::of(&Method::POST, path);
        assert_eq!(Route::of(&Method::GET, "/daemon/status"), Route::Status);
        assert_eq!(post("/daemon/shutdown"), Route::Shutdown);
        assert_eq!(post("/rpc/list"), Route::Rpc("list".into()));
        assert_eq!(post("/mcp/_/lazy_list"), Route::Mcp { task: "_".into(), tool: "lazy_list".into() });
        assert_eq!(post("/mcp/a%2Fb/t"), Route::Mcp { task: "a/b".into(), tool: "t".into() });
        for nowhere in ["/", "", "/rpc", "/rpc/", "/rpc/a/b", "/mcp/a", "/mcp/a/", "/daemon", "/daemon/x"] {
            assert_eq!(post(nowhere), Route::Nowhere, "{nowhere}");
        }
        assert_eq!(post("/daemon/status"), Route::Only("GET"));
        for posted in ["/daemon/shutdown", "/rpc/list", "/mcp/_/lazy_list"] {
            assert_eq!(Route::of(&Method::GET, posted), Route::Only("POST"), "{posted}");
        }
    }

    #[test]
    fn the_log_shows_paths_and_no_secrets() {
        assert_eq!(for_log("/mcp/fix-login/lazy_list"), "/mcp/fix-login/lazy_list");
        let secret = crate::base::hash::secret();
        assert_eq!(for_log(&format!("/mcp/{secret}/lazy_list")), "/mcp/…/lazy_list");
        assert_eq!(for_log("/rpc/sk-ant-api03-lazy-00"), "/rpc/…");
        assert_eq!(for_log("/rpc/a%0Ab"), "/rpc/…");
    }

    proptest! {
        #[test]
        fn a_logged_path_is_one_short_line(path in ".*") {
            let text = for_log(&path);
            prop_assert!(text.len() < 600 && !text.contains('\n'));
        }
    }
}
