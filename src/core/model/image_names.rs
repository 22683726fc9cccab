//! The names of images: what a pod spec, a user and a runtime may call the same image.
//!
//! The rules are those of Docker and containerd (`distribution/reference`). The parser is our own: that of `oci-spec`
//! adds 16 crates, and it rejects malformed names. Here every name has a full form, because a name that is not
//! understood must still protect the image that is listed with it (I6).

use std::borrow::Cow;
use std::collections::HashSet;

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

    /// Returns the name by which the runtime removes an OCI artifact; `None` = this is an image. The id of an artifact is the
    /// digest of its manifest, and that of an image is the digest of its configuration. CRI-O 1.37 answers that it has removed
    /// an artifact by its id, and removes nothing.
    pub fn artifact_digest(&self) -> Option<&str> {
        let id = self.id.canonical();
        let of_id = |digest: &&String| digest.rsplit_once('@').is_some_and(|(_, digest)| digest == id);
        self.digests.iter().find(of_id).map(String::as_str)
    }

    /// Returns whether this is an OCI artifact.
    pub fn is_artifact(&self) -> bool {
        self.artifact_digest().is_some()
    }

    /// Returns whether a name in the notation of a user or a pod spec refers to this image.
    pub fn is_named(&self, name: &str) -> bool {
        let full = full_image_name(name);
        self.names().any(|known| known == full) || self.has_digest(&full)
    }

    /// Returns whether a full name with a digest refers to this image, which the runtime lists with the repository in a tag, and with the
    /// digest under another name: containerd lists an imported image as `import-2026-11-21@sha256:…`.
    fn has_digest(&self, full: &str) -> bool {
        let Some((repository, digest)) = full.split_once('@') else { return false };
        let is_of_repository =
            |tag: &String| full_image_name(tag).rsplit_once(':').is_some_and(|(of_tag, _)| of_tag == repository);
        let mut known = self.digests.iter().filter_map(|name| Some(name.split_once('@')?.1));
        self.tags.iter().any(is_of_repository) && (known.any(|known| known == digest) || self.id.canonical() == digest)
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
    let listed = name.split_once('/').filter(|(first, _)| is_registry(first));
    let (registry, repository) = listed.unwrap_or((DOCKER, name));
    let registry = if registry == OLD_DOCKER { DOCKER } else { registry };
    let library = if registry == DOCKER && !repository.contains('/') { "library/" } else { "" };
    match with_digest_or_tag(repository) {
        Cow::Borrowed(_) if library.is_empty() && listed.is_some_and(|(first, _)| first == registry) => name.into(),
        repository => Cow::Owned(format!("{registry}/{library}{repository}")),
    }
}

/// Returns the full forms of a pattern of image names, in which `*` stands for any text: with registry and path and,
/// unless it has a tag or digest or ends in `*`, one for every tag and one for every digest. A digest is that of an image or of a manifest.
pub(super) fn full_image_patterns(pattern: &str) -> Vec<String> {
    let id = canonical_image_id(pattern);
    if id.is_empty() {
        return Vec::new();
    }
    if id.starts_with(SHA256) {
        return vec![format!("*@{id}"), id.into_owned()];
    }
    let (registry, repository) = match pattern.split_once('/') {
        Some((first, rest)) if is_registry(first) => (first, rest),
        _ if pattern.starts_with('*') => return with_any_tag(pattern),
        _ => (DOCKER, pattern),
    };
    let registry = if registry == OLD_DOCKER { DOCKER } else { registry };
    let library = if registry == DOCKER && !repository.contains('/') { "library/" } else { "" };
    with_any_tag(&format!("{registry}/{library}{repository}"))
}

/// Returns a pattern, if it has no tag and no digest, for every tag and for every digest.
fn with_any_tag(pattern: &str) -> Vec<String> {
    let last = pattern.rsplit('/').next().unwrap_or(pattern);
    match last.split_once('@') {
        Some((tagged, digest)) => {
            let path = pattern.strip_suffix(last).unwrap_or_default();
            let name = tagged.split(':').next().unwrap_or(tagged);
            vec![format!("{path}{name}@{digest}")]
        }
        None if last.contains(':') || last.ends_with('*') => vec![pattern.to_owned()],
        None => vec![format!("{pattern}:*"), format!("{pattern}@*")],
    }
}

/// Returns whether an image name or ID can match a pattern. The rules are those of `distribution/reference`.
pub fn is_image_pattern(pattern: &str) -> bool {
    let (tagged, digest) = pattern.split_once('@').map_or((pattern, None), |(name, digest)| (name, Some(digest)));
    let is_tag = |(_, tag): &(&str, &str)| !tag.contains('/');
    let (path, tag) = tagged.rsplit_once(':').filter(is_tag).map_or((tagged, None), |(path, tag)| (path, Some(tag)));
    let (registry, repository) = match path.split_once('/') {
        Some((first, rest)) if is_registry(first) => (first, rest),
        _ => ("", path),
    };
    let of = |text: &str, others: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c));
    let is_part = |part: &str| {
        let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '*');
        of(part, "._-*") && part == part.to_ascii_lowercase() && end(part.chars().next()) && end(part.chars().last())
    };
    let is_tag = |tag: &str| (1..=128).contains(&tag.len()) && of(tag, "_.-*") && !tag.starts_with(['.', '-']);
    let is_digest = |digest: &str| {
        let (algorithm, hex) = digest.split_once(':').unwrap_or(("", digest));
        let is_whole = digest.contains(':') || digest.contains('*');
        is_whole && of(algorithm, "+._-*") && hex.chars().all(|c| c.is_ascii_hexdigit() || c == '*') && !hex.is_empty()
    };
    of(registry, ".:-*[]")
        && repository.split('/').all(is_part)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest)
}

