//! How one action ends, inside this room.

use crate::cri::CriError;
use crate::host_path::CallError;
use crate::model::ImageId;

use super::{LogError, Measure, Outcome, Refusal};

/// What becomes a report.
#[derive(Debug)]
pub struct Done {
    pub outcome: Outcome,
    pub freed_bytes: Option<u64>,
    pub measure: Measure,
    pub note: Option<String>,
}

/// Why an action failed.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// The runtime failed a call.
    #[error(transparent)]
    AskRuntime(#[from] CriError),
    /// Log entries could not be removed.
    #[error(transparent)]
    RemoveLogs(#[from] LogError),
    /// The runtime said that it removed an image, and still has it (containerd#7698).
    #[error("the runtime still has image {id} after it said that it removed it")]
    VerifyImage {
        /// The image.
        id: ImageId,
    },
    /// A shutdown ended the wait for the action. What was sent to the runtime is left to it.
    #[error("no answer before the shutdown, within {seconds} s")]
    Shutdown {
        /// The limit that passed.
        seconds: u64,
    },
    /// A file system did not respond.
    #[error(transparent)]
    Access(#[from] CallError),
    /// It could not be told whether the kubelet has a directory for a pod.
    #[error("cannot look for {path}: {source}")]
    LookForPod {
        /// The directory.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

// === impl Done ===

impl Done {
    pub fn of(outcome: Outcome) -> Self {
        Self { outcome, freed_bytes: None, measure: Measure::Unknown, note: None }
    }

    pub fn gone() -> Self {
        Self::of(Outcome::AlreadyGone {})
    }

    pub fn refused(refusal: Refusal) -> Self {
        Self::of(Outcome::Refused { refusal })
    }

    pub fn failed(error: &ExecuteError) -> Self {
        Self::of(Outcome::Failed { error: error.to_string() })
    }

    /// Log entries that are not ours were refused; all other errors are failures.
    pub fn refused_if_foreign(error: LogError) -> Result<Self, ExecuteError> {
        if error.is_foreign() {
            Ok(Self { note: Some(error.to_string()), ..Self::refused(Refusal::ForeignPath) })
        } else {
            Err(error.into())
        }
    }
}
