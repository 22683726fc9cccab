//! Tables in the style of kubectl: no borders, column names in capitals, no column without a value.
//!
//! A table that is not wide fits in [`WIDTH`] columns: names are shortened in the middle first, then text wraps between
//! words, and only then long words are shortened.

use comfy_table::ColumnConstraint::{Absolute, Hidden};
use comfy_table::{Table, Width, presets};

use crate::cli::format;

/// The width of a table that is not wide.
const WIDTH: usize = 120;
/// The number of blanks between two columns.
const GAP: u16 = 2;
/// The column of names, which are shortened first.
const NAME: &str = "NAME";
/// The width to which names are shortened before text wraps.
const SHORT_NAME: usize = 18;
/// The width of the longest words that wrapped text leaves whole, such as configuration keys.
const LONG_WORD: usize = 32;

/// A table with `N` columns.
pub(in crate::cli) struct Grid<const N: usize> {
    columns: [Column; N],
    rows: Vec<[String; N]>,
}

/// The title of a column, and the widths of its content in characters.
#[derive(Clone, Copy)]
struct Column {
    title: &'static str,
    has_value: bool,
    longest_cell: usize,
    longest_word: usize,
}

/// The widths above which content is shortened or wrapped.
#[derive(Clone, Copy)]
struct Limits {
    names: usize,
    text: usize,
    words: usize,
}

// === impl Grid ===

impl<const N: usize> Grid<N> {
    /// Creates a table with these columns.
    pub(in crate::cli) fn new(titles: &[&'static str; N]) -> Self {
        Self { columns: titles.map(Column::new), rows: Vec::new() }
    }

    /// Adds a row.
    pub(in crate::cli) fn row(&mut self, cells: [String; N]) {
        let cells = cells.map(|cell| format::printable(&cell));
        self.columns.iter_mut().zip(&cells).for_each(|(column, cell)| column.add(cell));
        self.rows.push(cells);
    }

    /// Formats the table, with a line break at the end of each line and no blanks before it. If it is wide, each row is
    /// one line with everything.
    pub(in crate::cli) fn text(&self, wide: bool) -> String {
        let widths = if wide { self.widths(Limits::NONE) } else { self.fitted() };
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(self.columns.map(|column| column.title));
        for row in &self.rows {
            let cells = self.columns.iter().zip(row).zip(widths);
            table.add_row(cells.map(|((column, cell), width)| column.shorten(cell, width)).collect::<Vec<_>>());
        }
        for (column, width) in table.column_iter_mut().zip(widths) {
            let width = u16::try_from(width).unwrap_or(u16::MAX - GAP);
            let constraint = if width == 0 { Hidden } else { Absolute(Width::Fixed(width + GAP)) };
            column.set_padding((0, GAP)).set_constraint(constraint);
        }
        table.lines().flat_map(|line| [line.trim_end().to_owned(), "\n".to_owned()]).collect()
    }

    /// Returns the widths with which the table fits.
    fn fitted(&self) -> [usize; N] {
        let names = (SHORT_NAME..=WIDTH).rev().map(|names| Limits { names, ..Limits::NONE });
        let text = (1..=WIDTH).rev().map(|text| Limits { names: SHORT_NAME, text, words: LONG_WORD });
        let words = (1..LONG_WORD).rev().map(|words| Limits { names: SHORT_NAME, text: 1, words });
        let mut widths = names.chain(text).chain(words).map(|limits| self.widths(limits));
        widths.find(|widths| fits(widths)).unwrap_or([1; N])
    }

    /// Returns the width of each column; 0 = it has no value.
    fn widths(&self, limits: Limits) -> [usize; N] {
        self.columns.map(|column| column.width(limits))
    }
}

fn fits(widths: &[usize]) -> bool {
    let shown = widths.iter().filter(|width| **width > 0);
    shown.map(|width| width + usize::from(GAP)).sum::<usize>() <= WIDTH + usize::from(GAP)
}

// === impl Column ===

impl Column {
    fn new(title: &'static str) -> Self {
        let mut column = Self { title, has_value: false, longest_cell: 0, longest_word: 0 };
        column.add(title);
        Self { has_value: false, ..column }
    }

    fn add(&mut self, cell: &str) {
        let length = |text: &str| text.chars().count();
        self.has_value |= !cell.is_empty();
        self.longest_cell = self.longest_cell.max(length(cell));
        self.longest_word = self.longest_word.max(cell.split(' ').map(length).max().unwrap_or_default());
    }

    fn width(&self, limits: Limits) -> usize {
        match self.title {
            _ if !self.has_value => 0,
            NAME => self.longest_cell.min(limits.names),
            _ => self.longest_cell.min(limits.text.max(self.longest_word.min(limits.words))),
        }
    }

    /// Shortens a name, or each word of another cell.
    fn shorten(&self, cell: &str, width: usize) -> String {
        match self.title {
            NAME => format::middle(cell, width),
            _ => cell.split(' ').map(|word| format::middle(word, width)).collect::<Vec<_>>().join(" "),
        }
    }
}

// === impl Limits ===

impl Limits {
    const NONE: Self = Self { names: usize::MAX, text: usize::MAX, words: usize::MAX };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with a row of these cells.
    fn grid<const N: usize>(titles: [&'static str; N], cells: [&str; N]) -> Grid<N> {
        let mut grid = Grid::new(&titles);
        grid.row(cells.map(str::to_owned));
        grid
    }

    #[test]
    fn a_column_without_a_value_is_left_out() {
        let mut grid = grid(["KIND", "NAME", "SIZE", "WHY"], ["image", "", "", "unused"]);
        assert_eq!(grid.text(false), "KIND   WHY\nimage  unused\n");
        assert_eq!(grid.text(false), grid.text(true));
        grid.row(["image", "", "0", "unused"].map(str::to_owned));
        assert_eq!(grid.text(false), "KIND   SIZE  WHY\nimage        unused\nimage  0     unused\n");
    }

    #[test]
    fn a_name_is_shortened_before_text_wraps() {
        let name = "registry.example.com/".repeat(6);
        let text = grid(["NAME", "WHY"], [&name, "disk usage 91% >= 85%"]).text(false);
        let row = text.lines().nth(1).unwrap();
        assert_eq!(row.chars().count(), WIDTH, "{text}");
        assert!(row.contains('…') && row.ends_with("  disk usage 91% >= 85%"), "{text}");
    }

    #[test]
    fn text_wraps_between_words_and_long_words_are_shortened() {
        let (name, digest) = ("n".repeat(30), "0123456789abcdef".repeat(12));
        let why = format!("over containers.max_per_pod_container (1); {} {digest}", "cannot remove it ".repeat(6));
        let text = grid(["NAME", "WHY"], [&name, &why]).text(false);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.starts_with("NAME                WHY\nnnnnnnnnn…nnnnnnnn  over "), "{text}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let (shown, expected) = (words(&text), words(&why));
        assert_eq!(shown[3..shown.len() - 1], expected[..expected.len() - 1]);
        let last = shown.last().unwrap();
        assert!(last.starts_with("0123") && last.contains('…') && last.ends_with("cdef"), "{text}");
    }

    #[test]
    fn even_many_long_columns_fit() {
        let text = grid(["NAME", "A", "B", "C", "D", "E"], [&"word".repeat(40); 6].map(String::as_str)).text(false);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn a_wide_row_is_one_line_with_everything() {
        let (name, why) = ("n".repeat(200), "why ".repeat(100));
        let text = grid(["NAME", "WHY"], [&name, why.trim()]).text(true);
        assert_eq!(text.lines().nth(1), Some(format!("{name}  {}", why.trim()).as_str()));
    }
}
