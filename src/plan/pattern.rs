//! Keep patterns.

/// A keep pattern: a name in which `*` matches any text. It is compared with whole tags, digests and IDs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pattern(String);

// === impl Pattern ===

impl Pattern {
    /// Returns the pattern as configured.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the whole of `name` matches.
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
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
}

impl From<&str> for Pattern {
    fn from(pattern: &str) -> Self {
        Self(pattern.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text_and_the_rest_for_itself() {
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
}
