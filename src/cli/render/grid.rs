//! Tables in the style of kubectl: no borders, column names in capitals, no column without a value, one line for each
//! row.
//!
//! On a terminal a table is never wider than the terminal: ids are shortened first, then names in the middle, then
//! reasons at their end. Elsewhere a table that is not wide shortens names only, down to [`WIDTH`] columns if that is
//! enough, and a wide table has everything.

use super::Screen;
use crate::cli::format;

/// The width to which names are shortened if standard output is no terminal.
const WIDTH: usize = 120;
/// The number of blanks between two columns.
const GAP: usize = 2;

/// How a column is shortened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Role {
    /// An id: its beginning is enough for `why`.
    Id,
    /// A name with parts: each part is shortened in the middle.
    Name,
    /// A reason or an error: its end is left out.
    Text,
    /// Anything else. It is short.
    Fixed,
}

/// On a terminal, columns of a role are shortened to a width, in this order, until the table fits.
const ON_TERMINAL: [(Role, usize); 10] = [
    (Role::Id, 13),
    (Role::Name, 40),
    (Role::Id, 7),
    (Role::Name, 28),
    (Role::Text, 20),
    (Role::Id, 0),
    (Role::Name, 16),
    (Role::Text, 12),
    (Role::Fixed, 4),
    (Role::Name, 4),
];
/// The same without a terminal. Text is whole: it may be the only record of an error.
const ELSEWHERE: [(Role, usize); 1] = [(Role::Name, 18)];

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
    pub(in crate::cli) fn text(&self, wide: bool) -> String {
        self.on(Screen::of_process(), wide)
    }

    fn on(&self, screen: Screen, wide: bool) -> String {
        let limit = screen.width.or((!wide).then_some(WIDTH));
        let is_too_wide = limit.is_some_and(|limit| total(&self.widths(screen, wide, &[(Role::Id, 13)])) > limit);
        if is_too_wide { self.compact().laid_out(screen, wide) } else { self.laid_out(screen, wide) }
    }

    /// Returns the table without the registries of images and the directories of paths.
    fn compact(&self) -> Self {
        let mut compact = Self { columns: self.columns.map(|column| Column::new(column.title)), rows: Vec::new() };
        for row in &self.rows {
            let cells = self.columns.iter().zip(row);
            let cells = cells.map(|(column, cell)| match column.role() {
                Role::Name => format::without_registry(cell),
                _ => cell.clone(),
            });
            compact.row(cells.collect::<Vec<_>>().try_into().unwrap_or_else(|_| row.clone()));
        }
        compact
    }

    fn laid_out(&self, screen: Screen, wide: bool) -> String {
        let steps: &[_] = if screen.width.is_some() { &ON_TERMINAL } else { &ELSEWHERE };
        let widths = self.widths(screen, wide, steps);
        let header = (!screen.no_headers).then(|| self.line(self.columns.map(|column| column.title), &widths));
        let rows = self.rows.iter().map(|row| self.line(row.each_ref().map(String::as_str), &widths));
        header.into_iter().chain(rows).collect()
    }

    /// Returns the width of each column; 0 = it is left out.
    fn widths(&self, screen: Screen, wide: bool, steps: &[(Role, usize)]) -> [usize; N] {
        let header = if screen.no_headers { 0 } else { usize::MAX };
        let mut widths = self.columns.map(|column| column.width(header));
        let limit = match screen.width {
            Some(width) => width,
            None if wide => return widths,
            None => WIDTH,
        };
        for (role, least) in steps {
            self.shrink(&mut widths, *role, *least, limit);
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

    fn line(&self, cells: [&str; N], widths: &[usize; N]) -> String {
        let cells = self.columns.iter().zip(cells).zip(widths).filter(|(_, width)| **width > 0);
        let cells = cells.map(|((column, cell), width)| format!("{:width$}", column.shorten(cell, *width)));
        let line = cells.collect::<Vec<_>>().join(&" ".repeat(GAP));
        format!("{}\n", line.trim_end())
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

    fn shorten(&self, cell: &str, width: usize) -> String {
        let is_cut = cell.chars().count() > width;
        match self.role() {
            _ if !is_cut => cell.to_owned(),
            Role::Id => cell.rsplit(':').next().unwrap_or(cell).chars().take(width).collect(),
            Role::Name => format::name(cell, width),
            Role::Text | Role::Fixed => format::end(cell, width),
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
        assert_eq!(grid.text(false), "KIND   WHY\nimage  unused\n");
        assert_eq!(grid.text(false), grid.text(true));
        grid.row(["image", "", "0", "unused"].map(str::to_owned));
        assert_eq!(grid.text(false), "KIND   SIZE  WHY\nimage        unused\nimage  0     unused\n");
        assert_eq!(grid.on(Screen { width: None, no_headers: true }, false), "image     unused\nimage  0  unused\n");
    }

    #[test]
    fn without_a_terminal_names_are_shortened_and_text_is_whole() {
        let (name, error) = ("registry.example.com/".repeat(6), "cannot remove it ".repeat(20));
        let text = grid(["NAME", "WHY"], [&name, "disk usage 91% >= 85%"]).text(false);
        let row = text.lines().nth(1).unwrap();
        assert_eq!(row.chars().count(), WIDTH, "{text}");
        assert!(row.contains('…') && row.ends_with("  disk usage 91% >= 85%"), "{text}");
        let text = grid(["NAME", "WHY"], [&name, error.trim()]).text(false);
        assert!(text.lines().count() == 2 && text.contains(error.trim()), "{text}");
    }

    #[test]
    fn on_a_terminal_a_row_is_one_line_that_fits() {
        let (id, name) = ("0123456789abcdef".repeat(4), "shop/checkout-7d9f8c6b5d-x2x4z/istio-proxy".to_owned());
        let why = "over containers.max_per_pod_container (1)";
        let cells = ["container", &id, &name, "100d", "", why];
        let table = grid(["KIND", "ID", "NAME", "AGE", "SIZE", "WHY"], cells);
        for width in [40, 60, 80, 100, 120, 200] {
            for wide in [false, true] {
                let text = table.on(terminal(width), wide);
                assert!(text.lines().count() == 2, "{text}");
                assert!(text.lines().all(|line| line.chars().count() <= width), "{width}\n{text}");
            }
        }
        let row = |width| table.on(terminal(width), false).lines().nth(1).unwrap().to_owned();
        assert_eq!(
            row(100),
            "container  0123456  shop/checkou…-x2x4z/istio-proxy  100d  over containers.max_per_pod_container (1)"
        );
        assert_eq!(row(200), format!("container  {id}  {name}  100d  {why}"));
    }
}
