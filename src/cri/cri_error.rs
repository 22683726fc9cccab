//! The errors of the CRI client, with a remedy for each where there is one.
//!
//! An answer that lacks what the CRI requires is an error: a list entry without an id, a `ContainerStatus` or Status
//! without a status. It proves neither presence nor absence. An object that is listed twice counts once.

use std::io;
use std::path::{Path, PathBuf};

use tonic::{Code, Status};

use super::connect::Method;
use crate::host_path::CallError;

/// An error of the runtime: not found, not reachable, or a failed call.
#[derive(Debug, thiserror::Error)]
pub enum CriError {
    /// No connection was established, so nothing was sent.
    #[error("{}: {}", endpoint.display(), why_unconnected(cause))]
    Unconnected {
        endpoint: PathBuf,
        /// The error of the system.
        cause: io::Error,
    },
    /// The file system of the socket did not respond.
    #[error(transparent)]
    Access(#[from] CallError),
    /// The socket accepts connections, but the first call was not answered.
    #[error(
        "{}: accepts connections but did not answer {call} within {seconds} s; the runtime hangs, or this is not a CRI socket",
        endpoint.display()
    )]
    Unanswered {
        endpoint: PathBuf,
        /// The name of the call in the CRI.
        call: &'static str,
        seconds: u64,
    },
    /// The runtime is too old.
    #[error(
        "{}: the runtime supports only CRI v1alpha2, and kubegc needs v1; upgrade it (containerd 1.6 or CRI-O 1.23, or newer)",
        endpoint.display()
    )]
    OnlyV1alpha2 { endpoint: PathBuf },
    /// A server answers, but it does not serve the CRI.
    #[error(
        "{}: the server answers, but has no CRI service; name the socket that the kubelet uses with --runtime-endpoint or runtime.endpoint. \
         Where Docker runs this containerd, that is the socket of cri-dockerd",
        endpoint.display()
    )]
    NotCri { endpoint: PathBuf },
    /// The connection broke before the answer was complete: the runtime stopped, or the server does not use gRPC.
    #[error("{}: {call}: the connection broke: {}", endpoint.display(), status.message())]
    Broken {
        /// The name of the call in the CRI.
        call: &'static str,
        endpoint: PathBuf,
        /// The status from the transport.
        status: Box<Status>,
    },
    /// The runtime answered with an error.
    #[error("{call}: {} ({:?})", status.message(), status.code())]
    Call {
        /// The name of the call in the CRI.
        call: &'static str,
        /// The answer of the runtime.
        status: Box<Status>,
    },
    /// The runtime did not answer in time.
    #[error("{call}: no answer within {seconds} s")]
    Timeout {
        /// The name of the call in the CRI.
        call: &'static str,
        seconds: u64,
    },
    /// The call was not sent, because the runtime hangs.
    #[error("{call} not sent: {cause}")]
    NotSent {
        /// The name of the call in the CRI.
        call: &'static str,
        /// Why the runtime is known to hang.
        cause: String,
    },
    /// The removal was not sent, because an earlier removal of the same object has no answer yet.
    #[error("{call} not sent: an earlier removal of {id} is still in progress")]
    InProgress {
        /// The name of the call in the CRI.
        call: &'static str,
        id: String,
    },
    /// A list is too large for one message, and so are some of its parts.
    #[error(
        "{call}: {refused}; parts of it are too large for one message as well: {missing}; \
         raise the runtime's limit on messages (containerd: max_send_message_size in [grpc])"
    )]
    TooLarge {
        /// The name of the call in the CRI.
        call: &'static str,
        /// The answer to the call for the whole list.
        refused: String,
        missing: String,
    },
    /// The answer lacks something that the CRI requires.
    #[error("{call}: the answer of the runtime is unusable: {defect}")]
    Defective {
        /// The name of the call in the CRI.
        call: &'static str,
        defect: String,
    },
    /// An endpoint that is not a unix socket.
    #[error(
        "{named_by} names the endpoint {endpoint}; kubegc supports only unix sockets, such as unix:///run/containerd/containerd.sock"
    )]
    NotUnix {
        endpoint: String,
        /// The setting that names it.
        named_by: String,
    },
    /// A socket that cannot be used, and that the file of another program names. A person may not know of that file.
    #[error("{source}; {named_by} names this socket")]
    NamedElsewhere {
        /// The file, and its name of the setting.
        named_by: String,
        /// Why the socket cannot be used.
        source: Box<CriError>,
    },
    /// No endpoint was named, and none of the well-known sockets exists.
    #[error(
        "no runtime found; name its socket with --runtime-endpoint or runtime.endpoint (looked for {})",
        tried.join(", ")
    )]
    NoEndpoint {
        /// The sockets that were tried.
        tried: Vec<String>,
    },
    /// No endpoint was named, and several well-known sockets are those of a runtime.
    #[error(
        "several runtimes are on this host: {}; name the one that the kubelet uses with --runtime-endpoint or runtime.endpoint",
        endpoints.join(", ")
    )]
    SeveralRuntimes { endpoints: Vec<String> },
}

