//! Standard output: the requested format, color on a terminal, its width, and which parts of tables are shown.
//!
//! The screen is the same for a whole command, which prints from one thread. So it is set once, and a table reads it when it is formatted.

use std::cell::Cell;
use std::io::{self, BufWriter, IsTerminal, Write};

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use super::{Paint, format};
use crate::cli::cli_error::{CliError, ErrorKind};
pub(in crate::cli) use crate::cli::document_table::Document;
use crate::config::Environment;
use crate::model::is_harmful;

/// How to print.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Format {
    /// Table
    Table,
    /// Table with all columns
    Wide,
    /// JSON, one document per line
    Json,
    /// YAML
    Yaml,
    /// KIND/ID of each object, one per line
    Name,
    /// CSV, of `controller plan` alone
    #[value(hide = true)]
    Csv,
    /// Commands that pull removed images again, of `history` alone
    #[value(hide = true)]
    Crictl,
    /// HTML page, of `report` alone
    #[value(hide = true)]
    Html,
}

/// When to use color.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set or the terminal has none
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

pub struct Output {
    /// The requested format; `None` = the default of the command.
    pub format: Option<Format>,
    /// Whether to use color.
    pub(in crate::cli) paint: Paint,
    out: Box<dyn Write>,
}

/// JSON in which all characters that act are escaped, not only those of ASCII.
struct PrintableJson;

impl Formatter for PrintableJson {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        for piece in fragment.split_inclusive(is_harmful) {
            let end = piece.chars().next_back().filter(|c| is_harmful(*c));
            let shown = end.map_or(piece, |end| piece.strip_suffix(end).unwrap_or_default());
            writer.write_all(shown.as_bytes())?;
            if let Some(end) = end {
                write!(writer, "\\u{:04x}", u32::from(end))?;
            }
        }
        Ok(())
    }
}

// === impl Color ===

