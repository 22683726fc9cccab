//! Tables in the style of kubectl: no borders, column names in capitals, no column without a value.
//!
//! On a terminal a table is never wider than the terminal: ids are shortened first, then names in the middle, and reasons
//! continue on the next line. Elsewhere, and with `--no-trunc`, nothing is shortened: a program may read it.

use super::Screen;
use crate::cli::format;

/// The number of blanks between two columns.
const GAP: usize = 2;

/// How a column is shortened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Role {
    /// An id: its beginning is enough for `why`.
    Id,
    /// A name with parts: each part is shortened in the middle.
    Name,
    /// A reason or an error: it is wrapped.
    Text,
    /// Anything else. It is short.
    Fixed,
}

/// On a terminal, columns of a role are shortened to a width, in this order, until the table fits.
const ON_TERMINAL: [(Role, usize); 10] = [
    (Role::Id, 13),
    (Role::Name, 40),
    (Role::Id, 7),
    (Role::Name, 30),
    (Role::Id, 0),
    (Role::Text, 22),
    (Role::Name, 16),
    (Role::Text, 12),
    (Role::Name, 4),
    (Role::Fixed, 4),
];

/// A table with `N` columns.
pub(in crate::cli) struct Grid<const N: usize> {
    columns: [Column; N],
    rows: Vec<[String; N]>,
}

/// The title of a column, and the width of its longest cell in characters.
#[derive(Clone, Copy)]
struct Column {
    title: &'static str,
    has_value: bool,
    longest: usize,
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

    /// Formats the table for the process's standard output, with a line break at the end of each line and no blanks
    /// before it.
    pub(in crate::cli) fn text(&self) -> String {
        self.on(Screen::of_process())
    }

    fn on(&self, screen: Screen) -> String {
        let is_too_wide = screen.width.is_some_and(|limit| total(&self.widths(screen, &[(Role::Id, 13)])) > limit);
        if is_too_wide { self.compact().laid_out(screen) } else { self.laid_out(screen) }
    }

    /// Returns the table without the directories of paths.
    fn compact(&self) -> Self {
        let mut compact = Self { columns: self.columns.map(|column| Column::new(column.title)), rows: Vec::new() };
        for row in &self.rows {
            let cells = self.columns.iter().zip(row);
            let cells = cells.map(|(column, cell)| match column.role() {
                Role::Name => format::without_directories(cell),
                _ => cell.clone(),
            });
            compact.row(cells.collect::<Vec<_>>().try_into().unwrap_or_else(|_| row.clone()));
        }
        compact
    }

    fn laid_out(&self, screen: Screen) -> String {
        let widths = self.widths(screen, &ON_TERMINAL);
        let header = (!screen.no_headers).then(|| self.row_text(self.columns.map(|column| column.title), &widths));
        let rows = self.rows.iter().map(|row| self.row_text(row.each_ref().map(String::as_str), &widths));
        header.into_iter().chain(rows).collect()
    }

    /// Returns the width of each column; 0 = it is left out.
    fn widths(&self, screen: Screen, steps: &[(Role, usize)]) -> [usize; N] {
        let header = if screen.no_headers { 0 } else { usize::MAX };
        let mut widths = self.columns.map(|column| column.width(header));
        if let Some(limit) = screen.width {
            for (role, least) in steps {
                self.shrink(&mut widths, *role, *least, limit);
            }
        }
        widths
    }

    /// Shortens the columns of a role, the widest first, until the table fits or each of them has the least width.
    fn shrink(&self, widths: &mut [usize; N], role: Role, least: usize, limit: usize) {
        while total(widths) > limit {
            let of_role = self.columns.iter().zip(widths.iter_mut()).filter(|(column, _)| column.role() == role);
            let widest = of_role.map(|(_, width)| width).filter(|width| **width > least).max();
            match widest {
                Some(width) => *width -= 1,
                None => return,
            }
        }
    }

