//! What can go wrong between us and the kubelet. Apart from the API server's errors: what helps is something else.

use std::io;
use std::path::PathBuf;

/// A failure to reach the kubelet or to understand it. Its text becomes a cause.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    /// A file that was named cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    ReadFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{}: {cause}", path.display())]
    UseFile {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// There is nothing to check the kubelet's certificate against.
    #[error("the kubelet's certificate cannot be checked: set pods.kubelet_ca; there is none of {}", paths(tried))]
    FindAuthority {
        /// What was looked for.
        tried: Vec<PathBuf>,
    },
    /// The address is none.
    #[error("pods.kubelet_endpoint: {endpoint:?} is no address: {cause}")]
    UseEndpoint {
        /// The address.
        endpoint: String,
        /// Why.
        cause: String,
    },
    /// No connection, or it broke before the answer was whole.
    #[error("cannot ask the kubelet for {path}: {cause}")]
    Reach {
        /// What was asked.
        path: &'static str,
        /// Why.
        cause: String,
    },
    /// No whole answer in time.
    #[error("cannot ask the kubelet for {path}: no answer within {seconds} s")]
    Wait {
        /// What was asked.
        path: &'static str,
        /// The limit that passed.
        seconds: u64,
    },
    /// The kubelet does not know us (401).
    #[error(
        "the kubelet does not know who asks for {path}: set pods.kubelet_token_file or pods.kubelet_client_certificate"
    )]
    Introduce {
        /// What was asked.
        path: &'static str,
    },
    /// The kubelet does not allow it (403).
    #[error("may not ask the kubelet for {path}: grant `get` on {right}")]
    Forbidden {
        /// What was asked.
        path: &'static str,
        /// The right that is missing.
        right: &'static str,
    },
    /// The kubelet answered with an error.
    #[error("the kubelet answers {code} for {path}: {text:?}")]
    Refused {
        /// What was asked.
        path: &'static str,
        /// The HTTP code.
        code: u16,
        /// How the answer begins.
        text: String,
    },
    /// An answer that is not what was asked for.
    #[error("the kubelet's answer for {path} is not understood: {cause}")]
    Understand {
        /// What was asked.
        path: &'static str,
        /// Why.
        cause: String,
    },
}

/// What a kubelet asks of those who ask it: the resources beneath the Node, the newer finer one too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Right(&'static str);

// === impl Right ===

impl Right {
    pub(super) const PODS: Self = Self("nodes/proxy (from Kubernetes 1.33 nodes/pods is enough)");
    pub(super) const HEALTH: Self = Self("nodes/proxy (from Kubernetes 1.33 nodes/healthz is enough)");
    pub(super) const METRICS: Self = Self("nodes/metrics");
}

/// What an answer that is no success means.
pub(super) fn refusal(path: &'static str, Right(right): Right, code: u16, text: &[u8]) -> KubeletError {
    match code {
        401 => KubeletError::Introduce { path },
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
