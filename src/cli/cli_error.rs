//! Errors of the program: a kind, which determines the exit status, a message, and a hint.

use std::fmt::{self, Write as _};
use std::io::{self, ErrorKind as Io, Write as _};
use std::process::ExitCode;

use crate::config::{ConfigError, ConfigFault, Origin};
pub(super) use crate::daemon::process::signals::Signal;
use crate::model::printable_lines;

/// The meaning of each exit status. The help texts are made from it.
pub(super) const STATUSES: [(u8, &str); 7] = [
    (0, "done"),
    (1, "failed or refused in part, data unavailable, or another error"),
    (2, "usage or configuration"),
    (3, "runtime or API server not reachable"),
    (4, "a --fail-on condition was met"),
    (5, "another agent holds the lock of the node"),
    (130, "interrupted (143 by SIGTERM)"),
];

/// The kind of an error. The exit status depends on nothing else.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ErrorKind {
    /// The reader of the output closed it. This is not a failure.
    BrokenPipe,
    /// Some of the work failed; the rest was done.
    Partial,
    Internal,
    /// The command line or a document named there is invalid.
    Usage,
    /// The configuration is invalid.
    Config,
    /// The runtime or the API server is unavailable.
    Runtime,
    /// A condition of `--fail-on` was met.
    Condition,
    /// Another agent holds the lock of the node.
    Locked,
    /// A signal ended the command before all was done.
    Interrupted(Signal),
}

/// An error, as shown to the user.
#[derive(Debug)]
pub struct CliError {
    kind: ErrorKind,
    cause: anyhow::Error,
    hint: Option<String>,
}

/// Prints a sentence on standard error.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", printable_lines(text));
}

/// Prints a warning on standard error.
pub(super) fn warn(text: &str) {
    // If standard error is closed, there is no other output for the warning.
    let _ = writeln!(io::stderr(), "warning: {}", printable_lines(text));
}

// === impl ErrorKind ===

impl ErrorKind {
    /// Returns the exit status, one of `STATUSES`.
    pub fn status(self) -> u8 {
        match self {
            Self::BrokenPipe => 0,
            Self::Partial | Self::Internal => 1,
            Self::Usage | Self::Config => 2,
            Self::Runtime => 3,
            Self::Condition => 4,
            Self::Locked => 5,
            Self::Interrupted(signal) => signal.exit_code(),
        }
    }
}

// === impl CliError ===

impl CliError {
    /// Creates an error of this kind.
    pub fn new(kind: ErrorKind, cause: impl Into<anyhow::Error>) -> Self {
        Self { kind, cause: cause.into(), hint: None }
    }

    /// Creates an error of this kind with a message and no cause.
    pub fn message(kind: ErrorKind, message: impl fmt::Display + fmt::Debug + Send + Sync + 'static) -> Self {
        Self { kind, cause: anyhow::Error::msg(message), hint: None }
    }

    /// Creates the error for a second signal, which arrives before the work is done.
    pub fn aborted(signal: Signal) -> Self {
        let message = format!("aborted by a second signal, {}; actions in progress may still complete", signal.name());
        Self::message(ErrorKind::Interrupted(signal), message)
    }

    /// Sets the signal, if one ended the command.
    #[must_use]
    pub fn ended_by(self, signal: Option<Signal>) -> Self {
        match (self.kind, signal) {
            (ErrorKind::Interrupted(_), Some(signal)) => Self { kind: ErrorKind::Interrupted(signal), ..self },
            _ => self,
        }
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the faults of the configuration, if those are the error.
    pub fn config_faults(&self) -> &[ConfigFault] {
        self.cause.downcast_ref::<ConfigError>().map_or(&[], |error| &error.faults)
    }

    /// Prints the error and returns the exit status.
    pub fn report(&self, color: bool) -> ExitCode {
        if self.kind != ErrorKind::BrokenPipe {
            // If standard error is closed too, there is no other output for the error.
            let _ = io::stderr().write_all(self.text(color).as_bytes());
        }
        ExitCode::from(self.kind.status())
    }

    fn text(&self, color: bool) -> String {
        let (red, cyan, reset) = if color { ("\x1b[1;31m", "\x1b[36m", "\x1b[0m") } else { ("", "", "") };
        let mut text = format!("{red}error:{reset} {}\n", printable_lines(&format!("{:#}", self.cause)));
        if let Some(hint) = &self.hint {
            let _ = writeln!(text, "{cyan}hint:{reset} {}", printable_lines(hint));
        }
        text
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.cause)
    }
}

impl From<io::Error> for CliError {
    /// Converts an I/O error, usually from writing output.
    fn from(error: io::Error) -> Self {
        let kind = if error.kind() == Io::BrokenPipe { ErrorKind::BrokenPipe } else { ErrorKind::Internal };
        Self::new(kind, error)
    }
}

impl From<serde_json::Error> for CliError {
    /// Converts an error from writing a document. Its cause is the error of the output.
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        let is_of_crictl = |fault: &ConfigFault| fault.origin == Origin::CRICTL_VARIABLE;
        let hint = if error.faults.iter().any(is_of_crictl) {
            "correct crictl's configuration, unset CRI_CONFIG_FILE, or set --runtime-endpoint"
        } else {
            "`kubegc config default` prints every setting with its default"
        };
        Self::new(ErrorKind::Config, error).hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_status_follows_the_kind() {
        let broken = CliError::from(io::Error::from(Io::BrokenPipe));
        assert_eq!((broken.kind(), broken.kind().status()), (ErrorKind::BrokenPipe, 0));
        assert_eq!(CliError::from(io::Error::from(Io::StorageFull)).kind().status(), 1);
        assert_eq!(CliError::from(ConfigError { faults: Vec::new() }).kind().status(), 2);
        assert_eq!(CliError::message(ErrorKind::Runtime, "x").kind().status(), 3);
        assert_eq!(ErrorKind::Locked.status(), 5);
        assert_eq!(ErrorKind::Interrupted(Signal::Interrupt).status(), 130);
    }

    #[test]
    fn a_message_has_no_escape_sequence() {
        let error = CliError::message(ErrorKind::Usage, "no \u{1b}[2J\r\nthing");
        assert_eq!(error.text(false), "error: no \\u{1b}[2J\\r\nthing\n");
    }

    #[test]
    fn the_hint_follows_the_message() {
        let error = CliError::message(ErrorKind::Usage, "no such thing").hint("look there");
        assert_eq!(error.text(false), "error: no such thing\nhint: look there\n");
    }
}
