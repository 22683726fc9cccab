//! Errors between kubegc and the API server.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use kube::core::Status;

use super::ApiResource;
use crate::model::{cut_text, printable_text};

/// The longest message of a server that is shown, in characters. It may repeat what a tenant wrote.
const LONGEST_MESSAGE: usize = 1000;
/// The longest wait that a server may want.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(1);

/// What the text of an error begins with if the API server denies permission.
pub const DENIED: &str = "may not ";

/// A failure to reach the API server or to read its answer. Its text becomes the cause in a `NotSeen`.
#[derive(Debug)]
pub struct KubernetesError {
    /// The action that failed.
    what: String,
    pub cause: Cause,
}

/// Why an action failed.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// There are no credentials for the API server.
    #[error("no credentials for the API server: no kubeconfig is set, {}", none_of(tried))]
    NoAccess {
        /// The kubeconfigs of the kubelet that were tried, for an agent of a node.
        tried: Vec<PathBuf>,
    },
    /// The configured kubeconfig does not exist.
    #[error("kubeconfig {} does not exist", path.display())]
    NoKubeconfig {
        /// The configured path.
        path: PathBuf,
    },
    /// Credentials cannot be read or used, as text for users with the file or the place that they come from.
    #[error("{0}")]
    UseCredentials(String),
    /// The credentials of a kubeconfig come from a program that may not run.
    #[error(
        "{}: its credentials come from a program (exec, auth-provider); pods.exec_plugins = true lets an exec plugin run, or set \
         pods.kubeconfig to one with a certificate or a token, or pods.source = \"kubelet\"", path.display()
    )]
    RunsProgram {
        /// The file.
        path: PathBuf,
    },
    /// A request that cannot be built, for example for a pod with an invalid name.
    #[error("{0}")]
    InvalidRequest(String),
    /// There is no connection, or it broke before an answer arrived.
    #[error("the API server cannot be reached: {cause}")]
    Unreachable {
        cause: String,
        /// It is a connection that broke, as when the server closes it.
        was_open: bool,
    },
    /// There was no answer within this limit.
    #[error("no answer within {} s", .0.as_secs())]
    Unanswered(Duration),
    /// The API server denies permission (403), with this message.
    #[error("{}", printable_text(&cut_text(.0, LONGEST_MESSAGE)))]
    Forbidden(String),
    /// The API server answered with another error of its own.
    #[error("{} ({})", printable_text(&cut_text(&status.message, LONGEST_MESSAGE)), status.code)]
    Refused {
        /// The error of the server.
        status: Box<Status>,
        /// How long the server wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// An error without a Status, such as the page of a proxy. An API server with too many requests answers so too.
    #[error("the answer is not a Status: code {code}, text {text:?}")]
    Foreign {
        /// The HTTP code.
        code: u16,
        /// The beginning of the answer.
        text: String,
        /// How long the server wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// The API server says that it is not ready, for example because it starts or stops.
    #[error("the API server is not ready: /readyz has code {code}{}", failing(checks))]
    NotReady {
        /// The HTTP code.
        code: u16,
        /// Its checks that fail, as far as it names them.
        checks: Vec<String>,
    },
    /// An answer that is incomplete or has an unexpected type.
    #[error("the response is incomplete or invalid: {0}")]
    Unreadable(String),
    /// An answer with more bytes than this limit. A page of a list with fewer objects may not be.
    #[error("the response has more than {0} bytes")]
    TooLarge(usize),
    /// A watch that sent neither events nor bookmarks within this limit.
    #[error("the watch was silent for {} s", .0.as_secs())]
    Silent(Duration),
    /// No request was sent: the command or the service is ending.
    #[error("no request sent: the process is shutting down")]
    Ended,
}

/// Does the work. `what` completes "cannot …" in its error. The work is boxed, because requests are large futures.
pub(super) fn attempt<T>(
    what: impl Into<String>,
    work: impl Future<Output = Result<T, Cause>>,
) -> impl Future<Output = Result<T, KubernetesError>> {
    let work = Box::pin(work);
    async { work.await.map_err(|cause| cause.of(what)) }
}

// === impl KubernetesError ===

impl Error for KubernetesError {}

impl fmt::Display for KubernetesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, cause } = self;
        match cause {
            // These concern every request.
            Cause::NotReady { .. } | Cause::Ended => write!(f, "{cause}"),
            _ if cause.is_of_credentials() => write!(f, "{cause}"),
            Cause::Forbidden(_) => write!(f, "{DENIED}{what}: {cause}"),
            _ => write!(f, "cannot {what}: {cause}"),
        }
    }
}

// === impl Cause ===

impl Cause {
    /// Returns the error of an action that failed. `what` completes "cannot …".
    pub fn of(self, what: impl Into<String>) -> KubernetesError {
        KubernetesError { what: what.into(), cause: self }
    }

