//! The paths of requests. A path is built from what was decided, and each part of it is exactly one segment (G2).
//!
//! Without this check, an owner of the kind Pod with the name `a:80/proxy/x` would make the API server send the request
//! to a pod of the tenant, whose answer could then prove anything.

use std::fmt::Write as _;

use http::Request;
use kube::core::Request as Path;
use kube::core::params::GetParams;

use super::connection::built;
use crate::kubernetes::{ApiResource, Cause};
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
/// The text is no segment.
pub(in crate::kubernetes) fn segment(text: &str) -> Result<String, Cause> {
    if is_path_segment(text) { Ok(escaped(text)) } else { Err(Cause::InvalidRequest(no_segment(text))) }
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
    /// The version, the resource or the namespace is no segment of a path.
    pub fn path(&self, namespace: &str) -> Result<String, Cause> {
        let (version, resource) = (self.version_path()?, segment(&self.resource)?);
        match namespace {
            "" => Ok(format!("{version}/{resource}")),
            namespace => Ok(format!("{version}/namespaces/{}/{resource}", segment(namespace)?)),
        }
    }

    fn version_path(&self) -> Result<String, Cause> {
        match self.api_version.split_once('/') {
            None => Ok(format!("/api/{}", segment(&self.api_version)?)),
            Some((group, version)) => Ok(format!("/apis/{}/{}", segment(group)?, segment(version)?)),
        }
    }

    /// Returns the request that reads an object from the server's store.
    pub(in crate::kubernetes) fn get(&self, namespace: &str, name: &str) -> Result<Request<Vec<u8>>, Cause> {
        let (path, name) = self.object(namespace, name)?;
        built(path.get(&name, &GetParams::default()))
    }

    /// Returns a request for objects of a namespace, and the name of one of them for it.
    pub(in crate::kubernetes) fn object(&self, namespace: &str, name: &str) -> Result<(Path, String), Cause> {
        Ok((Path::new(self.path(namespace)?), segment(name)?))
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
        assert_eq!(resource("v1", "pods").path("n").unwrap(), "/api/v1/namespaces/n/pods");
        assert_eq!(resource("apps/v1", "deployments").path("").unwrap(), "/apis/apps/v1/deployments");
    }

    #[test]
    fn a_part_that_is_no_segment_makes_no_path() {
        for bad in ["..", ".", "a/b", "a%2fb", "/"] {
            assert!(resource("v1", "pods").path(bad).is_err(), "{bad}");
            assert!(resource("v1", bad).path("n").is_err(), "{bad}");
            assert!(resource(&format!("apps/{bad}"), "x").path("n").is_err(), "{bad}");
            assert!(resource("v1", "pods").object("n", bad).is_err(), "{bad}");
        }
        for bad in ["", "/v1", "apps/", "apps/v1/x"] {
            assert!(resource(bad, "pods").path("n").is_err(), "{bad}");
        }
        assert!(resource("v1", "pods").object("n", "").is_err());
    }

    #[test]
    fn a_segment_is_escaped() {
        assert_eq!(segment("system:a?b#c d\\é\n").unwrap(), "system:a%3Fb%23c%20d%5C%C3%A9%0A");
    }
}
