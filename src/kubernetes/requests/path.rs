//! The paths of requests. A path is built from what was decided, and each part of it is exactly one segment (G2).
//!
//! Without this check, an owner of the kind Pod with the name `a:80/proxy/x` would make the API server send the request
//! to a pod of the tenant, whose answer could then prove anything.

use std::fmt::Write as _;

use kube::core::Request as Path;

use super::connection::invalid_request;
use crate::kubernetes::{ApiResource, KubernetesError};
use crate::model::cut_text;

/// Returns whether a name or namespace can be one segment of a path. The API server accepts no other names, by its
/// function `IsValidPathSegmentName`.
pub fn is_path_segment(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(['/', '%'])
}

/// Returns a segment of a path, escaped.
///
/// # Errors
///
/// The text is no segment. `what` completes "cannot …".
pub(super) fn segment(what: &str, text: &str) -> Result<String, KubernetesError> {
    if is_path_segment(text) { Ok(escaped(text)) } else { Err(invalid_request(what, no_segment(text))) }
}

/// Returns why a text is no segment. It may be long.
fn no_segment(text: &str) -> String {
    format!("{:?} is not an object name", cut_text(text, 80))
}

/// Escapes all characters that may have a meaning in a URI.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => escaped.push(byte.into()),
            _ => {
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
    }
    escaped
}

// === impl ApiResource ===

impl ApiResource {
    /// Returns the path of its objects in a namespace; of all of them if that is empty.
    ///
    /// # Errors
    ///
    /// The version, the resource or the namespace is no segment of a path. `what` completes "cannot …".
    pub fn path(&self, what: &str, namespace: &str) -> Result<String, KubernetesError> {
        let (version, resource) = (self.version_path(what)?, segment(what, &self.resource)?);
        match namespace {
            "" => Ok(format!("{version}/{resource}")),
            namespace => Ok(format!("{version}/namespaces/{}/{resource}", segment(what, namespace)?)),
        }
    }

    fn version_path(&self, what: &str) -> Result<String, KubernetesError> {
        match self.api_version.split_once('/') {
            None => Ok(format!("/api/{}", segment(what, &self.api_version)?)),
            Some((group, version)) => Ok(format!("/apis/{}/{}", segment(what, group)?, segment(what, version)?)),
        }
    }

    /// Returns a request for objects of a namespace, and the name of one of them for it.
    pub(in crate::kubernetes) fn object(
        &self,
        what: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(Path, String), KubernetesError> {
        Ok((Path::new(self.path(what, namespace)?), segment(what, name)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(api_version: &str, resource: &str) -> ApiResource {
        ApiResource { api_version: api_version.to_owned(), resource: resource.to_owned(), ..ApiResource::pods() }
    }

    #[test]
    fn a_path_has_version_namespace_and_resource() {
        assert_eq!(resource("v1", "pods").path("list", "n").unwrap(), "/api/v1/namespaces/n/pods");
        assert_eq!(resource("apps/v1", "deployments").path("list", "").unwrap(), "/apis/apps/v1/deployments");
    }

    #[test]
    fn a_part_that_is_no_segment_makes_no_path() {
        for bad in ["..", ".", "a/b", "a%2fb", "/"] {
            assert!(resource("v1", "pods").path("list", bad).is_err(), "{bad}");
            assert!(resource("v1", bad).path("list", "n").is_err(), "{bad}");
            assert!(resource(&format!("apps/{bad}"), "x").path("list", "n").is_err(), "{bad}");
            assert!(resource("v1", "pods").object("read", "n", bad).is_err(), "{bad}");
        }
        for bad in ["", "/v1", "apps/", "apps/v1/x"] {
            assert!(resource(bad, "pods").path("list", "n").is_err(), "{bad}");
        }
        assert!(resource("v1", "pods").object("read", "n", "").is_err());
    }

    #[test]
    fn a_segment_is_escaped() {
        assert_eq!(segment("read", "system:a?b#c d\\é\n").unwrap(), "system:a%3Fb%23c%20d%5C%C3%A9%0A");
    }
}
