//! A pause: an operator stops all removals of a node, for an incident for example. It holds for every pass and every command.

use std::fmt::{Display, Formatter};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::{cut_text, printable_text};

const LONGEST_REASON: usize = 200;

/// A pause of one node. All fields are optional, so an empty document is a pause without an end.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Pause {
    pub by: String,
    pub reason: String,
    pub since: Option<Timestamp>,
    /// The end; `None` = until `kubegc resume`.
    pub until: Option<Timestamp>,
}

/// Why passes remove nothing now, although their settings permit it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PauseCause {
    Paused(Pause),
    /// This policy lets the node only observe.
    Observes(String),
    /// It is one of the quiet hours, until this time. Disk pressure ends them.
    QuietHours(Timestamp),
}

// === impl Pause ===

impl Pause {
    /// Reads the document of a pause. One that cannot be read is a pause too: someone wanted one.
    pub fn read(text: &str) -> Self {
        if text.trim().is_empty() {
            return Self::default();
        }
        serde_json::from_str(text).unwrap_or_else(|error| Self::unreadable(&error.to_string()))
    }

    /// Returns the pause whose document cannot be read.
    pub fn unreadable(cause: &str) -> Self {
        Self { reason: format!("the file of the pause cannot be read: {cause}"), ..Self::default() }
    }

    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

impl Display for Pause {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("paused")?;
        if !self.by.is_empty() {
            write!(f, " by {}", shown(&self.by))?;
        }
        if let Some(until) = self.until {
            write!(f, " until {until:.0}")?;
        }
        if self.reason.is_empty() { Ok(()) } else { write!(f, ": {}", shown(&self.reason)) }
    }
}

/// Returns a text of the file as it may be shown: anyone with access to the file can write it.
fn shown(text: &str) -> String {
    cut_text(&printable_text(text), LONGEST_REASON).into_owned()
}

// === impl PauseCause ===

impl PauseCause {
    /// Returns the name of the cause, for metrics and documents.
    pub fn cause(&self) -> &'static str {
        match self {
            Self::Paused(_) => "pause",
            Self::Observes(_) => "policy_mode",
            Self::QuietHours(_) => "quiet_hours",
        }
    }
}

impl Display for PauseCause {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Paused(pause) => pause.fmt(f),
            Self::Observes(policy) => write!(f, "mode \"observe\" by policy {}", shown(policy)),
            Self::QuietHours(until) => write!(f, "quiet hours until {until:.0}"),
        }
    }
}

/// Says what ends that which suspends removals, by the text of its cause: a status and a report have only that.
pub fn ended_by(cause: &str) -> String {
    let policy = |start: &str| cause.strip_prefix(start)?.split([' ', ':']).next();
    let command = if let Some(name) = policy("paused by policy ") {
        format!("fleet resume --name {name}")
    } else if let Some(name) = policy("mode \"observe\" by policy ") {
        format!("fleet mode collect --name {name}")
    } else if cause.starts_with("paused") {
        "resume".to_owned()
    } else {
        return "it ends by itself".to_owned();
    };
    format!("`kubegc {command}` ends it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_that_which_ends_this_cause() {
        let by = |by: &str, reason: &str| {
            PauseCause::Paused(Pause {
                by: by.to_owned(),
                reason: reason.to_owned(),
                until: Some(at(60)),
                ..Pause::default()
            })
        };
        for (cause, command) in [
            (by("root", "paused by policy a"), "`kubegc resume` ends it"),
            (PauseCause::Paused(Pause::default()), "`kubegc resume` ends it"),
            (by("policy gpu", "x"), "`kubegc fleet resume --name gpu` ends it"),
            (
                PauseCause::Paused(Pause { by: "policy gpu".to_owned(), reason: "x".to_owned(), ..Pause::default() }),
                "`kubegc fleet resume --name gpu` ends it",
            ),
            (PauseCause::Observes("mode".to_owned()), "`kubegc fleet mode collect --name mode` ends it"),
            (PauseCause::QuietHours(at(60)), "it ends by itself"),
        ] {
            assert_eq!(ended_by(&cause.to_string()), command);
        }
        let causes =
            [PauseCause::Paused(Pause::default()), PauseCause::Observes(String::new()), PauseCause::QuietHours(at(60))];
        assert_eq!(causes.map(|cause| cause.cause()), ["pause", "policy_mode", "quiet_hours"]);
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_pause_is_read_from_its_document() {
        let pause = Pause {
            by: "root".to_owned(),
            reason: "incident 7".to_owned(),
            since: Some(at(60)),
            until: Some(at(3600)),
        };
        assert_eq!(Pause::read(&serde_json::to_string(&pause).unwrap()), pause);
        assert_eq!(pause.to_string(), "paused by root until 1970-01-01T01:00:00Z: incident 7");
        assert_eq!(Pause::read(r#"{"reason": "x"}"#).to_string(), "paused: x");
    }

    #[test]
    fn a_file_without_a_document_is_a_pause_without_an_end() {
        for text in ["", " \n"] {
            assert_eq!(Pause::read(text), Pause::default());
            assert_eq!(Pause::read(text).to_string(), "paused");
        }
        let damaged = Pause::read("{\"until\": \"tomorrow\"}");
        assert_eq!(damaged.until, None);
        assert!(damaged.reason.starts_with("the file of the pause cannot be read: "), "{damaged}");
        assert!(!damaged.is_over(Timestamp::MAX));
    }

    #[test]
    fn a_pause_ends_at_its_time() {
        let pause = Pause { until: Some(at(100)), ..Pause::default() };
        assert_eq!([99, 100, 101].map(|second| pause.is_over(at(second))), [false, true, true]);
    }

    #[test]
    fn the_text_of_a_pause_cannot_forge_a_line() {
        let pause =
            Pause { by: "a\nb".to_owned(), reason: format!("\u{1b}[2J{}", "x".repeat(1000)), ..Pause::default() };
        let text = pause.to_string();
        assert!(!text.contains(['\n', '\u{1b}']) && text.len() < 300, "{text:?}");
    }
}