    /// Formats a row: one line, and more where a text is wrapped.
    fn row_text(&self, cells: [&str; N], widths: &[usize; N]) -> String {
        let cells = self.columns.iter().zip(cells).zip(widths).filter(|(_, width)| **width > 0);
        let cells: Vec<_> = cells.map(|((column, cell), width)| (column.lines(cell, *width), *width)).collect();
        let count = cells.iter().map(|(lines, _)| lines.len()).max().unwrap_or_default();
        let line = |number: usize| {
            let parts = cells.iter().map(|(lines, width)| (lines.get(number).map_or("", String::as_str), *width));
            let parts: Vec<_> = parts.map(|(part, width)| format!("{part:width$}")).collect();
            format!("{}\n", parts.join(&" ".repeat(GAP)).trim_end())
        };
        (0..count).map(line).collect()
    }
}

/// Returns the width of a line with these columns.
fn total(widths: &[usize]) -> usize {
    let shown = widths.iter().filter(|width| **width > 0);
    shown.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
}

// === impl Column ===

impl Column {
    fn new(title: &'static str) -> Self {
        Self { title, has_value: false, longest: 0 }
    }

    fn add(&mut self, cell: &str) {
        self.has_value |= !cell.is_empty();
        self.longest = self.longest.max(cell.chars().count());
    }

    /// Returns the width with which nothing is shortened. `header` limits the width of the title.
    fn width(&self, header: usize) -> usize {
        if self.has_value { self.longest.max(self.title.len().min(header)) } else { 0 }
    }

    fn role(&self) -> Role {
        match self.title {
            "ID" => Role::Id,
            "NAME" | "POD" | "IMAGE" | "USED BY" => Role::Name,
            "WHY" | "ERROR" | "DETAIL" | "TRIGGER" | "DECISION" => Role::Text,
            _ => Role::Fixed,
        }
    }

    /// Returns the lines of a cell, which is shortened or wrapped if it is longer than `width`.
    fn lines(&self, cell: &str, width: usize) -> Vec<String> {
        let is_cut = cell.chars().count() > width;
        match self.role() {
            _ if !is_cut => vec![cell.to_owned()],
            Role::Id => vec![cell.rsplit(':').next().unwrap_or(cell).chars().take(width).collect()],
            Role::Name => vec![format::name(cell, width)],
            Role::Text => textwrap::wrap(cell, width).into_iter().map(Into::into).collect(),
            Role::Fixed => vec![format::end(cell, width)],
        }
    }
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

    fn terminal(width: usize) -> Screen {
        Screen { width: Some(width), no_headers: false }
    }

    #[test]
    fn a_column_without_a_value_is_left_out() {
        let mut grid = grid(["KIND", "NAME", "SIZE", "WHY"], ["image", "", "", "unused"]);
        assert_eq!(grid.text(), "KIND   WHY\nimage  unused\n");
        grid.row(["image", "", "0", "unused"].map(str::to_owned));
        assert_eq!(grid.text(), "KIND   SIZE  WHY\nimage        unused\nimage  0     unused\n");
        assert_eq!(grid.on(Screen { width: None, no_headers: true }), "image     unused\nimage  0  unused\n");
    }

    #[test]
    fn without_a_terminal_nothing_is_shortened() {
        let (name, error) = ("registry.example.com/".repeat(6), "cannot remove it ".repeat(20));
        let text = grid(["NAME", "WHY"], [&name, error.trim()]).text();
        assert_eq!(text.lines().nth(1).unwrap(), format!("{name}  {}", error.trim()));
    }

    #[test]
    fn on_a_terminal_a_row_fits_and_its_reason_is_whole() {
        let (id, name) = ("0123456789abcdef".repeat(4), "shop/checkout-7d9f8c6b5d-x2x4z/istio-proxy".to_owned());
        let why = "over containers.max_per_pod_container (1)";
        let cells = ["container", &id, &name, "100d", "", why];
        let table = grid(["KIND", "ID", "NAME", "AGE", "SIZE", "WHY"], cells);
        for width in [40, 60, 80, 100, 120, 200] {
            let text = table.on(terminal(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}\n{text}");
            let words: String = text.lines().skip(1).filter_map(|line| line.split("  ").last()).collect();
            assert!(words.replace(' ', "").ends_with(&why.replace(' ', "")), "{width}\n{text}");
        }
        let row = |width| table.on(terminal(width)).lines().nth(1).unwrap().to_owned();
        assert_eq!(
            row(100),
            "container  0123456  shop/checkou…-x2x4z/istio-proxy  100d  over containers.max_per_pod_container (1)"
        );
        assert_eq!(row(200), format!("container  {id}  {name}  100d  {why}"));
    }
}
