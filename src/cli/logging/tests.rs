//! Text of a tenant in the log: one event is one line, whatever a name is.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use super::*;

/// A writer that keeps what is written.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns what an event writes.
fn written(event: impl FnOnce()) -> String {
    let kept = Kept::default();
    let writer = kept.clone();
    let subscriber = tracing_subscriber::registry().with(text(move || writer.clone(), false));
    tracing::subscriber::with_default(subscriber, event);
    let bytes = kept.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

const NAME: &str = "a\n2026-01-01T00:00:00Z  INFO action=delete\r\u{1b}[2J\u{9b}31m\u{202e}\u{2028}b";

#[test]
fn a_name_writes_no_line_and_no_escape() {
    let error = io::Error::other(NAME);
    let error: &(dyn std::error::Error + 'static) = &error;
    for text in [
        written(|| tracing::warn!(object = %NAME, "failed")),
        written(|| tracing::warn!(object = ?NAME, "failed")),
        written(|| tracing::warn!(object = NAME, "failed")),
        written(|| tracing::warn!(error, "failed")),
        written(|| tracing::warn!("failed: {NAME}")),
    ] {
        assert_eq!(text.lines().count(), 1, "{text:?}");
        let line = text.trim_end_matches('\n');
        let is_harmful = |c: char| c.is_control() || matches!(c, '\u{202e}' | '\u{2028}');
        assert!(!line.contains(is_harmful), "{line:?}");
        assert!(line.contains("failed"), "{line:?}");
    }
}

#[test]
fn a_name_that_is_huge_is_cut() {
    let text = written(|| tracing::warn!(object = %"x".repeat(1 << 20), id = "i", "failed"));
    assert!(text.len() < 10_000 && text.contains("id="), "{} bytes", text.len());
}

#[test]
fn ordinary_values_are_written_as_they_are() {
    let text = written(|| tracing::info!(object = %"Pod.v1/a", cause = "é \"x\"", count = 3, "removed"));
    assert!(text.ends_with(" INFO removed object=Pod.v1/a cause=\"é \\\"x\\\"\" count=3\n"), "{text:?}");
}

/// The error of the request says the same.
#[test]
fn libraries_write_no_line_about_a_failed_request() {
    let targets = targets(LevelFilter::TRACE);
    for library in ["kube_client::client", "rustls_platform_verifier::verification::others"] {
        assert!(!targets.would_enable(library, &tracing::Level::ERROR), "{library}");
    }
    assert!(targets.would_enable("hyper", &tracing::Level::WARN));
}
