//! What can go wrong between us and the runtime, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use tonic::{Code, Status};

use super::connect::Method;

/// A runtime that was not found, not reached, or that failed a call.
#[derive(Debug, thiserror::Error)]
pub enum CriError {
    /// The socket file is not there.
    #[error(
        "{}: no such socket; start the runtime, or name its socket with --runtime-endpoint or runtime.endpoint",
        endpoint.display()
    )]
    NoSocket {
        /// The socket.
        endpoint: PathBuf,
    },
    /// We may not open the socket.
    #[error("{}: permission denied; run as root or as a user who may open the socket", endpoint.display())]
    NoPermission {
        /// The socket.
        endpoint: PathBuf,
    },
    /// The file is there and nobody listens: a runtime that stopped leaves its socket behind.
    #[error("{}: nothing listens on this socket; start the runtime", endpoint.display())]
    Refused {
        /// The socket.
        endpoint: PathBuf,
    },
    /// The connect failed in some other way.
    #[error("{}: cannot connect: {source}", endpoint.display())]
    Connect {
        /// The socket.
        endpoint: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The socket takes connections, but its first call was not answered.
    #[error(
        "{}: accepts connections but did not answer {call} within {seconds} s; the runtime hangs, or this is no CRI socket",
        endpoint.display()
    )]
    Unanswered {
        /// The socket.
        endpoint: PathBuf,
        /// The call, as the CRI names it.
        call: &'static str,
        /// The limit that passed.
        seconds: u64,
    },
    /// The runtime is too old.
    #[error(
        "{}: the runtime speaks CRI v1alpha2 only and v1 is needed; upgrade it (containerd 1.6 or CRI-O 1.23, or newer)",
        endpoint.display()
    )]
    OnlyV1alpha2 {
        /// The socket.
        endpoint: PathBuf,
    },
    /// Something answers, but it has no CRI.
    #[error(
        "{}: answers, but offers no CRI; if this is containerd, take \"cri\" out of disabled_plugins in its configuration",
        endpoint.display()
    )]
    NotCri {
        /// The socket.
        endpoint: PathBuf,
    },
    /// The connection broke before the answer was whole: the runtime stopped, or what listens does not speak gRPC.
    #[error("{}: {call}: the connection broke: {}", endpoint.display(), status.message())]
    Broken {
        /// The call, as the CRI names it.
        call: &'static str,
        /// The socket.
        endpoint: PathBuf,
        /// What the transport said.
        status: Box<Status>,
    },
    /// The runtime answered with an error.
    #[error("{call}: {} ({:?})", status.message(), status.code())]
    Call {
        /// The call, as the CRI names it.
        call: &'static str,
        /// Its answer.
        status: Box<Status>,
    },
    /// The runtime did not answer in time.
    #[error("{call}: no answer within {seconds} s")]
    Timeout {
        /// The call, as the CRI names it.
        call: &'static str,
        /// The limit that passed.
        seconds: u64,
    },
    /// The call was not sent, because the runtime hangs.
    #[error("{call} not sent: {cause}")]
    NotSent {
        /// The call, as the CRI names it.
        call: &'static str,
        /// How it is known.
        cause: String,
    },
    /// The removal was not sent, because an earlier one of the same object has no answer yet.
    #[error("{call} not sent: an earlier removal of {id} is still in progress")]
    InProgress {
        /// The call, as the CRI names it.
        call: &'static str,
        /// The object.
        id: String,
    },
    /// A list is too large for one message, and so are parts of it.
    #[error(
        "{call}: {refused}; received in parts, but too large for one message too: {missing}; \
         raise the runtime's limit on messages (containerd: max_send_message_size in [grpc])"
    )]
    TooLarge {
        /// The call, as the CRI names it.
        call: &'static str,
        /// What the call for the whole list answered.
        refused: String,
        /// The parts that are missing.
        missing: String,
    },
    /// The answer lacks what the CRI requires of it.
    #[error("{call}: the answer of the runtime is not usable: {defect}")]
    Defective {
        /// The call, as the CRI names it.
        call: &'static str,
        /// What is wrong with it.
        defect: String,
    },
    /// An endpoint that is not a unix socket.
    #[error(
        "{named_by} names the endpoint {endpoint}; only unix sockets are spoken to, as unix:///run/containerd/containerd.sock"
    )]
    NotUnix {
        /// What was named.
        endpoint: String,
        /// Where.
        named_by: &'static str,
    },
    /// No endpoint was named, and none of the well-known sockets is there.
    #[error(
        "no runtime found; name its socket with --runtime-endpoint or runtime.endpoint (looked for {})",
        tried.join(", ")
    )]
    NoEndpoint {
        /// The sockets that were tried.
        tried: Vec<String>,
    },
}

