//! Keep patterns.
//!
//! A pattern may be written as users write image names: `nginx` for `docker.io/library/nginx`. A pattern without a tag
//! or digest keeps every tag and digest of the repository: to keep one image too many does no harm.

use super::Policy;
use crate::model::{Snapshot, full_image_patterns, is_image_pattern};

/// A keep pattern: a name in which `*` matches any text. It is compared with whole tags, digests and IDs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pattern {
    written: String,
    /// The pattern as configured, and with registry, path and tag.
    forms: Vec<String>,
}

// === impl Pattern ===

impl Pattern {
    /// Returns the pattern as configured.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Returns whether the whole of `name` matches.
    pub fn matches(&self, name: &str) -> bool {
        self.forms.iter().any(|form| matches(form, name))
    }

    /// Returns whether an image name or ID can match.
    pub fn can_match(&self) -> bool {
        is_image_pattern(&self.written)
    }
}

impl From<&str> for Pattern {
    fn from(pattern: &str) -> Self {
        let forms = std::iter::once(pattern.to_owned()).chain(full_image_patterns(pattern)).collect();
        Self { written: pattern.to_owned(), forms }
    }
}

/// Returns the keep patterns that match no image of a snapshot; none if the list of images is unavailable.
pub fn unmatched_patterns<'a>(snapshot: &Snapshot, policy: &'a Policy) -> Vec<&'a Pattern> {
    let Some(images) = snapshot.images.as_ref() else { return Vec::new() };
    let matches_none =
        |pattern: &&Pattern| !images.iter().flat_map(crate::model::Image::names).any(|name| pattern.matches(&name));
    policy.images.keep.iter().filter(matches_none).collect()
}

fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|head| name.strip_prefix(head)) else { return false };
    let Some(tail) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_in_a_pattern_matches_any_text() {
        let rows = [
            ("docker.io/library/web:1", "docker.io/library/web:1", true),
            ("docker.io/library/web:1", "docker.io/library/web:12", false),
            ("docker.io/library/web:*", "docker.io/library/web:12", true),
            ("*", "", true),
            ("*/coredns:*", "registry.k8s.io/coredns/coredns:v1.9.3", true),
            ("a*a", "a", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a**c", "ac", true),
            ("", "a", false),
        ];
        for (pattern, name, expected) in rows {
            assert_eq!(Pattern::from(pattern).matches(name), expected, "{pattern:?} against {name:?}");
            assert_eq!(Pattern::from(pattern).as_str(), pattern, "shown as configured");
        }
    }

    #[test]
    fn a_pattern_may_be_a_short_name() {
        let digest = "sha256:abcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcd";
        let nginx = "docker.io/library/nginx:1.27";
        let rows = [
            ("nginx", nginx, true),
            ("nginx:1.27", nginx, true),
            ("nginx:1.2*", nginx, true),
            ("ngin*", nginx, true),
            ("library/nginx", nginx, true),
            ("docker.io/nginx", nginx, true),
            ("index.docker.io/library/nginx:1.27", nginx, true),
            ("nginx:1.26", nginx, false),
            ("nginx", "quay.io/library/nginx:1", false),
            ("nginx", "docker.io/library/nginx-debug:1", false),
            ("team/web", "docker.io/team/web:1", true),
            ("quay.io/team/web", "quay.io/team/web:1", true),
            ("quay.io/team/web", &format!("quay.io/team/web@{digest}"), true),
            (&format!("quay.io/team/web:1@{digest}"), &format!("quay.io/team/web@{digest}"), true),
            ("localhost/web", "localhost/web:latest", true),
            ("registry:5000/web", "registry:5000/web:2", true),
            (digest, digest, true),
            (digest.trim_start_matches("sha256:"), digest, true),
            ("sha256:abcd*", digest, true),
        ];
        for (pattern, name, expected) in rows {
            assert_eq!(Pattern::from(pattern).matches(name), expected, "{pattern:?} against {name:?}");
            assert!(Pattern::from(pattern).can_match(), "{pattern:?}");
        }
    }

    #[test]
    fn a_pattern_that_is_no_image_name_matches_nothing() {
        for pattern in
            ["Nginx", "team/Web:1", "nginx:", "https://quay.io/web", "quay.io//web", "web 1", "web@1", "-web", "/web"]
        {
            assert!(!Pattern::from(pattern).can_match(), "{pattern:?}");
        }
    }
}
