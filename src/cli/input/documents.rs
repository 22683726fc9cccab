//! Reads snapshots from a file or from standard input: a stream of JSON documents, read one by one.
//!
//! The next document is read only when the caller needs it. So a program can write a snapshot, wait for its plan, and then
//! write the next one.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use anyhow::Context as _;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::de::{IoRead, StreamDeserializer};

use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::document_table::Content;
use crate::model::Snapshot;
use crate::plan::{Plan, Policy, Scope, decide};

/// The name of the input `-` in messages.
const STDIN: &str = "standard input";

/// The snapshots of one input.
pub struct Snapshots {
    /// Finds the end of each document.
    documents: StreamDeserializer<'static, IoRead<Recorded>, IgnoredAny>,
    name: String,
    /// What was read since the document before.
    text: Rc<RefCell<Vec<u8>>>,
    /// The number of lines before that.
    lines: usize,
}

/// An input that records what is read from it.
struct Recorded {
    input: Box<dyn Read>,
    text: Rc<RefCell<Vec<u8>>>,
}

/// The header of a document. One written by hand may have none.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Header {
    kind: Option<Value>,
    version: Option<Value>,
}

// === impl Snapshots ===

impl Snapshots {
    /// Opens a file; `-` is standard input.
    pub fn open(path: &Path) -> Result<Self, CliError> {
        if path.as_os_str() == "-" {
            return Ok(Self::new(Box::new(BufReader::new(io::stdin())), STDIN));
        }
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| format!("cannot open {name}"));
        let file = file.map_err(|error| CliError::new(ErrorKind::Usage, error))?;
        Ok(Self::new(Box::new(BufReader::new(file)), &name))
    }

    fn new(input: Box<dyn Read>, name: &str) -> Self {
        let text = Rc::default();
        let recorded = Recorded { input, text: Rc::clone(&text) };
        let documents = serde_json::Deserializer::from_reader(recorded).into_iter();
        Self { documents, name: name.to_owned(), text, lines: 0 }
    }

    /// Returns the first snapshot, for a command that needs only one.
    pub fn first(mut self) -> Result<Snapshot, CliError> {
        self.next().unwrap_or_else(|| Err(self.empty()))
    }

    /// Returns the first snapshot and its plan, for a command that explains one.
    pub fn planned(self, policy: &Policy) -> Result<(Snapshot, Plan), CliError> {
        let snapshot = self.first()?;
        let plan = decide(&snapshot, policy, Scope::All);
        Ok((snapshot, plan))
    }

    /// Returns the error for an input without a snapshot: it is probably truncated.
    pub fn empty(&self) -> CliError {
        let message = format!("no snapshot in {}", self.name);
        CliError::message(ErrorKind::Usage, message).hint("`kubegc snapshot` prints one")
    }

    /// Reads a document. `text` begins with the line breaks before it.
    fn parse(&self, text: &[u8]) -> Result<Snapshot, CliError> {
        self.check(text)?;
        serde_json::from_slice(text).map_err(|error| self.fault(self.lines, &error))
    }

    /// Returns an error if the document is no snapshot of a supported version.
    fn check(&self, text: &[u8]) -> Result<(), CliError> {
        let Header { kind, version } = serde_json::from_slice(text).unwrap_or_default();
        let what = match (kind, version) {
            _ if text.trim_ascii_start().starts_with(b"[") => {
                "a Snapshot is wanted, and this is a list; write one after the other".to_owned()
            }
            (Some(kind), _) if kind != Snapshot::KIND => {
                format!("a Snapshot is wanted, and this is a {}", kind.as_str().unwrap_or("document of no kind"))
            }
            (_, Some(version)) if version != Snapshot::VERSION => {
                format!("a snapshot of version {version}; this program reads version {}", Snapshot::VERSION)
            }
            _ => return Ok(()),
        };
        let before = text.len() - text.trim_ascii_start().len();
        let line = self.lines + line_breaks(text.get(..before).unwrap_or_default()) + 1;
        Err(CliError::message(ErrorKind::Usage, format!("{}, line {line}: {what}", self.name)))
    }

    /// Returns the error with its place. `lines` = the number of lines before the text in which the error was found.
    fn fault(&self, lines: usize, error: &serde_json::Error) -> CliError {
        let place = format!(" at line {} column {}", error.line(), error.column());
        let what = error.to_string().replace(&place, "");
        let line = lines + error.line();
        // serde_json reports a truncated string at the line break after it, which counts as column 0 of the next line.
        let place = match error.column() {
            0 => format!("line {}", line - 1),
            column => format!("line {line}, column {column}"),
        };
        CliError::message(ErrorKind::Usage, format!("{}, {place}: {what}", self.name))
    }
}

