//! How the program fails: a kind, which is the exit status, a message, and hints on what to do.

use std::fmt::{self, Write as _};
use std::io::{self, ErrorKind as Io, IsTerminal, Write as _};
use std::process::ExitCode;

use crate::config::{ConfigError, Environment};
use crate::daemon::signals::Signal;

/// What kind of failure it is. The exit status is decided here and nowhere else.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ErrorKind {
    /// Whoever reads our output has had enough: no failure.
    BrokenPipe,
    /// Some of the work failed; the rest was done.
    Partial,
    /// Something went wrong that is neither of the others.
    Internal,
    /// The command line, or a document that it names.
    Usage,
    /// The configuration.
    Config,
    /// The runtime cannot be reached.
    Runtime,
    /// A second signal cut the work off.
    Aborted(Signal),
}

/// A failure, as a person is told it.
#[derive(Debug)]
pub struct CliError {
    kind: ErrorKind,
    cause: anyhow::Error,
    hints: Vec<String>,
}

// === impl ErrorKind ===

impl ErrorKind {
    /// The exit status.
    pub fn status(self) -> u8 {
        match self {
            Self::BrokenPipe => 0,
            Self::Partial | Self::Internal => 1,
            Self::Usage | Self::Config => 2,
            Self::Runtime => 3,
            Self::Aborted(signal) => signal.exit_code(),
        }
    }
}

// === impl CliError ===

impl CliError {
    /// A failure of this kind.
    pub fn new(kind: ErrorKind, cause: impl Into<anyhow::Error>) -> Self {
        Self { kind, cause: cause.into(), hints: Vec::new() }
    }

    /// A failure of this kind that is nothing but its message.
    pub fn message(kind: ErrorKind, message: impl fmt::Display + fmt::Debug + Send + Sync + 'static) -> Self {
        Self { kind, cause: anyhow::Error::msg(message), hints: Vec::new() }
    }

    /// A second signal came before the work in hand was done.
    pub fn aborted(signal: Signal) -> Self {
        let message = format!("aborted by a second signal, {}; what was under way may still be done", signal.name());
        Self::message(ErrorKind::Aborted(signal), message)
    }

    /// The same with a word on what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Tells the person and gives the exit status.
    pub fn report(&self, environment: &Environment) -> ExitCode {
        if self.kind != ErrorKind::BrokenPipe {
            let color = io::stderr().is_terminal() && !environment.plain;
            // Where standard error is closed too, nobody is left to be told.
            let _ = io::stderr().write_all(self.text(color).as_bytes());
        }
        ExitCode::from(self.kind.status())
    }

    fn text(&self, color: bool) -> String {
        let (red, cyan, reset) = if color { ("\x1b[1;31m", "\x1b[36m", "\x1b[0m") } else { ("", "", "") };
        let mut text = format!("{red}error:{reset} {:#}\n", self.cause);
        for hint in &self.hints {
            let _ = writeln!(text, "{cyan}hint:{reset} {hint}");
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
    /// An error of the system, most often while writing output.
    fn from(error: io::Error) -> Self {
        let kind = if error.kind() == Io::BrokenPipe { ErrorKind::BrokenPipe } else { ErrorKind::Internal };
        Self::new(kind, error)
    }
}

impl From<serde_json::Error> for CliError {
    /// An error while writing a document: in the end the writer's.
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        Self::new(ErrorKind::Config, error).hint("`kubegc config default` prints every setting with its default")
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
    }

    #[test]
    fn hints_follow_the_message() {
        let error = CliError::message(ErrorKind::Usage, "no such thing").hint("look there");
        assert_eq!(error.text(false), "error: no such thing\nhint: look there\n");
    }
}