fn is_registry(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost"
}

/// Returns a repository with its digest or, without one, with its tag. The tag is `latest` if there is none.
fn with_digest_or_tag(repository: &str) -> Cow<'_, str> {
    let (tagged, digest) =
        repository.split_once('@').map_or((repository, None), |(tagged, digest)| (tagged, Some(digest)));
    let is_tag = |(_, tag): &(&str, &str)| !tag.contains('/');
    let tag = tagged.rsplit_once(':').filter(is_tag);
    match (tag, digest) {
        (Some(_), None) | (None, Some(_)) => repository.into(),
        (Some((path, _)), Some(digest)) => Cow::Owned(format!("{path}@{digest}")),
        (None, None) => Cow::Owned(format!("{repository}:latest")),
    }
}

/// Returns the last parts of all names of these images. A name that the runtime could not resolve may refer to one of them only
/// if [`last_part_of_name`] is one of these.
pub fn last_parts<'a>(images: impl IntoIterator<Item = &'a Image>) -> HashSet<String> {
    images.into_iter().flat_map(Image::names).map(|name| last_part(&name).to_owned()).collect()
}

/// Returns the last part of a name as a pod spec has it, for [`last_parts`].
pub fn last_part_of_name(name: &str) -> String {
    last_part(&full_image_name(name)).to_owned()
}

/// Returns a full name without registry and path, such as `busybox:latest`; of a name with a digest, the digest alone.
fn last_part(name: &str) -> &str {
    name.rsplit(['/', '@']).next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:abcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcd";

    #[test]
    fn the_id_of_an_artifact_is_the_digest_of_its_manifest() {
        let name = format!("registry/models/m@{DIGEST}");
        let image = |id: &str| Image { id: id.into(), digests: vec![name.clone()], ..Image::default() };
        for id in [DIGEST, DIGEST.trim_start_matches("sha256:")] {
            assert_eq!(image(id).artifact_digest(), Some(name.as_str()), "{id}");
        }
        assert_eq!(image(&DIGEST.replace("abc", "cba")).artifact_digest(), None);
    }

    #[test]
    fn a_full_name_has_registry_repository_and_tag() {
        let bare = DIGEST.replace("sha256:", "");
        let digest = |name: &str| format!("{name}@{DIGEST}");
        let rows = [
            ("web".to_owned(), "docker.io/library/web:latest".to_owned()),
            ("web:1".to_owned(), "docker.io/library/web:1".to_owned()),
            ("team/web".to_owned(), "docker.io/team/web:latest".to_owned()),
            ("index.docker.io/web:1".to_owned(), "docker.io/library/web:1".to_owned()),
            ("quay.io/web".to_owned(), "quay.io/web:latest".to_owned()),
            ("localhost/web".to_owned(), "localhost/web:latest".to_owned()),
            ("registry:5000/team/web".to_owned(), "registry:5000/team/web:latest".to_owned()),
            ("registry:5000/team/web:1".to_owned(), "registry:5000/team/web:1".to_owned()),
            (digest("web"), digest("docker.io/library/web")),
            (digest("web:1"), digest("docker.io/library/web")),
            (digest("quay.io/a:b/web"), digest("quay.io/a:b/web")),
            (DIGEST.to_owned(), DIGEST.to_owned()),
            (bare, DIGEST.to_owned()),
            (String::new(), String::new()),
        ];
        for (name, full) in rows {
            assert_eq!(full_image_name(&name), full, "{name:?}");
            assert_eq!(full_image_name(&full), full, "a full name is its own full name");
            assert!(
                matches!(full_image_name(&full), Cow::Borrowed(_)),
                "{full}: each removal of an image reads all names"
            );
        }
    }

    #[test]
    fn images_match_their_id_and_each_name_spelling() {
        let image = |tag: &str| Image { id: DIGEST.into(), tags: vec![tag.to_owned()], ..Image::default() };
        for (listed, name, is_named, may_be_named) in [
            ("web:1", "web:1", true, true),
            ("web:1", "docker.io/library/web:1", true, true),
            ("docker.io/library/web:1", "web:1", true, true),
            ("web:1", "web:2", false, false),
            ("quay.io/team/web:1", "web:1", false, true),
            ("web:1", DIGEST, true, true),
            ("web:1", &format!("other@{DIGEST}"), false, true),
            ("web:1", &format!("web@{DIGEST}"), true, true),
            ("web:1", "box:1", false, false),
        ] {
            let image = image(listed);
            assert_eq!((image.is_named(name), image.may_be_named(name)), (is_named, may_be_named), "{listed} {name}");
        }
    }
}