impl Iterator for Snapshots {
    type Item = Result<Snapshot, CliError>;

    /// Returns the next snapshot. After an error the start of the next document is unknown, so the caller must stop.
    fn next(&mut self) -> Option<Self::Item> {
        match self.documents.next()? {
            Ok(_) => {
                let text = self.text.take();
                let snapshot = self.parse(&text);
                self.lines += line_breaks(&text);
                Some(snapshot)
            }
            Err(error) if error.is_io() => {
                let error = anyhow::Error::from(error).context(format!("cannot read {}", self.name));
                Some(Err(CliError::new(ErrorKind::Usage, error)))
            }
            Err(error) => Some(Err(self.fault(0, &error))),
        }
    }
}

// === impl Recorded ===

impl Read for Recorded {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(into)?;
        self.text.borrow_mut().extend(into.iter().take(length));
        Ok(length)
    }
}

fn line_breaks(text: &[u8]) -> usize {
    text.split(|byte| *byte == b'\n').skip(1).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = r#"{"kind":"Snapshot","version":1,"taken_at":"2026-11-21T12:00:00Z","node":"n1"}"#;

    fn read(text: &str) -> Vec<Result<String, String>> {
        let snapshots = Snapshots::new(Box::new(io::Cursor::new(text.to_owned().into_bytes())), "f");
        let mut all = Vec::new();
        for snapshot in snapshots {
            let failed = snapshot.is_err();
            all.push(snapshot.map(|snapshot| snapshot.node).map_err(|error| error.to_string()));
            if failed {
                break;
            }
        }
        all
    }

    fn ok(nodes: &[&str]) -> Vec<Result<String, String>> {
        nodes.iter().map(|node| Ok((*node).to_owned())).collect()
    }

    #[test]
    fn documents_are_read_regardless_of_line_breaks() {
        let two = ONE.replace("n1", "n2");
        let pretty = |text: &str| {
            serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(text).unwrap()).unwrap()
        };
        assert_eq!(read(&format!("{ONE}\n{two}\n")), ok(&["n1", "n2"]));
        assert_eq!(read(&format!("\n\n{ONE}\r\n\n{two}")), ok(&["n1", "n2"]));
        assert_eq!(read(&format!("{ONE}{two}")), ok(&["n1", "n2"]));
        assert_eq!(read(&format!("{}\n{}\n{ONE}", pretty(ONE), pretty(&two))), ok(&["n1", "n2", "n1"]));
        assert_eq!(read(&format!("{} {two}\n", pretty(ONE))), ok(&["n1", "n2"]));
        assert_eq!(read("  \n"), []);
    }

    /// An input that must not be read.
    struct NotYet;

    impl Read for NotYet {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            panic!("read before the next document is needed");
        }
    }

    #[test]
    fn a_document_is_complete_before_the_next_one_begins() {
        let mut snapshots = Snapshots::new(Box::new(ONE.as_bytes().chain(NotYet)), "f");
        assert_eq!(snapshots.next().unwrap().unwrap().node, "n1");
    }

    #[test]
    fn an_error_has_its_line() {
        let cases = [
            (format!("{ONE}\nnonsense\n{ONE}\n"), "f, line 2, column 2: expected ident"),
            (
                format!("{ONE}\n\n{{\"taken_at\":1}}\n"),
                "f, line 3, column 13: invalid type: integer `1`, expected a timestamp string",
            ),
            (format!("{ONE}\n{{\"kind\":\"Snapshot\",\n{ONE}\n"), "f, line 3, column 1: key must be a string"),
            (format!("{{\n  \"taken_at\": 5\n}}\n{ONE}"), "f, line 2, column 15: invalid type"),
            (format!("{ONE}\n{}", &ONE[..40]), "f, line 2, column 40: EOF while parsing"),
            (
                format!("{ONE}\n{}\n", ONE.replace("Snapshot", "Plan")),
                "f, line 2: a Snapshot is wanted, and this is a Plan",
            ),
            (
                format!("{ONE}\n{}\n", ONE.replace(":1", ":2")),
                "f, line 2: a snapshot of version 2; this program reads version 1",
            ),
            ("{\"kind\":\"Snapshot\",\"version\":3}".to_owned(), "f, line 1: a snapshot of version 3; this program"),
            (format!("{ONE}\n{}\n", &ONE[..10]), "f, line 2: control character"),
            ("[]".to_owned(), "f, line 1: a Snapshot is wanted, and this is a list"),
        ];
        for (text, wanted) in cases {
            let last = read(&text).pop().unwrap().unwrap_err();
            assert!(last.starts_with(wanted), "{last}\n{wanted}");
        }
    }
}