// === impl CriError ===

impl CriError {
    /// An answer that lacks something.
    pub(super) fn defective(call: Method, defect: impl Into<String>) -> Self {
        Self::Defective { call: call.name(), defect: defect.into() }
    }

    /// A connect that failed, by what the system said.
    pub(super) fn unreached(endpoint: &Path, source: &io::Error) -> Self {
        let endpoint = endpoint.to_path_buf();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NoSocket { endpoint },
            io::ErrorKind::PermissionDenied => Self::NoPermission { endpoint },
            io::ErrorKind::ConnectionRefused => Self::Refused { endpoint },
            // An io::Error cannot be cloned; the number is all that a connect gives.
            _ => Self::Connect { endpoint, source: copy(source) },
        }
    }

    /// Says whether the object is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Call { status, .. } if status.code() == Code::NotFound)
    }

    /// Says whether the runtime hangs: it did not answer in time, or the call was not sent for that reason.
    pub fn is_hang(&self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::Unanswered { .. } | Self::NotSent { .. })
    }

    /// Says whether there is no runtime to work with: exit code 3.
    pub fn is_unreachable(&self) -> bool {
        self.is_unconnected()
            || matches!(
                self,
                Self::Unanswered { .. }
                    | Self::OnlyV1alpha2 { .. }
                    | Self::NotCri { .. }
                    | Self::Broken { .. }
                    | Self::NoEndpoint { .. }
            )
    }

    /// Says whether the configuration is at fault: exit code 2.
    pub fn is_configuration(&self) -> bool {
        matches!(self, Self::NotUnix { .. })
    }

    /// Says whether no connection came about, so that nothing was sent.
    pub(super) fn is_unconnected(&self) -> bool {
        matches!(self, Self::NoSocket { .. } | Self::NoPermission { .. } | Self::Refused { .. } | Self::Connect { .. })
    }

    /// Says whether the runtime does not know the method.
    pub(super) fn is_unimplemented(&self) -> bool {
        matches!(self, Self::Call { status, .. } if status.code() == Code::Unimplemented)
    }

    /// Says whether an answer was larger than the runtime sends, or than we receive. gRPC implementations differ in the
    /// code for it: Go has `ResourceExhausted`, tonic `OutOfRange`.
    pub(super) fn is_too_large(&self) -> bool {
        let Self::Call { status, .. } = self else { return false };
        let message = status.message();
        status.code() == Code::ResourceExhausted
            || message.contains("message larger than max")
            || (status.code() == Code::OutOfRange && message.contains("message length too large"))
    }

    /// Says whether further calls would fail in the same way and wait for it: the runtime hangs or is away.
    pub fn is_of_runtime(&self) -> bool {
        self.is_hang() || self.is_unreachable()
    }

    /// Says whether a runtime that is starting would answer so.
    pub(super) fn is_away(&self) -> bool {
        let unavailable = matches!(self, Self::Call { status, .. } if status.code() == Code::Unavailable);
        unavailable || self.is_unconnected() || matches!(self, Self::Broken { .. })
    }
}

fn copy(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
