//! The names of images: what a pod spec, a user and a runtime may call the same image.
//!
//! The rules are those of Docker and containerd (`distribution/reference`). The parser is our own: that of `oci-spec`
//! adds 15 crates, and it rejects malformed names. Here every name has a full form, because a name that is not
//! understood must still protect the image that is listed with it (I6).

use std::borrow::Cow;

use super::ids::SHA256;
use super::{Image, canonical_image_id};

/// The registry of names without one.
const DOCKER: &str = "docker.io";
/// The former name of the same registry.
const OLD_DOCKER: &str = "index.docker.io";

// === impl Image ===

impl Image {
    /// Returns all names of the image: first its canonical ID, then each name as listed by the runtime and as a full
    /// name. Some runtimes list short names.
    pub fn names(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let listed = self.tags.iter().chain(&self.digests).map(String::as_str);
        let both = listed.flat_map(|name| [Cow::Borrowed(name), full_image_name(name)]);
        std::iter::once(self.id.canonical()).chain(both)
    }

    /// Returns whether a name in the notation of a user or a pod spec refers to this image.
    pub fn is_named(&self, name: &str) -> bool {
        let full = full_image_name(name);
        self.names().any(|known| known == name || known == full)
    }

    /// Returns whether a name that the runtime could not resolve may refer to this image. It may if it ends in the same
    /// repository and tag, or in the same digest, whatever the registry is: an alias can map a short name to any
    /// registry.
    pub fn may_be_named(&self, name: &str) -> bool {
        let wanted = full_image_name(name);
        self.names().any(|known| last_part(&known) == last_part(&wanted))
    }
}

/// Returns a name with registry, repository, and tag or digest, as most runtimes list it: `busybox` is
/// `docker.io/library/busybox:latest`. If a name has a tag and a digest, the tag is dropped, as in the runtime. A name
/// of 64 hexadecimal digits is an ID.
pub fn full_image_name(name: &str) -> Cow<'_, str> {
    let name = match canonical_image_id(name) {
        Cow::Borrowed(name) if name.is_empty() || name.starts_with(SHA256) => return Cow::Borrowed(name),
        Cow::Borrowed(name) => name,
        id @ Cow::Owned(_) => return id,
    };
    let (registry, repository) = match name.split_once('/') {
        Some((first, rest)) if is_registry(first) => (first, rest),
        _ => (DOCKER, name),
    };
    let registry = if registry == OLD_DOCKER { DOCKER } else { registry };
    let library = if registry == DOCKER && !repository.contains('/') { "library/" } else { "" };
    Cow::Owned(format!("{registry}/{library}{}", with_digest_or_tag(repository)))
}

fn is_registry(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost"
}

/// Returns a repository with its digest or, without one, with its tag. The tag is `latest` if there is none.
fn with_digest_or_tag(repository: &str) -> String {
    let (tagged, digest) =
        repository.split_once('@').map_or((repository, None), |(tagged, digest)| (tagged, Some(digest)));
    let is_tag = |(_, tag): &(&str, &str)| !tag.contains('/');
    let (path, tag) = tagged.rsplit_once(':').filter(is_tag).unwrap_or((tagged, "latest"));
    digest.map_or_else(|| format!("{path}:{tag}"), |digest| format!("{path}@{digest}"))
}

/// Returns a full name without registry and path, such as `busybox:latest`; of a name with a digest, the digest alone.
fn last_part(name: &str) -> &str {
    name.rsplit(['/', '@']).next().unwrap_or(name)
}
