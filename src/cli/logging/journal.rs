//! Log messages in the journal of systemd, with a priority and a field for each value: `journalctl -p warning`,
//! `journalctl KUBEGC_POD=shop/web-0`, `journalctl -o json`.
//!
//! The text of a message is the same as elsewhere. The format of an entry is that of
//! <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>. The crate `tracing-journald` 0.3 loses an event that it cannot send, and has no limit
//! on the length of a value.

use std::fmt::Debug;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::LONGEST;
use crate::model::{cut_text, printable_text};

/// The socket of the journal.
const SOCKET: &str = "/run/systemd/journal/socket";

/// Sends each event to the journal. An event that cannot be sent is written to standard error.
pub(super) struct Journal {
    own: UnixDatagram,
    /// The socket of the journal. It is looked up for each event, because a restarted journal may have another one.
    to: PathBuf,
}

/// The message and the values of an event, as text.
#[derive(Default)]
struct Values {
    message: String,
    fields: Vec<(&'static str, String)>,
}

// === impl Journal ===

impl Journal {
    /// Connects to the journal if standard error is connected to it. `stream` = `JOURNAL_STREAM`, the device and the
    /// inode of the stream that systemd connected to the journal. A shell may have redirected standard error since.
    pub(super) fn of_service(stream: &str) -> Option<Self> {
        let error = std::fs::metadata("/proc/self/fd/2").ok()?;
        let is_connected = format!("{}:{}", error.dev(), error.ino()) == stream;
        if is_connected && Path::new(SOCKET).exists() { Self::at(SOCKET.into()).ok() } else { None }
    }

    fn at(to: PathBuf) -> io::Result<Self> {
        Ok(Self { own: UnixDatagram::unbound()?, to })
    }

    /// Sends an entry, or writes its message to standard error.
    fn send(&self, values: &Values, level: Level) {
        let text = values.text();
        if self.own.send_to(&values.entry(level, &text), &self.to).is_err() {
            // If standard error is closed, there is no other output.
            let _ = writeln!(io::stderr(), "{level} {text}");
        }
    }
}

impl<S: Subscriber> Layer<S> for Journal {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut values = Values::default();
        event.record(&mut values);
        self.send(&values, *event.metadata().level());
    }
}

// === impl Values ===

impl Values {
    /// Returns the message with the values, as one text.
    fn text(&self) -> String {
        let values = self.fields.iter().map(|(name, value)| format!(" {name}={value}"));
        let text: String = std::iter::once(self.message.clone()).chain(values).collect();
        // A line of the text could pass for another entry. The fields have the values as they are.
        printable_text(&text)
    }

    /// Returns the entry of the journal.
    fn entry(&self, level: Level, text: &str) -> Vec<u8> {
        let common = [("MESSAGE", text), ("PRIORITY", priority(level)), ("SYSLOG_IDENTIFIER", "kubegc")];
        let own = self.fields.iter().map(|(name, value)| field(&format!("KUBEGC_{}", name.to_uppercase()), value));
        common.iter().map(|(name, value)| field(name, value)).chain(own).flatten().collect()
    }

    fn take(&mut self, field: &Field, value: &str) {
        let value = cut_text(value, LONGEST).into_owned();
        if field.name() == "message" {
            self.message = value;
        } else {
            self.fields.push((field.name(), value));
        }
    }
}

impl Visit for Values {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.take(field, &format!("{value:?}"));
    }
}

/// Returns a field of an entry. A value has its length before it, because it may have several lines.
fn field(name: &str, value: &str) -> Vec<u8> {
    [name.as_bytes(), b"\n", &(value.len() as u64).to_le_bytes(), value.as_bytes(), b"\n"].concat()
}

/// Returns the priority as in syslog.
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        Level::DEBUG | Level::TRACE => "7",
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn an_entry_has_text_priority_and_each_value() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let journal = UnixDatagram::bind(&path).unwrap();
        let subscriber = tracing_subscriber::registry().with(Journal::at(path.clone()).unwrap());
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(kind = "image", id = %"sha256:1", age_seconds = 7, note = None::<&str>, "could not be\nremoved");
        });
        let mut bytes = [0; 1024];
        let length = journal.recv(&mut bytes).unwrap();
        // Not the function above, which it checks.
        let field = |name: &str, value: &str| {
            [
                name.as_bytes(),
                b"\n",
                &[u8::try_from(value.len()).unwrap(), 0, 0, 0, 0, 0, 0, 0],
                value.as_bytes(),
                b"\n",
            ]
            .concat()
        };
        let wanted = [
            field("MESSAGE", "could not be\\nremoved kind=image id=sha256:1 age_seconds=7"),
            field("PRIORITY", "4"),
            field("SYSLOG_IDENTIFIER", "kubegc"),
            field("KUBEGC_KIND", "image"),
            field("KUBEGC_ID", "sha256:1"),
            field("KUBEGC_AGE_SECONDS", "7"),
        ];
        assert_eq!(String::from_utf8_lossy(&bytes[..length]), String::from_utf8_lossy(&wanted.concat()));
    }

    /// After a restart there is another socket at the same path.
    #[test]
    fn a_journal_that_was_restarted_receives_the_next_event() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let first = UnixDatagram::bind(&path).unwrap();
        let subscriber = tracing_subscriber::registry().with(Journal::at(path.clone()).unwrap());
        let received = tracing::subscriber::with_default(subscriber, || {
            tracing::info!("first");
            drop(first);
            std::fs::rename(&path, dir.path().join("old")).unwrap();
            tracing::info!("to standard error");
            let second = UnixDatagram::bind(&path).unwrap();
            tracing::info!("second");
            let mut bytes = [0; 256];
            let length = second.recv(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes[..length]).into_owned()
        });
        assert!(received.contains("second"), "{received}");
    }

    #[test]
    fn only_the_stream_that_systemd_connected_counts() {
        assert!(Journal::of_service("0:0").is_none());
        assert!(Journal::of_service("").is_none());
    }
}
