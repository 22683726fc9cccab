//! The proxy to an API server.

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

/// The proxies of the environment, as the variables `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` name them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Proxies {
    /// The proxy to servers with the scheme `http`.
    pub http: Option<String>,
    /// The proxy to servers with the scheme `https`.
    pub https: Option<String>,
    /// The servers that have no proxy, with commas between them.
    pub none: Option<String>,
}

/// Returns the proxy that a kubeconfig names.
///
/// # Errors
/// It is no address of a proxy.
pub(super) fn named(proxy: &str) -> Result<Intercept, String> {
    let matcher = Matcher::builder().all(proxy.to_owned()).build();
    let has_scheme = ["http://", "https://", "socks5://"].iter().any(|scheme| proxy.starts_with(scheme));
    let found = matcher.intercept(&Uri::from_static("https://any")).filter(|_| has_scheme);
    found.ok_or_else(|| format!("proxy-url {proxy:?}: expected http://, https:// or socks5:// and a host"))
}

// === impl Proxies ===

impl Proxies {
    /// Returns the proxy to a server, as programs in Go find it: never for this host itself.
    pub(super) fn of(&self, server: &Uri) -> Option<Intercept> {
        let host = server.host()?.trim_matches(['[', ']']);
        let is_loopback = host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback());
        if host == "localhost" || is_loopback {
            return None;
        }
        let matcher = Matcher::builder()
            .http(self.http.clone().unwrap_or_default())
            .https(self.https.clone().unwrap_or_default())
            .no(without_ports(self.none.as_deref().unwrap_or_default(), server));
        matcher.build().intercept(server)
    }
}

/// Returns the entries of `NO_PROXY` that may apply to the port of the server, without their ports.
fn without_ports(entries: &str, server: &Uri) -> String {
    let port = server.port_u16().unwrap_or(if server.scheme_str() == Some("https") { 443 } else { 80 });
    let without = |entry: &'_ str| match entry.trim().rsplit_once(':') {
        Some((host, number)) if !host.is_empty() && !host.contains(':') => {
            (number.parse() == Ok(port)).then(|| host.to_owned())
        }
        _ => Some(entry.trim().to_owned()),
    };
    entries.split(',').filter_map(without).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_has_a_proxy_for_some_servers() {
        let proxies = Proxies {
            http: Some("http://plain:1".to_owned()),
            https: Some("secure:2".to_owned()),
            none: Some("example.com, 10.0.0.0/8,far:6443,*.not".to_owned()),
        };
        for (server, proxy) in [
            ("https://cluster:6443", Some("http://secure:2/")),
            ("http://cluster", Some("http://plain:1/")),
            ("https://api.example.com", None),
            ("https://notexample.com", Some("http://secure:2/")),
            ("https://10.1.2.3:6443", None),
            ("https://far:6443", None),
            ("https://far", Some("http://secure:2/")),
            ("https://localhost:6443", None),
            ("https://127.0.0.1:6443", None),
            ("https://[::1]:6443", None),
        ] {
            let found = proxies.of(&server.parse().unwrap()).map(|found| found.uri().to_string());
            assert_eq!(found.as_deref(), proxy, "{server}");
        }
        assert!(Proxies::default().of(&Uri::from_static("https://cluster")).is_none());
    }

    #[test]
    fn a_proxy_in_a_file_needs_a_scheme() {
        let proxy = named("http://me:se%3Acret@proxy:3128").unwrap();
        assert_eq!(proxy.uri(), "http://proxy:3128/");
        assert_eq!(proxy.basic_auth().unwrap(), "Basic bWU6c2U6Y3JldA==");
        for wrong in ["proxy:3128", "ftp://proxy", "http://", "socks4://proxy"] {
            assert!(named(wrong).unwrap_err().contains(wrong));
        }
    }
}
