//! What can go wrong between us and the API server.

use std::error::Error;
use std::io;
use std::path::PathBuf;

/// A failure to reach the API server or to understand it. Its text becomes the cause in a `NotSeen`.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesError {
    /// Nothing says how to reach the API server.
    #[error(
        "no way to the API server is known: no kubeconfig is set, there is no service account, nor any of {}",
        paths(tried)
    )]
    NoAccess {
        /// The kubelet's kubeconfigs that were looked for.
        tried: Vec<PathBuf>,
    },
    /// The kubeconfig that was set is not there.
    #[error("{}: there is no such kubeconfig", path.display())]
    NoKubeconfig {
        /// What was set.
        path: PathBuf,
    },
    /// A kubeconfig, or a file it names, cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    ReadFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A kubeconfig is wrong in itself.
    #[error("{}: not a kubeconfig that can be used: {cause}", path.display())]
    ParseKubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// A kubeconfig wants a program to be run for its credentials, and this program starts no others.
    #[error(
        "{}: it gets its credentials from a program (exec, auth-provider), which is never run; set a kubeconfig with a \
         certificate or a token", path.display()
    )]
    RunsProgram {
        /// The file.
        path: PathBuf,
    },
    /// The service account of the pod cannot be used.
    #[error("the service account cannot be used: {cause}")]
    UseAccount {
        /// Why.
        cause: String,
    },
    /// The credentials do not make a client: a bad certificate, key or token.
    #[error("{from}: its certificates or token cannot be used: {cause}")]
    BuildClient {
        /// Where the credentials come from.
        from: String,
        /// Why.
        cause: String,
    },
    /// A question that cannot be asked, as of a pod whose name is none.
    #[error("cannot {what}: {cause}")]
    Ask {
        /// What was to be done.
        what: String,
        /// Why.
        cause: String,
    },
    /// No connection, or it broke before there was an answer.
    #[error("cannot {what}: the API server cannot be reached: {cause}")]
    Unreachable {
        /// What was to be done.
        what: String,
        /// Why.
        cause: String,
    },
    /// No answer in time.
    #[error("cannot {what}: no answer within {seconds} s")]
    Unanswered {
        /// What was to be done.
        what: String,
        /// The limit that passed.
        seconds: u64,
    },
    /// The API server does not allow it (403).
    #[error("may not {what}: {message}")]
    Forbidden {
        /// What was to be done.
        what: String,
        /// The server's words.
        message: String,
    },
    /// The API server answered with another error of its own.
    #[error("cannot {what}: {message} ({code})")]
    Refused {
        /// What was to be done.
        what: String,
        /// The HTTP code.
        code: u16,
        /// The machine-readable reason, as `NotFound`.
        reason: String,
        /// The server's words.
        message: String,
        /// The resource and name that it speaks of.
        about: Box<About>,
    },
    /// An error that is no answer of an API server, as the page of a proxy.
    #[error("cannot {what}: code {code}, and not from an API server: {text:?}")]
    Foreign {
        /// What was to be done.
        what: String,
        /// The HTTP code.
        code: u16,
        /// How the answer begins.
        text: String,
    },
    /// An answer that is not what was asked for, or that ended early.
    #[error("cannot {what}: the answer is not whole or not understood: {cause}")]
    Unreadable {
        /// What was to be done.
        what: String,
        /// Why.
        cause: String,
    },
    /// A watch that told of nothing, not even of bookmarks.
    #[error("the watch of pods was silent for {seconds} s")]
    Silent {
        /// The limit that passed.
        seconds: u64,
    },
}

/// What an error of the API server speaks of (`Status.details`).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct About {
    /// The resource, as `pods`.
    pub kind: String,
    /// The object's name.
    pub name: String,
}

// === impl KubernetesError ===

impl KubernetesError {
    /// The HTTP code of an answer that the API server itself gave.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Forbidden { .. } => Some(403),
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Says whether the API server itself said that an object of this kind and name does not exist. The only 404 that
    /// proves anything: a proxy, or a server that does not know the resource, answers 404 too.
    pub fn says_not_found(&self, kind: &str, name: &str) -> bool {
        let Self::Refused { code: 404, reason, about, .. } = self else { return false };
        reason == "NotFound" && about.kind == kind && about.name == name
    }

    /// Says whether other credentials or another connection may help: then the client is to be made anew.
    pub(super) fn is_of_connection(&self) -> bool {
        self.code().is_none_or(|code| code == 401)
    }
}

/// An error with all its causes in one line. Many errors of libraries tell nothing without them.
pub(super) fn whole(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        next = cause.source();
    }
    text
}

fn paths(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
