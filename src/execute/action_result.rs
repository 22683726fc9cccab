//! The result of one action, before it becomes a report.

use crate::cri::CriError;
use crate::host_path::CallError;

use super::LogError;
use crate::plan::{FailureCause, Measure, Outcome, Refusal};

/// The result of one action.
#[derive(Debug)]
pub struct Done {
    pub outcome: Outcome,
    pub freed_bytes: Option<u64>,
    pub measure: Measure,
    pub note: Option<String>,
    pub kept_until: Option<jiff::Timestamp>,
}

#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// A call to the runtime failed.
    #[error(transparent)]
    CallRuntime(#[from] CriError),
    /// Log entries could not be removed.
    #[error(transparent)]
    RemoveLogs(#[from] LogError),
    /// The runtime reported a removal as successful, but still lists the object (containerd#7698).
    #[error("the runtime reported {id} as removed, but still lists it")]
    StillListed { id: String },
    /// containerd collected its garbage, and still has what nothing refers to.
    #[error("containerd's garbage collection left {left} of what nothing refers to")]
    Uncollected { left: usize },
    /// A shutdown ended the wait for the action. The runtime may still complete the request.
    #[error("no answer within {seconds} s of the shutdown")]
    Shutdown { seconds: u64 },
    /// A file system did not respond.
    #[error(transparent)]
    Access(#[from] CallError),
    /// The check for the kubelet's directory of a pod failed.
    #[error("cannot look up {path}: {source}")]
    LookForPod { path: String, source: std::io::Error },
}

// === impl ExecuteError ===

impl ExecuteError {
    fn cause(&self) -> FailureCause {
        match self {
            Self::CallRuntime(error) if error.is_hang() || error.is_removal_in_progress() => FailureCause::Timeout,
            Self::CallRuntime(error) if error.is_unreachable() => FailureCause::Unreachable,
            Self::CallRuntime(_) => FailureCause::Runtime,
            Self::StillListed { .. } | Self::Uncollected { .. } => FailureCause::StillListed,
            Self::RemoveLogs(_) | Self::Access(_) | Self::LookForPod { .. } => FailureCause::FileSystem,
            Self::Shutdown { .. } => FailureCause::Shutdown,
        }
    }
}

// === impl Done ===

impl Done {
    pub fn of(outcome: Outcome) -> Self {
        Self { outcome, freed_bytes: None, measure: Measure::Unknown, note: None, kept_until: None }
    }

    pub fn already_removed() -> Self {
        Self::of(Outcome::AlreadyRemoved {})
    }

    pub fn refused(refusal: Refusal) -> Self {
        Self::of(Outcome::Refused { refusal })
    }

    pub fn failed(error: &ExecuteError) -> Self {
        Self::of(Outcome::Failed { error: error.to_string(), cause: error.cause() })
    }

    /// Returns a refusal if the log entry is not one that kubegc removes. All other errors are failures.
    pub fn refused_if_foreign(error: LogError) -> Result<Self, ExecuteError> {
        if error.is_foreign() {
            Ok(Self { note: Some(error.to_string()), ..Self::refused(Refusal::ForeignPath) })
        } else {
            Err(error.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_maps_to_its_failure_cause() {
        let call = "RemoveContainer";
        let cause = |error: CriError| ExecuteError::from(error).cause();
        assert_eq!(cause(CriError::Timeout { call, seconds: 1 }), FailureCause::Timeout);
        assert_eq!(cause(CriError::InProgress { call, id: "c1".to_owned() }), FailureCause::Timeout);
        let refused = CriError::Unconnected {
            endpoint: "/run/cri.sock".into(),
            cause: std::io::ErrorKind::ConnectionRefused.into(),
        };
        assert_eq!(cause(refused), FailureCause::Unreachable);
        assert_eq!(cause(CriError::Defective { call, defect: "empty".to_owned() }), FailureCause::Runtime);
        assert_eq!(ExecuteError::StillListed { id: "sha256:a".into() }.cause(), FailureCause::StillListed);
        assert_eq!(ExecuteError::Shutdown { seconds: 1 }.cause(), FailureCause::Shutdown);
    }
}
