//! A name for images as a person writes it: in `images.keep`, in a policy of the cluster, in a list of a command.
//!
//! It may be short: `nginx` is `docker.io/library/nginx`. A name without a tag or digest means every tag and digest of the repository.

use std::borrow::Cow;

use super::ids::SHA256;
use super::image_names::{full_image_patterns, is_image_pattern};
use super::{Image, canonical_image_id};

/// A name for images, in which `*` stands for any text. It is compared with whole tags, digests and ids.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ImageName {
    written: String,
    /// The name as written, and with registry, path and tag.
    forms: Vec<String>,
}

// === impl ImageName ===

impl ImageName {
    /// Returns the name as written.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Returns whether it is a name of the image.
    pub fn matches(&self, image: &Image) -> bool {
        image.first_of([self]).is_some()
    }

    fn is_of(&self, image: &Image, names: &[Cow<str>]) -> bool {
        let is_one = |name: &Cow<str>| self.forms.iter().any(|form| is_like(form, name));
        names.iter().any(is_one) || self.written.contains('@') && image.is_named(&self.written)
    }

    /// Returns whether one of these is a name or the id of such an image.
    pub fn is_among(&self, names: &[String]) -> bool {
        self.matches(&Image { tags: names.to_vec(), ..Image::default() })
    }

    /// Returns whether it is a digest or an id alone.
    pub fn is_id(&self) -> bool {
        canonical_image_id(&self.written).starts_with(SHA256)
    }

    /// Returns whether an image can have such a name or id.
    pub fn can_match(&self) -> bool {
        is_image_pattern(&self.written)
    }
}

impl From<&str> for ImageName {
    fn from(written: &str) -> Self {
        let forms = std::iter::once(written.to_owned()).chain(full_image_patterns(written)).collect();
        Self { written: written.to_owned(), forms }
    }
}

// === impl Image ===

impl Image {
    /// Returns the first of these names that is one of the image. A list may have thousands.
    pub fn first_of<'n>(&self, names: impl IntoIterator<Item = &'n ImageName>) -> Option<&'n ImageName> {
        let own: Vec<_> = self.names().collect();
        names.into_iter().find(|name| name.is_of(self, &own))
    }
}

/// Returns whether the whole of a name is like a form.
fn is_like(form: &str, name: &str) -> bool {
    let mut parts = form.split('*');
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
    fn a_star_stands_for_any_text() {
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
            assert_eq!(is_like(pattern, name), expected, "{pattern:?} against {name:?}");
            assert_eq!(ImageName::from(pattern).as_str(), pattern, "shown as configured");
        }
    }

    #[test]
    fn a_name_may_be_short() {
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
            (digest, &format!("quay.io/team/web@{digest}"), true),
            ("sha256:abcd*", digest, true),
        ];
        for (pattern, name, expected) in rows {
            let image = Image { id: "other".into(), tags: vec![name.to_owned()], ..Image::default() };
            assert_eq!(ImageName::from(pattern).matches(&image), expected, "{pattern:?} against {name:?}");
            assert!(ImageName::from(pattern).can_match(), "{pattern:?}");
        }
    }

    #[test]
    fn what_is_no_name_of_an_image_matches_nothing() {
        for pattern in
            ["Nginx", "team/Web:1", "nginx:", "https://quay.io/web", "quay.io//web", "web 1", "web@1", "-web", "/web"]
        {
            assert!(!ImageName::from(pattern).can_match(), "{pattern:?}");
        }
    }
}
