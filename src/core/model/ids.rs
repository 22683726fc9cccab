//! Ids as separate types. As strings, the CRI's image ids in particular are easily confused.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        text! {
            $(#[$doc])*
            #[derive(Eq, Hash, Ord, PartialEq, PartialOrd)]
            $name
        }
    };
}

macro_rules! text {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, JsonSchema, Deserialize, Serialize)]
        #[serde(transparent)]
        pub struct $name(Box<str>);

        impl $name {
            /// Returns the id as the runtime spells it.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns whether the id is empty, as for a container without a pod.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl<T: Into<String>> From<T> for $name {
            fn from(id: T) -> Self {
                Self(id.into().into_boxed_str())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

id! {
    /// A container's id in the runtime.
    ContainerId
}
id! {
    /// A pod sandbox's id in the runtime.
    SandboxId
}
text! {
    /// An image's id in the runtime: neither a tag nor a repository digest. containerd writes `sha256:…`, CRI-O the
    /// same without `sha256:`. Both spellings are one id; calls to the runtime use its own spelling.
    ImageId
}
id! {
    /// A pod's uid as the CRI shows it: for a static pod the manifest's uid or hash, never the mirror pod's uid.
    PodUid
}

/// The prefix of the hash algorithm that every image id and digest uses.
pub(super) const SHA256: &str = "sha256:";

// === impl ImageId ===

impl ImageId {
    /// Returns the id with its algorithm, `sha256:…`, in either spelling of the runtime.
    pub fn canonical(&self) -> Cow<'_, str> {
        canonical_image_id(&self.0)
    }
}

impl PartialEq for ImageId {
    fn eq(&self, other: &Self) -> bool {
        self.canonical() == other.canonical()
    }
}

impl Eq for ImageId {}

impl PartialOrd for ImageId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ImageId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.canonical().cmp(&other.canonical())
    }
}

impl Hash for ImageId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.canonical().hash(state);
    }
}

/// Converts 64 hexadecimal digits, which are an image id without its algorithm, to `sha256:…`. Returns any other text
/// unchanged.
pub fn canonical_image_id(text: &str) -> Cow<'_, str> {
    let is_bare_id = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_bare_id { Cow::Owned(format!("{SHA256}{text}")) } else { Cow::Borrowed(text) }
}

/// A pod, as identified by the runtime's labels.
#[derive(Clone, Debug, Default, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
pub struct PodRef {
    /// The pod's uid. A name can be used again with another uid.
    pub uid: PodUid,
    /// The pod's namespace; empty if not known.
    #[serde(default)]
    pub namespace: String,
    /// The pod's name; empty if not known.
    #[serde(default)]
    pub name: String,
}

// === impl PodUid ===

impl PodUid {
    /// Returns whether the uid has the form that the API server gives each pod. The uid of a static pod is a hash without dashes.
    pub fn is_uuid(&self) -> bool {
        let parts: Vec<_> = self.0.split('-').collect();
        let is_hex = |part: &&str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
        parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(is_hex)
    }
}

// === impl PodRef ===

impl PodRef {
    /// Returns the namespace and the name, for people; without a name the uid, as `uid 5b1c6a4e`.
    pub fn name_or_uid(&self) -> String {
        if self.name.is_empty() { format!("uid {}", self.uid) } else { self.to_string() }
    }

    /// Returns what identifies the pod, as [`super::Pod::identity`] does.
    pub fn identity(&self) -> (&PodUid, &str, &str) {
        (&self.uid, &self.namespace, &self.name)
    }
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.namespace.is_empty(), self.name.is_empty()) {
            (false, false) => f.pad(&format!("{}/{}", self.namespace, self.name)),
            (true, false) => f.pad(&self.name),
            _ => f.pad(self.uid.as_str()),
        }
    }
}

/// Returns an id as short as crictl prints it: 13 characters, without the name of its hash.
pub fn short_id(id: &str) -> &str {
    let id = id.rsplit(':').next().unwrap_or(id);
    id.char_indices().nth(13).and_then(|(at, _)| id.get(..at)).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_an_image_id_are_one_id() {
        let bare = "0123456789abcdef".repeat(4);
        let [with, without] = [ImageId::from(format!("sha256:{bare}")), ImageId::from(bare.as_str())];
        assert_eq!((&with, with.cmp(&without)), (&without, Ordering::Equal));
        assert_eq!(with.partial_cmp(&without), Some(Ordering::Equal), "the operators agree with the order");
        assert_eq!(std::collections::HashSet::from([with, without.clone()]).len(), 1);
        assert_eq!(without.as_str(), bare, "the runtime's own spelling is kept for calls");
        assert_eq!(canonical_image_id("busybox"), "busybox");
        assert_ne!(ImageId::from("sha256:1"), ImageId::from("1"), "only a whole hash is an id");
    }

    #[test]
    fn a_pod_is_shown_by_its_best_known_name() {
        let shown = |namespace: &str, name: &str| {
            PodRef { uid: "u".into(), namespace: namespace.into(), name: name.into() }.to_string()
        };
        assert_eq!(shown("default", "web"), "default/web");
        assert_eq!(shown("", "web"), "web");
        assert_eq!(shown("default", ""), "u");
    }
}
