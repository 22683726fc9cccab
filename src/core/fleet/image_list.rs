//! `removeImages` of a policy: images that every selected node removes while they are unused, under its own guards.
//!
//! The list comes after the rules of the node: what one of them decides is as if there were no list, and the guards and the minimum age
//! hold. So a policy removes nothing that the node's own rules could not remove.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::node_disk::shown;
use crate::model::{Image, ImageId, ImageName, full_image_name, is_image_pattern};

const SHA256: &str = "sha256:";
/// The most images whose cause to be kept is shown.
const MOST_NOTES: usize = 3;

/// Images to remove.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, schemars::JsonSchema, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ImageList {
    /// Names with a tag or a digest, and digests or ids alone (`sha256:…`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 300), regex(pattern = "^[A-Za-z0-9._/:@-]+$")))]
    pub names: Vec<String>,
    /// Repositories with the registry. All their tags and digests are removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 300), regex(pattern = "^[A-Za-z0-9._/:-]+$")))]
    pub repositories: Vec<String>,
    /// When the list ends. Until then nodes that join later remove the images too. Absent = as long as the policy exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// The nodes remove nothing, and only answer whether they have the images, and what keeps them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// What became of the images of a policy on a node.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, schemars::JsonSchema, Serialize)]
#[serde(default)]
pub struct ListAnswer {
    /// The policy.
    #[schemars(length(max = 253))]
    pub policy: String,
    /// The uid of the policy: a later one may have the same name.
    #[schemars(length(max = 64))]
    pub uid: String,
    /// The generation of the policy that this is the answer to.
    pub generation: i64,
    /// Images removed since the agent started or read its settings again.
    #[schemars(with = "i64")]
    pub removed: u64,
    /// Entries of the list that the node has no image for, and had none since the agent started or read its settings again.
    #[schemars(with = "i64")]
    pub absent: u64,
    /// Images that are left.
    #[schemars(with = "i64")]
    pub kept: u64,
    /// Some of them, and why: in use (by what), kept by a rule or a guard (which), or the error of the removal.
    #[schemars(length(max = 3))]
    pub notes: Vec<String>,
    /// The places of the entries of which an image was removed.
    #[serde(skip)]
    pub(super) gone: BTreeSet<usize>,
}

/// What a pass decided about an image.
pub type Fates = BTreeMap<ImageId, ImageFate>;

/// What became of an image in a pass.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ImageFate {
    Removed,
    /// Why it is left.
    Kept(String),
}

// === impl ImageList ===

impl ImageList {
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Reads words. One without a tag and a digest is a repository.
    pub fn of(words: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let (repositories, names): (Vec<_>, _) = words.into_iter().partition(|word| is_without_tag(word));
        let list = Self { names, repositories, ..Self::default() };
        let is_empty = list.entries().next().is_none();
        let fault = list.fault().or_else(|| is_empty.then(|| "the list names no image".to_owned()));
        fault.map_or(Ok(list), Err)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = ImageName> {
        self.names.iter().chain(&self.repositories).map(|entry| entry.as_str().into())
    }

    /// Returns what is wrong with an entry. The API server checks the characters, and this what a name is.
    pub fn fault(&self) -> Option<String> {
        let names = self.names.iter().filter_map(|name| Some((name, fault_of_name(name)?)));
        let repositories = self.repositories.iter().filter_map(|name| Some((name, fault_of_repository(name)?)));
        names.chain(repositories).next().map(|(name, fault)| format!("{name:?} {fault}"))
    }

    /// Returns what became of the entries in a pass that saw these images. `before` is the answer of the pass before.
    pub(super) fn answer(&self, images: &[&Image], fates: &Fates, before: Option<&ListAnswer>) -> ListAnswer {
        let (removed, gone) = before.map(|before| (before.removed, before.gone.clone())).unwrap_or_default();
        let (mut answer, mut counted) = (ListAnswer { removed, gone, ..ListAnswer::default() }, BTreeSet::new());
        for (place, entry) in self.entries().enumerate() {
            let mut found = images.iter().filter(|image| entry.matches(image)).peekable();
            answer.absent += u64::from(found.peek().is_none() && !answer.gone.contains(&place));
            for image in found {
                let (is_new, fate) = (counted.insert(&image.id), fates.get(&image.id));
                if fate == Some(&ImageFate::Removed) {
                    answer.removed += u64::from(is_new);
                    answer.gone.insert(place);
                } else if is_new {
                    let why = if let Some(ImageFate::Kept(why)) = fate { why } else { "its removal has not begun" };
                    answer.keep(image, why);
                }
            }
        }
        answer
    }
}

/// Returns whether a name means all images of a repository.
fn is_without_tag(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    !last.contains([':', '@']) && !full_image_name(name).starts_with(SHA256)
}

/// Returns why a text is no name of images with one tag or digest; `None` = it is one. A part of an id or a digest would mean nothing.
fn fault_of_name(name: &str) -> Option<&'static str> {
    let digest = name.split_once('@').map(|(_, digest)| digest).or(name.starts_with(SHA256).then_some(name));
    let is_hex = |hex: &str| hex.len() == 64 && hex.bytes().all(|it| it.is_ascii_hexdigit());
    if !is_image_pattern(name) || name.contains('*') {
        return Some("names no image");
    }
    if digest.is_some_and(|digest| !digest.strip_prefix(SHA256).is_some_and(is_hex)) {
        return Some("has a digest without 64 hexadecimal digits after sha256:");
    }
    is_without_tag(name).then_some("has no tag and no digest; use repositories")
}

