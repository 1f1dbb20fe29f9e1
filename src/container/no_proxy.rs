//! The way to daemon and proxy must not lead over a proxy that the environment names.

/// What the link's addresses are called.
const OURS: [&str; 2] = ["127.0.0.1", "localhost"];

/// `NO_PROXY` and `no_proxy` with the loopback addresses in them, when any variable names a proxy; else nothing.
pub fn amended<'a>(env: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(String, String)> {
    let (mut proxied, mut upper, mut lower) = (false, None, None);
    for (name, value) in env.filter(|(_, value)| !value.trim().is_empty()) {
        match name {
            "NO_PROXY" => upper = Some(value),
            "no_proxy" => lower = Some(value),
            _ => proxied |= name.to_ascii_lowercase().ends_with("_proxy"),
        }
    }
    if !proxied {
        return Vec::new();
    }
    // Programs differ in which of the two they read, so both say what either says.
    let mut names: Vec<&str> = Vec::new();
    for name in [upper, lower].into_iter().flatten().flat_map(|list| list.split(',')).map(str::trim).chain(OURS) {
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    // Alone, a star means everything; beside other names it means nothing.
    let list = if names.contains(&"*") { "*".into() } else { names.join(",") };
    vec![("NO_PROXY".into(), list.clone()), ("no_proxy".into(), list)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(env: &[(&str, &str)]) -> Option<String> {
        let set = amended(env.iter().copied());
        let list = set.first().map(|(_, list)| list.clone());
        if let Some(list) = &list {
            assert_eq!(set, [("NO_PROXY".into(), list.clone()), ("no_proxy".into(), list.clone())]);
        }
        list
    }

    #[test]
    fn loopback_is_never_proxied() {
        assert_eq!(list(&[("PATH", "/bin"), ("NO_PROXY", "a")]), None);
        assert_eq!(list(&[("https_proxy", " ")]), None);
        assert_eq!(list(&[("https_proxy", "http://p:1")]).as_deref(), Some("127.0.0.1,localhost"));
        assert_eq!(list(&[("ALL_PROXY", "x"), ("no_proxy", "a, ,b")]).as_deref(), Some("a,b,127.0.0.1,localhost"));
        let both = [("HTTP_PROXY", "x"), ("NO_PROXY", "localhost,a"), ("no_proxy", "b")];
        assert_eq!(list(&both).as_deref(), Some("localhost,a,b,127.0.0.1"));
        assert_eq!(list(&[("http_proxy", "x"), ("NO_PROXY", "a,*")]).as_deref(), Some("*"));
    }
}
