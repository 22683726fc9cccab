//! An entry of a list of images: the images that it means, and the condition of a rule for them. A test in `daemon/cycle/listed.rs` shows that
//! both are the same.

use crate::model::{Image, full_image_name, is_image_pattern};

/// What a digest begins with.
const SHA256: &str = "sha256:";

/// What an entry of a list refers to.
#[derive(Debug)]
pub(super) enum Entry {
    /// A full name with tag or digest, or a digest or id alone.
    Name(String),
    /// A repository with its registry.
    Repository(String),
}

// === impl Entry ===

impl Entry {
    /// Returns the image of a name, which the runtime lists in full.
    pub fn of_name(name: &str) -> Self {
        Self::Name(full_image_name(name).into_owned())
    }

    /// The full name of a repository is that of its latest image without the tag.
    pub fn of_repository(repository: &str) -> Self {
        let full = full_image_name(repository);
        Self::Repository(full.strip_suffix(":latest").unwrap_or(&full).to_owned())
    }

    /// Returns whether a name means all images of a repository.
    pub fn is_without_tag(name: &str) -> bool {
        let last = name.rsplit('/').next().unwrap_or(name);
        !last.contains([':', '@']) && !full_image_name(name).starts_with(SHA256)
    }

    /// Returns why a text is no name of images with one tag or digest; `None` = it is one. A part of an id or a digest would mean
    /// nothing.
    pub fn fault_of_name(name: &str) -> Option<&'static str> {
        let digest = name.split_once('@').map(|(_, digest)| digest).or(name.starts_with(SHA256).then_some(name));
        let is_whole = |digest: &str| {
            digest
                .strip_prefix(SHA256)
                .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|it| it.is_ascii_hexdigit()))
        };
        if !is_image_pattern(name) || name.contains('*') {
            return Some("names no image");
        }
        if digest.is_some_and(|digest| !is_whole(digest)) {
            return Some("has a digest without 64 hexadecimal digits after sha256:");
        }
        Self::is_without_tag(name).then_some("has no tag and no digest; use repositories")
    }

    /// Returns why a text is no repository; `None` = it is one.
    pub fn fault_of_repository(repository: &str) -> Option<&'static str> {
        if !is_image_pattern(repository) || repository.contains('*') {
            return Some("names no repository");
        }
        let is_part_of_id = (12..64).contains(&repository.len()) && repository.bytes().all(|it| it.is_ascii_hexdigit());
        if is_part_of_id {
            return Some("is a part of an id; write all 64 digits");
        }
        (!Self::is_without_tag(repository)).then_some("has a tag or a digest; use names")
    }

    /// Returns the condition of a rule: its characters are those of names, so it needs no escapes.
    pub fn condition(&self) -> String {
        match self {
            Self::Name(digest) if digest.starts_with(SHA256) => {
                // CRI-O lists ids without the algorithm.
                let bare = digest.trim_start_matches(SHA256);
                format!("image.id in ['{digest}', '{bare}'] || image.digests.exists(d, d.endsWith('@{digest}'))")
            }
            Self::Name(name) if name.contains('@') => format!("image.digests.exists(d, d == '{name}')"),
            Self::Name(name) => format!("image.tags.exists(t, t == '{name}')"),
            Self::Repository(repository) => {
                format!(
                    "image.tags.exists(t, t.startsWith('{repository}:')) || image.digests.exists(d, d.startsWith('{repository}@'))"
                )
            }
        }
    }

    /// Returns whether it is a digest or an id alone.
    pub fn is_digest(&self) -> bool {
        matches!(self, Self::Name(name) if name.starts_with(SHA256))
    }

    /// Returns whether the image is one of these, as the condition does.
    pub fn is(&self, image: &Image) -> bool {
        let digests = || image.digests.iter();
        match self {
            Self::Name(digest) if digest.starts_with(SHA256) => {
                image.id.canonical() == *digest || digests().any(|known| known.ends_with(&format!("@{digest}")))
            }
            Self::Name(name) => image.tags.iter().chain(digests()).any(|known| known == name),
            Self::Repository(repository) => {
                let is_of =
                    |name: &String| name.strip_prefix(repository).is_some_and(|rest| rest.starts_with([':', '@']));
                image.tags.iter().chain(digests()).any(is_of)
            }
        }
    }
}
