//! Tables in the style of kubectl: no borders, column names in capitals, no column without a value.
//!
//! On a terminal a table is never wider than the terminal: ids are shortened first, then names in the middle, and reasons
//! continue on the next line. Elsewhere, and with `--no-trunc`, nothing is shortened: a program may read it. Only a cell that is
//! longer than any name of Kubernetes and any path is cut: the API server stores names of a MiB (G5).

use super::format;
use super::screen::Screen;
use crate::model::cut_text;

/// The longest cell in characters, beside the mark of its end.
const LONGEST_CELL: usize = 4096;

/// The number of blanks between two columns.
const GAP: usize = 2;

/// How a column is shortened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Role {
    /// An id: its beginning is enough for `why`.
    Id,
    /// A name with parts: of an image its registry is left out, and other parts are shortened in the middle.
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
struct Grid<const N: usize> {
    titles: [&'static str; N],
    rows: Vec<[String; N]>,
}

/// Formats a table for the process's standard output, with a line break at the end of each line and no blanks before it.
pub(in crate::cli) fn table<const N: usize>(
    titles: [&'static str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    Grid::new(titles, rows).on(Screen::of_process())
}

// === impl Grid ===

impl<const N: usize> Grid<N> {
    fn new(titles: [&'static str; N], rows: impl IntoIterator<Item = [String; N]>) -> Self {
        let rows = rows.into_iter().map(|cells| cells.map(cell_text));
        Self { titles, rows: rows.collect() }
    }

    fn on(mut self, screen: Screen) -> String {
        if screen.width.is_some_and(|limit| total(&self.widths(screen, &[(Role::Id, 13)])) > limit) {
            self.leave_out_directories();
        }
        let widths = self.widths(screen, &ON_TERMINAL);
        let header = (!screen.no_headers).then(|| self.row_text(self.titles, &widths));
        let rows = self.rows.iter().map(|row| self.row_text(row.each_ref().map(String::as_str), &widths));
        header.into_iter().chain(rows).collect()
    }

    /// Shortens paths before anything else is shortened.
    fn leave_out_directories(&mut self) {
        let roles = self.titles.map(Role::of);
        let cells = self.rows.iter_mut().flat_map(|row| row.iter_mut().zip(roles));
        let names = cells.filter(|(_, role)| *role == Role::Name).map(|(cell, _)| cell);
        names.for_each(|name| *name = format::without_directories(name));
    }

    /// Returns the width of each column; 0 = no row has a value there, and it is left out.
    fn widths(&self, screen: Screen, steps: &[(Role, usize)]) -> [usize; N] {
        let mut widths = [0; N];
        for row in &self.rows {
            let cells = widths.iter_mut().zip(row);
            cells.for_each(|(width, cell)| *width = cell.chars().count().max(*width));
        }
        let shown = widths.iter_mut().zip(self.titles).filter(|(width, _)| **width > 0 && !screen.no_headers);
        shown.for_each(|(width, title)| *width = title.len().max(*width));
        for (role, least) in steps {
            self.shrink(&mut widths, *role, *least, screen.width.unwrap_or(usize::MAX));
        }
        widths
    }

    /// Shortens the columns of a role, the widest first, until the table fits or each of them has the least width.
    fn shrink(&self, widths: &mut [usize; N], role: Role, least: usize, limit: usize) {
        while total(widths) > limit {
            let of_role = self.titles.iter().zip(widths.iter_mut()).filter(|(title, _)| Role::of(title) == role);
            let widest = of_role.map(|(_, width)| width).filter(|width| **width > least).max();
            match widest {
                Some(width) => *width -= 1,
                None => return,
            }
        }
    }

    /// Formats a row: one line, and more where a text is wrapped.
    fn row_text(&self, cells: [&str; N], widths: &[usize; N]) -> String {
        let cells = self.titles.iter().zip(cells).zip(widths).filter(|(_, width)| **width > 0);
        let cells: Vec<_> = cells.map(|((title, cell), width)| (Role::of(title).lines(cell, *width), *width)).collect();
        let count = cells.iter().map(|(lines, _)| lines.len()).max().unwrap_or_default();
        let line = |number: usize| {
            let parts = cells.iter().map(|(lines, width)| (lines.get(number).map_or("", String::as_str), *width));
            let parts: Vec<_> = parts.map(|(part, width)| format!("{part:width$}")).collect();
            format!("{}\n", parts.join(&" ".repeat(GAP)).trim_end())
        };
        (0..count).map(line).collect()
    }
}

/// Returns a cell as it is shown at most.
#[expect(clippy::needless_pass_by_value, reason = "it replaces its argument")]
fn cell_text(cell: String) -> String {
    cut_text(&format::printable(&cell), LONGEST_CELL).into_owned()
}

/// Returns the width of a line with these columns.
fn total(widths: &[usize]) -> usize {
    let shown = widths.iter().filter(|width| **width > 0);
    shown.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
}

// === impl Role ===

impl Role {
    fn of(title: &str) -> Self {
        match title {
            "ID" => Self::Id,
            "NAME"
            | "POD"
            | "IMAGE"
            | "USED BY"
            | "HELD TOGETHER BY"
            | "WRITABLE LAYER OF"
            | "NOT LISTED BY THE CRI"
            | "HELD BY" => Self::Name,
            "WHY" | "STATE" | "ERROR" | "DETAIL" | "TRIGGER" | "DECISION" => Self::Text,
            _ => Self::Fixed,
        }
    }

    /// Returns the lines of a cell, which is shortened or wrapped if it is longer than `width`.
    fn lines(self, cell: &str, width: usize) -> Vec<String> {
        let is_cut = cell.chars().count() > width;
        match self {
            _ if !is_cut => vec![cell.to_owned()],
            Self::Id => vec![format::id(cell, width)],
            Self::Name => vec![format::name(cell, width)],
            Self::Text => textwrap::wrap(cell, width).into_iter().map(Into::into).collect(),
            Self::Fixed => vec![format::end(cell, width)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with rows of these cells.
    fn grid<const N: usize>(titles: [&'static str; N], rows: &[[&str; N]]) -> Grid<N> {
        Grid::new(titles, rows.iter().map(|cells| cells.map(str::to_owned)))
    }

    const NOWHERE: Screen = Screen { width: None, no_headers: false };

    fn terminal(width: usize) -> Screen {
        Screen { width: Some(width), no_headers: false }
    }

    #[test]
    fn a_column_without_a_value_is_left_out() {
        let titles = ["KIND", "NAME", "SIZE", "WHY"];
        let rows = [["image", "", "", "unused"], ["image", "", "0", "unused"]];
        assert_eq!(grid(titles, &rows[..1]).on(NOWHERE), "KIND   WHY\nimage  unused\n");
        assert_eq!(grid(titles, &rows).on(NOWHERE), "KIND   SIZE  WHY\nimage        unused\nimage  0     unused\n");
        let no_headers = Screen { no_headers: true, ..NOWHERE };
        assert_eq!(grid(titles, &rows).on(no_headers), "image     unused\nimage  0  unused\n");
    }

    #[test]
    fn without_a_terminal_nothing_is_shortened() {
        let (name, error) = ("registry.example.com/".repeat(6), "cannot remove it ".repeat(20));
        let text = grid(["NAME", "WHY"], &[[&name, error.trim()]]).on(NOWHERE);
        assert_eq!(text.lines().nth(1).unwrap(), format!("{name}  {}", error.trim()));
    }

    /// Any user who may create a Role can choose such a name. `format!` has no width above 65,535.
    #[test]
    fn a_name_of_70_000_characters_is_cut() {
        let name = "n".repeat(70_000);
        for screen in [NOWHERE, terminal(80)] {
            let text = grid(["NAME", "KIND", "WHY"], &[[&name, &name, &name]]).on(screen);
            assert!(text.lines().all(|line| line.chars().count() <= 3 * (LONGEST_CELL + 1 + GAP)), "{}", text.len());
            assert!(text.contains('…'));
        }
    }

    #[test]
    fn terminal_rows_fit_and_show_the_whole_reason() {
        let (id, name) = ("0123456789abcdef".repeat(4), "shop/checkout-7d9f8c6b5d-x2x4z/istio-proxy".to_owned());
        let why = "over containers.max_per_pod_container (1)";
        let cells = ["container", &id, &name, "100d", "", why];
        let table = || grid(["KIND", "ID", "NAME", "AGE", "SIZE", "WHY"], &[cells]);
        for width in [40, 60, 80, 100, 120, 200] {
            let text = table().on(terminal(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}\n{text}");
            let words: String = text.lines().skip(1).filter_map(|line| line.split("  ").last()).collect();
            assert!(words.replace(' ', "").ends_with(&why.replace(' ', "")), "{width}\n{text}");
        }
        let row = |width| table().on(terminal(width)).lines().nth(1).unwrap().to_owned();
        assert_eq!(
            row(100),
            "container  0123456  shop/checkou…-x2x4z/istio-proxy  100d  over containers.max_per_pod_container (1)"
        );
        assert_eq!(row(200), format!("container  {id}  {name}  100d  {why}"));
    }
}
