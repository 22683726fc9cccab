//! When a request is sent again, as client-go does: after the wait that the server wants, and a read whose connection broke
//! over a new one.

use std::error::Error;
use std::time::Duration;

use http::{Method, Response, header};
use hyper_util::client::legacy;

use crate::kubernetes::Cause;

/// How often a request is sent again, as in client-go.
pub(super) const MOST: u32 = 10;
/// A command waits less than this in all for one read: an API server wants 30 s for a kind whose conversion webhook is down, and the
/// other kinds are of use without it.
pub(super) const LONGEST: Duration = Duration::from_secs(20);
/// The wait before another new connection. The first one is opened at once.
const NEXT_CONNECTION: Duration = Duration::from_secs(1);

/// Returns how long to wait before a failed request is sent again; `None` = it is not.
pub(super) fn wait(error: &Cause, method: &Method, repeated: u32) -> Option<Duration> {
    match error {
        // A change may have been made before the connection broke.
        Cause::Unreachable { was_open: true, .. } if method == Method::GET => {
            Some(if repeated == 0 { Duration::ZERO } else { NEXT_CONNECTION })
        }
        error => error.retry_after(),
    }
}

/// Returns the kind that a path is about, as its path without namespace and name.
pub(super) fn kind(path: &str) -> String {
    let parts: Vec<_> = path.trim_start_matches('/').split('/').collect();
    let (version, rest) = parts.split_at(parts.len().min(if parts.first() == Some(&"api") { 2 } else { 3 }));
    let resource = match rest {
        ["namespaces", _, resource, ..] | [resource, ..] => Some(*resource),
        [] => None,
    };
    version.iter().copied().chain(resource).collect::<Vec<_>>().join("/")
}

/// Returns the header `Retry-After` of a refusal that is not for good. Its other form, a date, no API server sends.
pub(super) fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let header = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    let seconds = header.trim().parse().ok()?;
    let status = response.status();
    (status.as_u16() == 429 || status.is_server_error()).then(|| Duration::from_secs(seconds))
}

/// Returns whether an error says that no connection was established.
pub(super) fn is_of_connect(error: &(dyn Error + 'static)) -> bool {
    let is_it = error.downcast_ref::<legacy::Error>().is_some_and(legacy::Error::is_connect);
    is_it || error.source().is_some_and(is_of_connect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_the_same_in_each_namespace() {
        for (path, expected) in [
            ("/api/v1/pods", "api/v1/pods"),
            ("/api/v1/namespaces/ns1/pods/a", "api/v1/pods"),
            ("/api/v1/namespaces/ns1", "api/v1/namespaces"),
            ("/apis/example.com/v1/widgets", "apis/example.com/v1/widgets"),
            ("/apis/example.com/v1/namespaces/ns1/widgets/a", "apis/example.com/v1/widgets"),
            ("/apis", "apis"),
            ("/version", "version"),
        ] {
            assert_eq!(kind(path), expected);
        }
    }
}