// === impl CriError ===

impl CriError {
    /// Returns the error for an answer with a defect.
    pub(super) fn defective(call: Method, defect: impl Into<String>) -> Self {
        Self::Defective { call: call.name(), defect: defect.into() }
    }

    /// Returns the error for a failed connect, from the error of the operating system.
    pub(super) fn unreached(endpoint: &Path, source: &io::Error) -> Self {
        // An `io::Error` cannot be cloned. The OS error number is all that a connect provides.
        let cause = match source.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(source.kind(), source.to_string()),
        };
        Self::Unconnected { endpoint: endpoint.to_path_buf(), cause }
    }

    /// Returns the error without the file that names the socket.
    fn of_socket(&self) -> &Self {
        if let Self::NamedElsewhere { source, .. } = self { source } else { self }
    }

    /// Returns whether the socket file does not exist.
    pub(super) fn is_no_socket(&self) -> bool {
        matches!(self, Self::Unconnected { cause, .. } if cause.kind() == io::ErrorKind::NotFound)
    }

    /// Returns whether the runtime reports that the object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Call { status, .. } if status.code() == Code::NotFound)
    }

    /// Returns whether the runtime reports that the object already exists.
    pub fn is_already_there(&self) -> bool {
        matches!(self, Self::Call { status, .. } if status.code() == Code::AlreadyExists)
    }

    /// Returns whether a removal of the object is in progress: an earlier one of kubegc, or one of another client such as
    /// the kubelet. containerd refuses the second removal with this text and the code Unknown.
    pub fn is_removal_in_progress(&self) -> bool {
        match self {
            Self::InProgress { .. } => true,
            Self::Call { status, .. } => status.message().contains("is already in removing state"),
            _ => false,
        }
    }

    /// Returns whether the runtime hangs: it did not answer in time, or the call was not sent for that reason.
    pub fn is_hang(&self) -> bool {
        matches!(self.of_socket(), Self::Timeout { .. } | Self::Unanswered { .. } | Self::NotSent { .. })
    }

    /// Returns whether no usable runtime was reached: exit code 3.
    pub fn is_unreachable(&self) -> bool {
        matches!(
            self.of_socket(),
            Self::Unconnected { .. }
                | Self::Access(_)
                | Self::Unanswered { .. }
                | Self::OnlyV1alpha2 { .. }
                | Self::NotCri { .. }
                | Self::Broken { .. }
                | Self::NoEndpoint { .. }
                | Self::SeveralRuntimes { .. }
        )
    }

    /// Returns whether the configuration is wrong: exit code 2.
    pub fn is_configuration(&self) -> bool {
        matches!(self, Self::NotUnix { .. })
    }

    /// Returns whether the runtime does not implement the method.
    pub fn is_unimplemented(&self) -> bool {
        matches!(self, Self::Call { status, .. } if status.code() == Code::Unimplemented)
    }

    /// Returns whether an answer was larger than the runtime's send limit or our receive limit. gRPC implementations
    /// use different codes: Go uses `ResourceExhausted`, tonic uses `OutOfRange`.
    pub(super) fn is_too_large(&self) -> bool {
        let Self::Call { status, .. } = self else { return false };
        let message = status.message();
        status.code() == Code::ResourceExhausted
            || message.contains("message larger than max")
            || (status.code() == Code::OutOfRange && message.contains("message length too large"))
    }

    /// Returns whether further calls would wait and fail in the same way, because the runtime hangs or is unavailable.
    pub fn is_of_runtime(&self) -> bool {
        self.is_hang() || self.is_unreachable()
    }

    /// Returns whether a runtime that is starting may cause this error.
    pub(super) fn is_away(&self) -> bool {
        let unavailable = matches!(self, Self::Call { status, .. } if status.code() == Code::Unavailable);
        unavailable || matches!(self.of_socket(), Self::Unconnected { .. } | Self::Broken { .. })
    }
}

/// Returns why a connect failed, and what to do. A runtime that stopped leaves its socket file behind.
fn why_unconnected(cause: &io::Error) -> String {
    let text = match cause.kind() {
        io::ErrorKind::NotFound => {
            "no such socket; start the runtime, or name its socket with --runtime-endpoint or runtime.endpoint"
        }
        io::ErrorKind::PermissionDenied => "permission denied; run as root or as a user who may open the socket",
        io::ErrorKind::ConnectionRefused => "nothing listens on this socket; start the runtime",
        _ => return format!("cannot connect: {cause}"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_by_another_client_is_recognized() {
        let answer = |message: &str| CriError::Call {
            call: "RemoveContainer",
            status: Box::new(Status::new(Code::Unknown, message)),
        };
        let of_containerd = "failed to set removing state for container \"c1\": container is already in removing state";
        assert!(answer(of_containerd).is_removal_in_progress());
        assert!(!answer("failed to remove container \"c1\"").is_removal_in_progress());
    }
}
