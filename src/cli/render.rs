//! Tables in the style of kubectl: no borders, column names in capitals.

mod collection;
mod plan;

use comfy_table::{Cell, Table, presets};

use super::format;

pub(super) use collection::collection;
pub(super) use plan::plan;

/// A table without borders.
pub(super) struct Grid(Table);

/// Whether text has color.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    /// Whether color is on.
    pub(super) on: bool,
}

// === impl Grid ===

impl Grid {
    /// Creates a table with these columns.
    pub(super) fn new(columns: &[&str]) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(columns.to_vec());
        for column in table.column_iter_mut() {
            column.set_padding((0, 3));
        }
        Self(table)
    }

    /// Adds a row.
    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.0.add_row(cells.map(|cell| Cell::new(format::printable(&cell))));
    }

    /// Formats the table, with a line break at the end of each line and no blanks before it.
    pub(super) fn text(&self) -> String {
        let lines = self.0.lines().flat_map(|line| [line.trim_end().to_owned(), "\n".to_owned()]);
        lines.collect()
    }
}

// === impl Paint ===

impl Paint {
    /// Formats failures and losses.
    pub(super) fn red(self, text: &str) -> String {
        self.escape("31", text)
    }

    /// Formats warnings.
    pub(super) fn yellow(self, text: &str) -> String {
        self.escape("33", text)
    }

    /// Formats reclaimed bytes.
    pub(super) fn green(self, text: &str) -> String {
        self.escape("32", text)
    }

    /// Formats the title of a paragraph.
    pub(super) fn bold(self, text: &str) -> String {
        self.escape("1", text)
    }

    fn escape(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
