//! Identities. CRI's image identities in particular are too easily mixed to be strings.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The id as the runtime spells it.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Says whether there is no id at all, as for a container that no pod owns.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl<T: Into<String>> From<T> for $name {
            fn from(id: T) -> Self {
                Self(id.into())
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
id! {
    /// An image's id in the runtime, `sha256:…`. Neither a tag nor a repository digest.
    ImageId
}
id! {
    /// A pod's uid as the CRI shows it: for a static pod the manifest's uid or hash, never the mirror pod's uid.
    PodUid
}

/// A pod by all that the runtime's labels tell.
#[derive(Clone, Debug, Default, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
pub struct PodRef {
    /// What pods are compared by; names come again with another uid.
    pub uid: PodUid,
    /// The pod's namespace; empty where it is not known.
    #[serde(default)]
    pub namespace: String,
    /// The pod's name; empty where it is not known.
    #[serde(default)]
    pub name: String,
}

// === impl PodRef ===

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.namespace.is_empty(), self.name.is_empty()) {
            (false, false) => f.pad(&format!("{}/{}", self.namespace, self.name)),
            (true, false) => f.pad(&self.name),
            _ => f.pad(self.uid.as_str()),
        }
    }
}
