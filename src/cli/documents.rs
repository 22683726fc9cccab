//! Reads snapshots from a file or from standard input: a stream of JSON documents, read one by one.
//!
//! Usually each document is on a line of its own. A document over many lines is read too. The next document is read
//! only when the caller needs it. So a program can write a snapshot, wait for its plan, and then write the next one.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

use super::{CliError, ErrorKind};
use crate::model::Snapshot;
use crate::plan::{Plan, Policy, Scope, decide};

/// The supported version of snapshots.
const VERSION: u32 = 1;
/// The name of the input `-` in messages.
const STDIN: &str = "standard input";

/// The snapshots of one input.
pub struct Snapshots {
    input: Box<dyn BufRead>,
    name: String,
    /// The number of lines read so far.
    lines: usize,
    /// The buffered text: whole lines.
    text: Vec<u8>,
    /// The number of bytes of the text that are parsed.
    done: usize,
}

/// The header of a document.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Header {
    kind: serde_json::Value,
    version: serde_json::Value,
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

    fn new(input: Box<dyn BufRead>, name: &str) -> Self {
        Self { input, name: name.to_owned(), lines: 0, text: Vec::new(), done: 0 }
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

    /// Reads lines until there is text. `false` = end of input.
    fn fill(&mut self) -> Result<bool, CliError> {
        loop {
            let rest = self.text.get(self.done..).unwrap_or_default();
            if let Some(start) = rest.iter().position(|byte| !byte.is_ascii_whitespace()) {
                self.done += start;
                return Ok(true);
            }
            self.text.clear();
            self.done = 0;
            if !self.line()? {
                return Ok(false);
            }
        }
    }

    /// Reads one more line. `false` = end of input.
    fn line(&mut self) -> Result<bool, CliError> {
        let read = self.input.read_until(b'\n', &mut self.text);
        let read = read.with_context(|| format!("cannot read {}", self.name));
        let more = read.map_err(|error| CliError::new(ErrorKind::Usage, error))? > 0;
        self.lines += usize::from(more);
        Ok(more)
    }

    /// Reads lines until the current document is complete, judged by its brackets.
    fn complete(&mut self) -> Result<(), CliError> {
        let mut scan = Scan::default();
        let mut from = self.done;
        loop {
            scan.read(self.text.get(from..).unwrap_or_default());
            from = self.text.len();
            if !scan.is_open() || !self.line()? {
                return Ok(());
            }
            if self.text.get(from..).is_some_and(begins_document) {
                // The line before was truncated, so the error is there.
                self.text.truncate(from);
                self.lines -= 1;
                return Ok(());
            }
        }
    }

    fn parse(&mut self) -> Result<Snapshot, CliError> {
        let mut parsed = parse::<Snapshot>(self.rest());
        if parsed.as_ref().is_err_and(serde_json::Error::is_eof) {
            self.complete()?;
            parsed = parse(self.rest());
        }
        let (snapshot, length) = parsed.map_err(|error| self.refuse(&error))?;
        if snapshot.version != VERSION {
            return Err(self.other_version(&snapshot.version));
        }
        self.done += length;
        Ok(snapshot)
    }

    /// Returns the error. It checks first whether the document is a snapshot of a supported version.
    fn refuse(&self, error: &serde_json::Error) -> CliError {
        if self.rest().starts_with(b"[") {
            return self.error(format_args!("a Snapshot is wanted, and this is a list; write one after the other"));
        }
        let header = parse::<Header>(self.rest()).map(|(header, _)| header).unwrap_or_default();
        match (&header.kind, &header.version) {
            (serde_json::Value::String(kind), _) if kind != "Snapshot" => {
                self.error(format_args!("a Snapshot is wanted, and this is a {kind}"))
            }
            (_, serde_json::Value::Number(version)) if version.as_u64() != Some(VERSION.into()) => {
                self.other_version(version)
            }
            _ => self.fault(error),
        }
    }

    fn other_version(&self, version: &impl std::fmt::Display) -> CliError {
        self.error(format_args!("a snapshot of version {version}; this program reads version {VERSION}"))
    }

    fn fault(&self, error: &serde_json::Error) -> CliError {
        let place = format!(" at line {} column {}", error.line(), error.column());
        let what = error.to_string().replace(&place, "");
        let line = self.line_of_document() + error.line() - 1;
        // serde_json reports a truncated string at the line break after it, which counts as column 0 of the next line.
        let place = match error.column() {
            0 => format!("line {}", line - 1),
            column => format!("line {line}, column {column}"),
        };
        CliError::message(ErrorKind::Usage, format!("{}, {place}: {what}", self.name))
    }

    fn error(&self, what: std::fmt::Arguments<'_>) -> CliError {
        CliError::message(ErrorKind::Usage, format!("{}, line {}: {what}", self.name, self.line_of_document()))
    }

    /// Returns the line on which the current document begins, from 1.
    fn line_of_document(&self) -> usize {
        let after = self.rest().split_inclusive(|byte| *byte == b'\n').count();
        (self.lines + 1).saturating_sub(after.max(1))
    }

    fn rest(&self) -> &[u8] {
        self.text.get(self.done..).unwrap_or_default()
    }
}

impl Iterator for Snapshots {
    type Item = Result<Snapshot, CliError>;

    /// Returns the next snapshot. After an error the start of the next document is unknown, so the caller must stop.
    fn next(&mut self) -> Option<Self::Item> {
        match self.fill() {
            Ok(true) => Some(self.parse()),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// Counts brackets and tracks strings, to find where a document may end.
#[derive(Default)]
struct Scan {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

// === impl Scan ===

impl Scan {
    fn read(&mut self, text: &[u8]) {
        for byte in text {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Says whether the document continues on the next line. A string never does.
    fn is_open(&self) -> bool {
        self.depth > 0 && !self.in_string
    }
}

/// Parses the first document of a text and returns it with its length.
fn parse<'de, T: Deserialize<'de>>(text: &'de [u8]) -> Result<(T, usize), serde_json::Error> {
    let mut stream = serde_json::Deserializer::from_slice(text).into_iter::<T>();
    match stream.next() {
        Some(document) => document.map(|document| (document, stream.byte_offset())),
        None => Err(serde::de::Error::custom("nothing there")),
    }
}

fn begins_document(line: &[u8]) -> bool {
    line.starts_with(b"{\"kind\"")
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
    fn documents_are_read_one_a_line_or_over_many_lines_or_many_on_a_line() {
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

    #[test]
    fn an_error_has_its_line() {
        let cases = [
            (format!("{ONE}\nnonsense\n{ONE}\n"), "f, line 2, column 2: expected ident"),
            (
                format!("{ONE}\n\n{{\"taken_at\":1}}\n"),
                "f, line 3, column 13: invalid type: integer `1`, expected a timestamp string",
            ),
            (format!("{ONE}\n{{\"kind\":\"Snapshot\",\n{ONE}\n"), "f, line 2: EOF while parsing a value"),
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