    /// An answer about another object than the one that was requested (G2).
    pub(super) fn another_object() -> Self {
        Self::Unreadable("the answer is another object".to_owned())
    }

    /// Returns the HTTP code, if the API server itself answered.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Forbidden(_) => Some(403),
            Self::Refused { status, .. } => Some(status.code),
            _ => None,
        }
    }

    /// Returns whether the credentials are missing or invalid, so that no request was sent.
    pub fn is_of_credentials(&self) -> bool {
        matches!(
            self,
            Self::NoAccess { .. } | Self::NoKubeconfig { .. } | Self::UseCredentials(_) | Self::RunsProgram { .. }
        )
    }

    /// Returns whether the answer has the code 404, from the API server or from a proxy. It proves nothing.
    pub fn is_any_404(&self) -> bool {
        self.code() == Some(404) || matches!(self, Self::Foreign { code: 404, .. })
    }

    /// Returns whether no request was sent, because its path cannot be built. The same request fails again.
    pub fn is_of_request(&self) -> bool {
        matches!(self, Self::InvalidRequest(_))
    }

    /// Returns whether a precondition of a change failed (409).
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// Returns whether the API server refused to change the uid of an object (422): the name belongs to another object
    /// than the one the change is for. API server 1.20 answers so to a patch with a uid.
    pub fn is_of_another_uid(&self) -> bool {
        let Self::Refused { status, .. } = self else { return false };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        status.code == 422 && causes.into_iter().any(|cause| cause.field == "metadata.uid")
    }

    /// Returns how long the API server wants to be left alone before the next try, at most a minute: an aggregated API
    /// could want years (G5). A part of a second is added, because requests that are refused at once and repeated at once
    /// are refused again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } | Self::Foreign { retry_after, .. } => {
                retry_after.map(|wait| wait.min(LONGEST_RETRY_AFTER) + part_of_a_second())
            }
            _ => None,
        }
    }

    /// Returns whether the API server has too many requests (429). That says nothing about the object.
    pub fn is_throttled(&self) -> bool {
        self.code() == Some(429) || matches!(self, Self::Foreign { code: 429, .. })
    }

    /// Returns whether the API server itself reports that an object of this kind and name does not exist. Only this 404
    /// is a proof: a proxy, or a server without this resource, answers 404 too.
    pub fn says_not_found(&self, kind: &str, name: &str) -> bool {
        let Self::Refused { status, .. } = self else { return false };
        let is_about = status.details.as_ref().is_some_and(|about| about.kind == kind && about.name == name);
        status.code == 404 && status.reason == "NotFound" && is_about
    }

    /// Returns whether the API server itself reports that an object of this resource and name does not exist. As
    /// [`Self::says_not_found`], but the server may leave out the resource, or write its kind or `RESOURCE.GROUP`: not every
    /// server fills it in as the API server does. The group is that of the request, or left out.
    pub fn proves_absence(&self, resource: &ApiResource, name: &str) -> bool {
        let with_group = format!("{}.{}", resource.resource, resource.group());
        let kinds = [&resource.resource, "", &*resource.kind, &with_group];
        let is_named = kinds.iter().any(|kind| self.says_not_found(kind, name));
        let Self::Refused { status, .. } = self else { return false };
        let group = status.details.as_ref().map(|about| &*about.group).unwrap_or_default();
        // What the group extensions serves is stored in other groups, as its answers say.
        is_named && (group.is_empty() || group == resource.group() || resource.group() == "extensions")
    }

    /// Returns whether other credentials or another connection may help. Then the client must be created again.
    pub(super) fn is_of_connection(&self) -> bool {
        !matches!(self, Self::TooLarge(_) | Self::InvalidRequest(_) | Self::Ended)
            && self.code().is_none_or(|code| code == 401)
    }
}

/// Returns another part of a second each time. Multiples of the golden ratio are far from each other.
fn part_of_a_second() -> Duration {
    thread_local!(static TURN: Cell<u32> = const { Cell::new(0) });
    let turn = TURN.replace(TURN.get().wrapping_add(1)).wrapping_mul(0x9E37_79B9);
    Duration::from_millis((u64::from(turn) * 1000) >> 32)
}

/// Returns the text of an error of kube, whose own text is often only an internal name and the text of the cause.
pub(super) fn cause_of(error: &kube::Error) -> String {
    match error {
        kube::Error::Service(cause) => with_causes(&**cause),
        error => with_causes(error),
    }
}

/// Joins an error and all its causes in one line. Many library errors explain nothing without their causes.
pub(super) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

fn failing(checks: &[String]) -> String {
    let names = printable_text(&checks.join(", "));
    if checks.is_empty() { String::new() } else { format!(", because of {names}") }
}

fn none_of(tried: &[PathBuf]) -> String {
    match tried {
        [] => "and no service account exists".to_owned(),
        tried => format!("no service account exists, and none of these files: {}", paths(tried)),
    }
}

pub(super) fn paths(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