/// Returns why a text is no repository; `None` = it is one.
fn fault_of_repository(repository: &str) -> Option<&'static str> {
    if !is_image_pattern(repository) || repository.contains('*') {
        return Some("names no repository");
    }
    let is_part_of_id = (12..64).contains(&repository.len()) && repository.bytes().all(|it| it.is_ascii_hexdigit());
    if is_part_of_id {
        return Some("is a part of an id; write all 64 digits");
    }
    (!is_without_tag(repository)).then_some("has a tag or a digest; use names")
}

// === impl ListAnswer ===

impl ListAnswer {
    fn keep(&mut self, image: &Image, why: &str) {
        self.kept += 1;
        if self.notes.len() < MOST_NOTES {
            let name = image.tags.first().map_or(image.id.as_str(), String::as_str);
            self.notes.push(shown(&format!("{name}: {why}")));
        }
    }

    /// Limits the texts to what an object of the cluster may have.
    pub(super) fn limit(&mut self) {
        self.notes.truncate(MOST_NOTES);
        self.notes.iter_mut().for_each(|note| *note = shown(note));
    }

    /// Leaves out a note. Returns whether there was one.
    pub(super) fn shorten(&mut self) -> bool {
        self.notes.pop().is_some()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fleet::{AppliedPolicy, NodePolicies};

    const ID: &str = "sha256:0123456789012345678901234567890123456789012345678901234567890123";

    fn image(id: &str, tags: &[&str], digests: &[&str]) -> Image {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        Image { id: id.into(), tags: texts(tags), digests: texts(digests), ..Image::default() }
    }

    fn list(names: &[&str], repositories: &[&str]) -> ImageList {
        serde_json::from_value(json!({ "names": names, "repositories": repositories })).unwrap()
    }

    #[test]
    fn a_name_that_means_several_images_is_a_mistake() {
        let rows = [
            ("app:1", None),
            (ID, None),
            (&format!("registry.example.com:5000/app@{ID}"), None),
            ("app@sha256:01", Some("has a digest without 64")),
            ("sha256:0123", Some("has a digest without 64")),
            ("app", Some("has no tag")),
            ("registry.example.com:5000/app", Some("has no tag")),
            ("app:*", Some("names no image")),
            ("app:1' || true", Some("names no image")),
        ];
        for (name, fault) in rows {
            let found = list(&[name], &[]).fault();
            assert_eq!(found.is_some(), fault.is_some(), "{name}: {found:?}");
            assert!(found.unwrap_or_default().contains(fault.unwrap_or_default()), "{name}");
        }
        let fault = |repository| list(&[], &[repository]).fault().unwrap_or_default();
        assert_eq!(fault("registry.example.com:5000/app"), "");
        for wrong in
            ["app:latest", "registry.example.com/app:1", "registry.example.com:5000", "2e96e5913fc06", "a b", ID]
        {
            assert_ne!(fault(wrong), "", "{wrong}");
        }
    }

    /// CRI-O lists ids without the algorithm. An image with several names on a list counts once.
    #[test]
    fn an_image_is_found_by_its_id_and_counts_once() {
        let image = image(ID.trim_start_matches("sha256:"), &["r.example/app:1"], &[]);
        let answer = list(&[ID, "r.example/app:1"], &["r.example/app"]).answer(&[&image], &Fates::new(), None);
        assert_eq!((answer.removed, answer.absent, answer.kept), (0, 0, 1), "{answer:?}");
    }

    #[test]
    fn an_answer_has_what_was_removed_what_is_absent_and_what_is_kept() {
        let images = [image("a", &["docker.io/library/app:1"], &[]), image("b", &["docker.io/library/app:2"], &[])];
        let images: Vec<_> = images.iter().collect();
        let fates = [("a".into(), ImageFate::Removed), ("b".into(), ImageFate::Kept("in use by x".to_owned()))].into();
        let list = ImageList { expires: Some(Timestamp::UNIX_EPOCH), ..list(&["app:1", "app:2", "app:3"], &[]) };
        let spec = crate::fleet::NodeDiskPolicySpec { remove_images: Some(list), ..Default::default() };
        let policies = NodePolicies {
            policies: [("purge".to_owned(), AppliedPolicy { generation: 2, spec, ..AppliedPolicy::default() })].into(),
            ..Default::default()
        };
        let before = Timestamp::UNIX_EPOCH - jiff::SignedDuration::from_secs(1);
        let first = policies.answers(&images, &fates, &[], before);
        let answer = ListAnswer {
            policy: "purge".to_owned(),
            uid: String::new(),
            generation: 2,
            removed: 1,
            absent: 1,
            kept: 1,
            notes: vec!["docker.io/library/app:2: in use by x".to_owned()],
            gone: [0].into(),
        };
        assert_eq!(first, std::slice::from_ref(&answer));
        let second = policies.answers(&images[1..], &fates, &first, before);
        assert_eq!(second, [answer], "what was removed stays counted, and is not absent");
        assert_eq!(policies.answers(&images, &fates, &first, Timestamp::UNIX_EPOCH), [], "the list has expired");
        assert_eq!([before, Timestamp::UNIX_EPOCH].map(|now| policies.listed(now).len()), [1, 0]);
        assert_eq!([policies, NodePolicies::default()].map(|policies| policies.lists_images()), [true, false]);
    }
}
