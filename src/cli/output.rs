//! Standard output: the requested format, and color on a terminal.

use std::io::{self, BufWriter, IsTerminal, Write};

use clap::ValueEnum;
use serde::Serialize;

use super::{CliError, ErrorKind};
use crate::config::Environment;

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
}

/// The output of commands.
pub struct Output {
    /// The requested format; `None` = the default of the command.
    pub format: Option<Format>,
    /// Whether to use color.
    pub color: bool,
    out: Box<dyn Write>,
}

// === impl Output ===

impl Output {
    /// Creates an output to the process's standard output.
    pub fn of_process(format: Option<Format>, environment: &Environment) -> Self {
        let stdout = io::stdout();
        let color = stdout.is_terminal() && !environment.plain;
        Self { format, color, out: Box::new(BufWriter::new(stdout.lock())) }
    }

    /// Prints a result as a document or as text. `text` is called with whether the table is wide.
    pub fn result(&mut self, document: &impl Serialize, text: impl FnOnce(bool) -> String) -> Result<(), CliError> {
        match self.format.unwrap_or(Format::Table) {
            Format::Json => self.json(document),
            Format::Yaml => self.yaml(document),
            format => self.text(&text(format == Format::Wide)),
        }
    }

    /// Prints text unchanged.
    pub fn text(&mut self, text: &str) -> Result<(), CliError> {
        Ok(self.out.write_all(text.as_bytes())?)
    }

    /// Prints one compact document on a line of its own, and flushes it: the reader may wait for it before it sends the
    /// next snapshot.
    pub fn json(&mut self, document: &impl Serialize) -> Result<(), CliError> {
        serde_json::to_writer(&mut self.out, document)?;
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
        self.text(&text)?;
        self.flush()
    }

    /// Flushes the output.
    pub fn flush(&mut self) -> Result<(), CliError> {
        Ok(self.out.flush()?)
    }
}
