//! How the runtime's lists were received: their size, the number of parts, and the missing parts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Container, PodRef, Sandbox, SandboxId};

/// The default limit on a message of containerd (`max_send_message_size`) and CRI-O, and the most that the kubelet
/// receives. Bytes.
pub const MESSAGE_LIMIT_BYTES: u64 = 16 << 20;

/// The encoded size of each list, and the limit on one message.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct ListBytes {
    /// The default limit on one message, in bytes. The kubelet fails at larger lists.
    pub limit: u64,
    /// The list of containers; `null` = it was not received.
    pub containers: Option<ListReceipt>,
    pub sandboxes: Option<ListReceipt>,
    pub images: Option<ListReceipt>,
}

/// How one list was received.
#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct ListReceipt {
    /// Encoded bytes of all messages together.
    pub bytes: u64,
    /// Number of messages; usually 1.
    pub parts: u64,
    /// Whether the runtime streamed the list. Then no limit on one message applies.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub streamed: bool,
    /// Why the list came in parts: the error of the request for the whole list. `null` = it came whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The parts that could not be received. Empty = the list is complete.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingPart>,
}

/// A part of a list that could not be received.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct MissingPart {
    /// The state of the objects in it.
    pub state: PartState,
    /// The sandbox of these objects; `null` = the sandboxes that are not listed themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    /// The pod of these objects; `null` = not known, or no pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
}

/// The state that a part of a list is filtered by.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartState {
    /// Containers that are CREATED.
    Created,
    /// Containers that are RUNNING.
    Running,
    /// Containers that are EXITED.
    Exited,
    /// Containers that are UNKNOWN.
    Unknown,
    /// Sandboxes that are READY.
    Ready,
    /// Sandboxes that are NOTREADY.
    NotReady,
}

/// What was received of incomplete lists. The lists themselves count as unavailable (I2).
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Partial {
    /// Containers; `null` = the list is complete or unavailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containers: Option<Vec<Container>>,
    /// Sandboxes; `null` = the list is complete or unavailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandboxes: Option<Vec<Sandbox>>,
}

// === impl ListBytes ===

impl ListBytes {
    /// Lists the receipts with the names of their lists in the snapshot.
    pub fn receipts(&self) -> impl Iterator<Item = (&'static str, &ListReceipt)> {
        let all = [("containers", &self.containers), ("sandboxes", &self.sandboxes), ("images", &self.images)];
        all.into_iter().filter_map(|(list, receipt)| Some((list, receipt.as_ref()?)))
    }

    /// Returns whether a list is close to the limit of one message: half of it or more.
    pub fn is_near_limit(&self, receipt: &ListReceipt) -> bool {
        !receipt.streamed && (receipt.refused.is_some() || receipt.bytes >= self.limit / 2)
    }

    /// Returns whether the lists, complete or not, contain every RUNNING container and every READY sandbox.
    pub fn shows_all_that_runs(&self) -> bool {
        let missing = self.containers.iter().chain(&self.sandboxes).flat_map(|receipt| &receipt.missing);
        missing.into_iter().all(|part| !part.state.runs())
    }
}

impl Default for ListBytes {
    fn default() -> Self {
        Self { limit: MESSAGE_LIMIT_BYTES, containers: None, sandboxes: None, images: None }
    }
}

// === impl PartState ===

impl PartState {
    /// Returns the word for documents and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Exited => "exited",
            Self::Unknown => "unknown",
            Self::Ready => "ready",
            Self::NotReady => "not_ready",
        }
    }

    /// Returns whether objects in this state are running.
    pub fn runs(self) -> bool {
        matches!(self, Self::Running | Self::Ready)
    }

    fn is_of_sandboxes(self) -> bool {
        matches!(self, Self::Ready | Self::NotReady)
    }
}

// === impl MissingPart ===

impl std::fmt::Display for MissingPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.state.is_of_sandboxes() { "sandboxes" } else { "containers" };
        write!(f, "{} {kind}", self.state.as_str())?;
        match (&self.sandbox_id, &self.pod) {
            (Some(sandbox), Some(pod)) => write!(f, " of sandbox {sandbox} (pod {pod})"),
            (Some(sandbox), None) => write!(f, " of sandbox {sandbox}"),
            (None, Some(pod)) => write!(f, " of pod {pod}"),
            (None, None) if self.state.is_of_sandboxes() => f.write_str(" of unknown pods"),
            (None, None) => f.write_str(" of unlisted sandboxes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unstreamed_list_is_near_the_limit_from_half() {
        let sizes = ListBytes::default();
        let receipt = |bytes, streamed| ListReceipt { bytes, parts: 1, streamed, ..ListReceipt::default() };
        assert!(!sizes.is_near_limit(&receipt((8 << 20) - 1, false)));
        assert!(sizes.is_near_limit(&receipt(8 << 20, false)));
        assert!(!sizes.is_near_limit(&receipt(64 << 20, true)));
        let refused = Some("too large".to_owned());
        assert!(sizes.is_near_limit(&ListReceipt { refused, ..receipt(1, false) }));
    }

    #[test]
    fn a_missing_part_names_state_kind_and_owner() {
        let pod = PodRef { uid: "u".into(), namespace: "default".into(), name: "web".into() };
        let part = |state, sandbox: Option<&str>, pod: Option<&PodRef>| {
            MissingPart { state, sandbox_id: sandbox.map(Into::into), pod: pod.cloned() }.to_string()
        };
        let rows = [
            (part(PartState::Created, Some("s1"), Some(&pod)), "created containers of sandbox s1 (pod default/web)"),
            (part(PartState::Running, Some("s1"), None), "running containers of sandbox s1"),
            (part(PartState::Exited, None, Some(&pod)), "exited containers of pod default/web"),
            (part(PartState::Unknown, None, None), "unknown containers of unlisted sandboxes"),
            (part(PartState::Ready, None, Some(&pod)), "ready sandboxes of pod default/web"),
            (part(PartState::NotReady, None, None), "not_ready sandboxes of unknown pods"),
        ];
        for (text, expected) in rows {
            assert_eq!(text, expected);
        }
    }
}
