//! What no program needs any more.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use strum::{EnumString, IntoStaticStr};

use crate::model::{DirUsage, PathUsage, PodRef, PodUid};

/// What the name of a record of the kubelet begins with.
const RECORD: &str = "sha256-";

/// A directory or file that no program needs any more.
#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Leftover {
    /// What it is.
    pub kind: LeftoverKind,
    /// Where, and what it takes.
    #[serde(flatten)]
    pub at: PathUsage,
    /// The pod that it is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// The image that it is of, as the kubelet names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// When it was last written; `null` = not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_at: Option<Timestamp>,
    /// What is in it and keeps it from being removed, such as a mount; `null` = nothing was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
}

/// What is left over.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[derive(Deserialize, EnumString, IntoStaticStr, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum LeftoverKind {
    /// The kubelet's record of a pulled image that the runtime does not have (kubernetes#138175). It protects the image: I21.
    PullRecord,
    /// The termination log of an instance that the runtime does not have (kubernetes#121180).
    TerminationLog,
    /// The kubelet's directory of a pod that is gone.
    PodDirectory,
    /// An address that the CNI plugin host-local reserves for a sandbox that no client of the runtime has (containernetworking/plugins#1047).
    Address,
    /// An archive with the memory of a container, which the kubelet makes when asked (KEP-2008). It removes none.
    Checkpoint,
    /// What nothing in the store of containerd refers to. It goes with containerd's next collection, which waits for a removal.
    Unreferenced,
    /// The bundle, a mount or the shim of a task whose container no client of containerd has (containerd#13893). Only
    /// `kubegc disk` looks for them.
    Task,
}

/// The kubelet's record of a pulled image.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PullRecord {
    /// The image, as the runtime named it when it was pulled.
    pub image: String,
}

/// The fields of the file (kubelet 1.36, `kubelet.config.k8s.io/v1beta1`) that are checked.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImagePulledRecord {
    kind: String,
    api_version: String,
    image_ref: String,
}

// === impl Leftover ===

impl Leftover {
    /// Returns its bytes; `None` = not measured.
    pub fn size(&self) -> Option<u64> {
        (self.at.usage != DirUsage::default()).then_some(self.at.usage.bytes)
    }
}

// === impl LeftoverKind ===

impl LeftoverKind {
    /// The kinds that kubegc removes if the configuration has them. Checkpoints go by rules.
    pub const REMOVABLE: [Self; 3] = [Self::TerminationLog, Self::PodDirectory, Self::Unreferenced];

    /// The kinds that kubegc removes unless the configuration has others.
    pub const REMOVED: [Self; 1] = [Self::TerminationLog];

    /// Returns the words for people.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::PullRecord => "pull record",
            Self::TerminationLog => "termination log",
            Self::PodDirectory => "directory of a pod that is gone",
            Self::Address => "address of a sandbox that is gone",
            Self::Checkpoint => "checkpoint of a container",
            Self::Unreferenced => "unreferenced content of containerd",
            Self::Task => "task of a container that is gone",
        }
    }
}

// === impl PullRecord ===

impl PullRecord {
    /// Reads a record from the file of this name; `None` = it is not in the kubelet's format.
    pub fn parse(name: &str, text: &[u8]) -> Option<Self> {
        let record: ImagePulledRecord = serde_json::from_slice(text).ok()?;
        let is_record = record.kind == "ImagePulledRecord" && record.api_version.starts_with("kubelet.config.k8s.io/");
        (is_record && name == Self::file_name(&record.image_ref)).then_some(Self { image: record.image_ref })
    }

    /// Returns the name of the file with the record of an image (kubelet 1.36, `pkg/kubelet/images/pullmanager`).
    pub fn file_name(image: &str) -> String {
        let digest = Sha256::digest(image);
        digest.iter().fold(RECORD.to_owned(), |name, byte| format!("{name}{byte:02x}"))
    }

    /// Returns whether a file has such a name.
    pub fn is_file_name(name: &str) -> bool {
        let digest = name.strip_prefix(RECORD);
        digest.is_some_and(|digest| digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()))
    }
}

/// Returns the directory of the termination logs of a container, beneath that of the kubelet (1.36, `kubelet_getters.go`).
pub fn termination_logs(pod: &PodUid, container: &str) -> PathBuf {
    ["pods", pod.as_str(), "containers", container].iter().collect()
}

/// Returns whether a file has the name of a checkpoint (kubelet 1.36, `CheckpointContainer`): `checkpoint-POD_NAMESPACE-CONTAINER-TIME.tar`.
/// The kubelet's names may contain the characters between the parts, so the parts are not known.
pub fn is_checkpoint(name: &str) -> bool {
    name.starts_with("checkpoint-") && Path::new(name).extension().is_some_and(|extension| extension == "tar")
}

/// Returns whether a file has the name of a termination log of the kubelet.
pub fn is_termination_log(name: &str) -> bool {
    name.len() == 8 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