impl Color {
    /// Returns whether to use color on a stream. The flag has precedence over the environment.
    pub fn is_on(self, is_terminal: bool, environment: &Environment) -> bool {
        match self {
            Self::Auto => is_terminal && !environment.plain,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

// === impl Output ===

impl Output {
    /// Creates an output to the process's standard output.
    pub fn of_process(format: Option<Format>, color: Color, environment: &Environment) -> Self {
        let stdout = io::stdout();
        let paint = Paint { on: color.is_on(stdout.is_terminal(), environment) };
        Self { format, paint, out: Box::new(BufWriter::with_capacity(64 << 10, stdout.lock())) }
    }

    /// Prints a result as a document or as text.
    pub fn result(&mut self, document: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), CliError> {
        match self.format.unwrap_or(Format::Table) {
            Format::Json => self.json(document),
            Format::Yaml => self.yaml(document),
            _ => self.page(&text()),
        }
    }

    /// Prints a list of objects as a document, as names, or as text.
    pub fn list(
        &mut self,
        document: &impl Serialize,
        names: impl IntoIterator<Item = String>,
        text: impl FnOnce() -> String,
    ) -> Result<(), CliError> {
        match self.format {
            Some(Format::Name) => self.names(names),
            _ => self.result(document, text),
        }
    }

    /// As [`Self::list`]. In JSON each entry is a document of its own.
    pub fn entries(
        &mut self,
        entries: &[impl Serialize],
        names: impl IntoIterator<Item = String>,
        text: impl FnOnce() -> String,
    ) -> Result<(), CliError> {
        match self.format {
            Some(Format::Json) => entries.iter().try_for_each(|entry| self.json(entry)),
            _ => self.list(&entries, names, text),
        }
    }

    /// Prints a document for programs alone: as JSON unless YAML is requested.
    pub fn document(&mut self, document: &impl Serialize) -> Result<(), CliError> {
        if self.format == Some(Format::Yaml) { self.yaml(document) } else { self.json(document) }
    }

    /// Prints the names of objects, one per line.
    pub fn names(&mut self, names: impl IntoIterator<Item = String>) -> Result<(), CliError> {
        names.into_iter().try_for_each(|name| self.text(&format!("{}\n", format::printable(&name))))
    }

    /// Prints text for people. On a terminal, lines that are too long are wrapped between words.
    pub fn page(&mut self, text: &str) -> Result<(), CliError> {
        match Screen::current().width {
            Some(width) => self.text(&format::wrapped(text, width)),
            None => self.text(text),
        }
    }

    pub fn text(&mut self, text: &str) -> Result<(), CliError> {
        self.bytes(text.as_bytes())
    }

    /// Prints what may be no text, unchanged.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        Ok(self.out.write_all(bytes)?)
    }

    /// Prints one compact document on a line of its own, and flushes it: the reader may wait for it before it sends the
    /// next snapshot.
    pub fn json(&mut self, document: &impl Serialize) -> Result<(), CliError> {
        let mut writer = Serializer::with_formatter(&mut self.out, PrintableJson);
        document.serialize(&mut writer)?;
        self.out.write_all(b"\n")?;
        self.flush()
    }

    /// Prints one document over many lines.
    pub fn pretty_json(&mut self, document: &impl Serialize) -> Result<(), CliError> {
        serde_json::to_writer_pretty(&mut self.out, document)?;
        Ok(self.out.write_all(b"\n")?)
    }

    /// Prints one document of a stream of YAML documents.
    pub fn yaml(&mut self, document: &impl Serialize) -> Result<(), CliError> {
        let text = serde_saphyr::to_string(document).map_err(|error| CliError::new(ErrorKind::Internal, error))?;
        self.text("---\n")?;
        if text.contains(|c| c != '\n' && is_harmful(c)) {
            // Only quoted text has escapes in YAML. JSON is YAML too, and quotes all text.
            return self.json(document);
        }
        self.text(&text)?;
        self.flush()
    }

    pub fn flush(&mut self) -> Result<(), CliError> {
        Ok(self.out.flush()?)
    }
}

/// The columns that a wide table needs for a column of pods.
const ROOM: usize = 140;

/// How tables are laid out.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(in crate::cli) struct Screen {
    /// The columns of the terminal; `None` = standard output is no terminal, or nothing is to be shortened.
    pub(in crate::cli) width: Option<usize>,
    /// Whether tables have no header (`--no-headers`).
    pub(in crate::cli) no_headers: bool,
    /// Whether tables have all columns and all rows, and nothing in them is short (`-o wide`).
    pub(in crate::cli) wide: bool,
}

thread_local! {
    static SCREEN: Cell<Screen> = const { Cell::new(Screen { width: None, no_headers: false, wide: false }) };
}

/// Returns whether tables are wide.
pub(in crate::cli) fn is_wide() -> bool {
    Screen::current().wide
}

// === impl Screen ===

impl Screen {
    /// Returns the screen of standard output. `columns` replaces the width of the terminal.
    pub(in crate::cli) fn of_stdout(no_headers: bool, no_trunc: bool, columns: Option<usize>, wide: bool) -> Self {
        let terminal = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
        let width = terminal.filter(|_| !no_trunc).map(|width| columns.unwrap_or(width));
        Self { width: width.filter(|width| *width > 0), no_headers, wide }
    }

    /// Makes it the screen of this thread.
    pub(in crate::cli) fn set(self) {
        SCREEN.set(self);
    }

    /// Returns whether a wide table has room for a column of pods.
    pub(in crate::cli) fn has_room(self) -> bool {
        self.width.is_none_or(|width| width >= ROOM)
    }

    /// Returns the screen of this thread.
    pub(in crate::cli) fn current() -> Self {
        SCREEN.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_form_of_a_document_has_a_character_that_acts() {
        let document = serde_json::json!({"name": "a\u{1b}[1m\u{202e}b\u{9b}\n\"é", "rest": ["ok"]});
        let path = tempfile::NamedTempFile::new().unwrap();
        for format in [Format::Json, Format::Yaml] {
            let out = Box::new(path.reopen().unwrap());
            let mut output = Output { format: Some(format), paint: Paint { on: false }, out };
            output.result(&document, || unreachable!("a document is no text")).unwrap();
            let text = std::fs::read_to_string(path.path()).unwrap();
            assert!(!text.contains(|c| c != '\n' && is_harmful(c)) && text.contains('é'), "{text:?}");
            let read: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
            assert_eq!(read, document);
            path.as_file().set_len(0).unwrap();
        }
    }
}
