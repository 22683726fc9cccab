//! Errors between kubegc and the kubelet. They are separate from the API server's errors because their remedies differ.

use std::io;
use std::path::PathBuf;

/// A failure to reach the kubelet or to read its answer. Its text becomes a cause.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    /// A configured file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    ReadFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file has the wrong content.
    #[error("{}: {cause}", path.display())]
    UseFile {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// There is nothing to verify the kubelet's certificate against.
    #[error("the kubelet's certificate cannot be checked: set pods.kubelet_ca; there is none of {}", paths(tried))]
    FindAuthority {
        /// The files that were tried.
        tried: Vec<PathBuf>,
    },
    /// The address is invalid.
    #[error("pods.kubelet_endpoint: {endpoint:?} is no address: {cause}")]
    UseEndpoint {
        /// The address.
        endpoint: String,
        /// Why.
        cause: String,
    },
    /// There is no connection, or it broke before the answer was complete.
    #[error("cannot read {path} from the kubelet: {cause}")]
    Reach {
        /// The requested path.
        path: &'static str,
        /// Why.
        cause: String,
    },
    /// There was no complete answer in time.
    #[error("cannot read {path} from the kubelet: no answer within {seconds} s")]
    Wait {
        /// The requested path.
        path: &'static str,
        /// The limit that passed.
        seconds: u64,
    },
    /// The kubelet does not accept the credentials (401).
    #[error(
        "the kubelet refused {path}: not authenticated; set pods.kubelet_token_file or pods.kubelet_client_certificate"
    )]
    Unauthorized {
        /// The requested path.
        path: &'static str,
    },
    /// The kubelet denies permission (403).
    #[error("may not read {path} from the kubelet: grant `get` on {right}")]
    Forbidden {
        /// The requested path.
        path: &'static str,
        /// The missing permission.
        right: &'static str,
    },
    /// The kubelet answered with an error.
    #[error("the kubelet answers {code} for {path}: {text:?}")]
    Refused {
        /// The requested path.
        path: &'static str,
        /// The HTTP code.
        code: u16,
        /// The beginning of the answer.
        text: String,
    },
    /// An answer of an unexpected type.
    #[error("the kubelet's answer for {path} is not understood: {cause}")]
    InvalidAnswer {
        /// The requested path.
        path: &'static str,
        /// Why.
        cause: String,
    },
}

/// The permission that the kubelet requires: a resource beneath the Node, and the newer, finer resource too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Right(&'static str);

// === impl Right ===

impl Right {
    pub(super) const PODS: Self = Self("nodes/proxy (from Kubernetes 1.33 nodes/pods is enough)");
    pub(super) const HEALTH: Self = Self("nodes/proxy (from Kubernetes 1.33 nodes/healthz is enough)");
    pub(super) const METRICS: Self = Self("nodes/metrics");
}

/// Returns the error for an answer that is not a success.
pub(super) fn refusal(path: &'static str, Right(right): Right, code: u16, text: &[u8]) -> KubeletError {
    match code {
        401 => KubeletError::Unauthorized { path },
        403 => KubeletError::Forbidden { path, right },
        _ => {
            let text = String::from_utf8_lossy(text).trim().chars().take(200).collect();
            KubeletError::Refused { path, code, text }
        }
    }
}

fn paths(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
