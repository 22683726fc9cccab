//! Tables in the style of kubectl: no borders, column names in capitals, no column without a value.
//!
//! On a terminal a table is never wider than the terminal. What is shortened, and in which order, follows from the roles of its
//! columns: the one that answers the question is cut last. Elsewhere, and with `--no-trunc`, nothing is shortened: a program may
//! read it. Only a cell that is longer than any name of Kubernetes and any path is cut: the API server stores names of a MiB (G5).

use super::format;
use super::output::Screen;
use crate::model::cut_text;

/// The longest cell in characters, beside the mark of its end.
const LONGEST_CELL: usize = 4096;

/// The number of blanks between two columns.
const GAP: usize = 2;

/// What a column says about its row, and so how it is shortened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::cli) enum Role {
    /// What the row is about. It is cut last, and keeps the part in which it differs from other names.
    Name,
    /// Another object, such as the one that holds it.
    Holder,
    /// A reason or an error: it has at most two lines.
    Reason,
    /// A text of which the beginning is enough: it has one line.
    Brief,
    /// An id: its beginning is enough for `why`, and it is left out where there is no room.
    Id,
    /// A time: it loses the year and the seconds.
    Time,
    /// A number or a word. It is short.
    Value,
    /// As `Value`, but it is left out where there is no room.
    Detail,
}

/// On a terminal, columns of a role are shortened to a width, in this order, until the table fits. Those of width 0 are left out,
/// the last one first.
const ON_TERMINAL: [(Role, usize); 21] = [
    (Role::Id, 13),
    (Role::Name, 40),
    (Role::Holder, 40),
    (Role::Id, 7),
    (Role::Id, 0),
    (Role::Reason, 30),
    (Role::Brief, 30),
    (Role::Time, 11),
    (Role::Detail, 0),
    (Role::Reason, 22),
    (Role::Holder, 20),
    (Role::Brief, 10),
    (Role::Reason, 15),
    (Role::Holder, 12),
    (Role::Name, 30),
    (Role::Reason, 12),
    (Role::Holder, 8),
    (Role::Name, 18),
    (Role::Reason, 0),
    (Role::Value, 4),
    (Role::Name, 4),
];

/// A column of a table.
#[derive(Clone, Copy)]
pub(in crate::cli) struct Column {
    pub title: &'static str,
    pub role: Role,
    /// Whether only a wide table has it.
    pub wide: bool,
}

#[derive(Clone, Copy)]
pub(in crate::cli) struct Table<const N: usize>(pub [Column; N]);

/// A table with its rows.
struct Grid<'t> {
    columns: &'t [Column],
    rows: Vec<Vec<String>>,
}

// === impl Column ===

impl Column {
    /// A column that is neither shortened nor left out.
    pub const VALUE: Self = Self { title: "", role: Role::Value, wide: false };
}

// === impl Table ===

impl<const N: usize> Table<N> {
    /// Formats rows for the screen, with a line break at the end of each line and no blanks before it.
    pub(in crate::cli) fn text(&self, rows: impl IntoIterator<Item = [String; N]>) -> String {
        self.text_on(Screen::current(), rows)
    }

    fn text_on(&self, screen: Screen, rows: impl IntoIterator<Item = [String; N]>) -> String {
        Grid::new(&self.0, rows.into_iter().map(Vec::from)).on(screen)
    }
}

// === impl Grid ===

impl<'t> Grid<'t> {
    fn new(columns: &'t [Column], rows: impl Iterator<Item = Vec<String>>) -> Self {
        let rows = rows.map(|cells| cells.into_iter().map(cell_text).collect());
        Self { columns, rows: rows.collect() }
    }

    fn on(&self, screen: Screen) -> String {
        let widths = self.fitted(&self.whole(screen), screen.width.unwrap_or(usize::MAX));
        let header = (!screen.no_headers).then(|| {
            let titles = self.columns.iter().zip(&widths);
            lines(titles.map(|(column, width)| (vec![format::end(column.title, *width)], *width)))
        });
        let rows = self.rows.iter().map(|row| {
            let cells = self.columns.iter().zip(row).zip(&widths);
            lines(cells.map(|((column, cell), width)| (column.role.lines(cell, *width), *width)))
        });
        header.into_iter().chain(rows).collect()
    }

    /// Returns the width of each column that shows all of it; 0 = no row has a value there, and it is left out.
    fn whole(&self, screen: Screen) -> Vec<usize> {
        let mut widths = vec![0; self.columns.len()];
        for row in &self.rows {
            let cells = widths.iter_mut().zip(row).zip(self.columns).filter(|(_, column)| screen.wide || !column.wide);
            cells.for_each(|((width, cell), _)| *width = cell.chars().count().max(*width));
        }
        let shown = widths.iter_mut().zip(self.columns).filter(|(width, _)| **width > 0 && !screen.no_headers);
        shown.for_each(|(width, column)| *width = column.title.len().max(*width));
        widths
    }

    /// Returns widths by which the table is not wider than `limit`, if it can be.
    fn fitted(&self, whole: &[usize], limit: usize) -> Vec<usize> {
        let mut widths = whole.to_vec();
        for (role, least) in ON_TERMINAL {
            self.shrink(&mut widths, role, least, limit);
        }
        for role in [Role::Name, Role::Holder, Role::Reason] {
            self.grow(&mut widths, whole, role, limit);
        }
        widths
    }

    /// Shortens the columns of a role, the widest first, until the table fits or each of them has the least width.
    fn shrink(&self, widths: &mut [usize], role: Role, least: usize, limit: usize) {
        while total(widths) > limit {
            let of_role = self.columns.iter().zip(widths.iter_mut()).filter(|(column, _)| column.role == role);
            let mut wide = of_role.map(|(_, width)| width).filter(|width| **width > least);
            match if least == 0 { wide.next_back() } else { wide.max() } {
                Some(width) => *width = if least == 0 { 0 } else { *width - 1 },
                None => return,
            }
        }
    }

    /// Gives the columns of a role what room is left, the narrowest first.
    fn grow(&self, widths: &mut [usize], whole: &[usize], role: Role, limit: usize) {
        while total(widths) < limit {
            let of_role =
                self.columns.iter().zip(widths.iter_mut().zip(whole)).filter(|(column, _)| column.role == role);
            let cut = of_role.map(|(_, widths)| widths).filter(|(width, whole)| **width > 0 && **width < **whole);
            match cut.map(|(width, _)| width).min() {
                Some(width) => *width += 1,
                None => return,
            }
        }
    }
}

/// Formats a row: one line, and a second where a reason is wrapped.
fn lines(cells: impl Iterator<Item = (Vec<String>, usize)>) -> String {
    let cells: Vec<_> = cells.filter(|(_, width)| *width > 0).collect();
    let count = cells.iter().map(|(lines, _)| lines.len()).max().unwrap_or_default();
    let line = |number: usize| {
        let parts = cells.iter().map(|(lines, width)| (lines.get(number).map_or("", String::as_str), *width));
        let parts: Vec<_> = parts.map(|(part, width)| format!("{part:width$}")).collect();
        format!("{}\n", parts.join(&" ".repeat(GAP)).trim_end())
    };
    (0..count).map(line).collect()
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
    /// Returns the lines of a cell, which is shortened or wrapped if it is longer than `width`.
    fn lines(self, cell: &str, width: usize) -> Vec<String> {
        let is_cut = cell.chars().count() > width;
        match self {
            _ if !is_cut => vec![cell.to_owned()],
            Self::Id => vec![format::id(cell, width)],
            Self::Name | Self::Holder => vec![format::name(cell, width)],
            Self::Reason => format::two_lines(cell, width),
            Self::Time if width >= 11 => vec![cell.get(5..16).unwrap_or(cell).to_owned()],
            Self::Brief | Self::Time | Self::Value | Self::Detail => vec![format::end(cell, width)],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cli::render::tables;
    use crate::cli::verbs::{controller, fleet};

    /// A table with rows of these cells.
    fn grid<const N: usize>(screen: Screen, columns: [(&'static str, Role); N], rows: &[[&str; N]]) -> String {
        let columns = columns.map(|(title, role)| Column { title, role, wide: false });
        Table(columns).text_on(screen, rows.iter().map(|cells| cells.map(str::to_owned)))
    }

    const NOWHERE: Screen = Screen { width: None, no_headers: false, wide: false };

    fn terminal(width: usize) -> Screen {
        Screen { width: Some(width), ..NOWHERE }
    }

    #[test]
    fn a_column_without_a_value_is_left_out() {
        let titles = [("KIND", Role::Value), ("NAME", Role::Name), ("SIZE", Role::Value), ("WHY", Role::Reason)];
        let rows = [["image", "", "", "unused"], ["image", "", "0", "unused"]];
        assert_eq!(grid(NOWHERE, titles, &rows[..1]), "KIND   WHY\nimage  unused\n");
        assert_eq!(grid(NOWHERE, titles, &rows), "KIND   SIZE  WHY\nimage        unused\nimage  0     unused\n");
        let no_headers = Screen { no_headers: true, ..NOWHERE };
        assert_eq!(grid(no_headers, titles, &rows), "image     unused\nimage  0  unused\n");
    }

    #[test]
    fn without_a_terminal_nothing_is_shortened() {
        let (name, error) = ("registry.example.com/".repeat(6), "cannot remove it ".repeat(20));
        let text = grid(NOWHERE, [("NAME", Role::Name), ("WHY", Role::Reason)], &[[&name, error.trim()]]);
        assert_eq!(text.lines().nth(1).unwrap(), format!("{name}  {}", error.trim()));
    }

    /// Any user who may create a Role can choose such a name. `format!` has no width above 65,535.
    #[test]
    fn a_name_of_70_000_characters_is_cut() {
        let name = "n".repeat(70_000);
        for screen in [NOWHERE, terminal(80)] {
            let titles = [("NAME", Role::Name), ("KIND", Role::Value), ("WHY", Role::Reason)];
            let text = grid(screen, titles, &[[&name, &name, &name]]);
            assert!(text.lines().all(|line| line.chars().count() <= 3 * (LONGEST_CELL + 1 + GAP)), "{}", text.len());
            assert!(text.contains('…'));
        }
    }

    /// Returns the cell of a column in a row with this number.
    fn cell(column: &Column, row: usize, namespace: &str) -> String {
        match column.role {
            Role::Name => format!("{namespace}ci-runner-7d9f8c6b5d-{}", ["x2x4z", "q8w7e", "b6n3m"][row]),
            Role::Holder => "istio-proxy-sidecar".to_owned(),
            Role::Reason | Role::Brief => "over containers.max_per_pod_container (1)".repeat(3),
            Role::Id => format!("{row}123456789abcdef").repeat(4),
            Role::Time => "2026-11-21T12:00:00Z".to_owned(),
            Role::Value | Role::Detail => "100.0MiB".to_owned(),
        }
    }

    #[test]
    fn every_table_tells_its_rows_apart_at_60_80_100_and_120_columns() {
        for (table, columns) in [tables::TABLES, controller::TABLES, fleet::TABLES].concat() {
            for width in [60, 80, 100, 120] {
                let has_namespace = columns.iter().any(|column| column.title == "NAMESPACE");
                let namespace = if has_namespace { "" } else { "payments/" };
                let row = |row| columns.iter().map(|column| cell(column, row, namespace)).collect();
                let text = Grid::new(columns, (0..3).map(row)).on(terminal(width));
                let lines: Vec<_> = text.lines().collect();
                assert!(lines.iter().all(|line| line.chars().count() <= width), "{table}, {width}\n{text}");
                let per_row = if columns.iter().any(|column| column.role == Role::Reason) { 2 } else { 1 };
                assert!((4..=1 + 3 * per_row).contains(&lines.len()), "{table}, {width}\n{text}");
                if columns.iter().any(|column| column.role == Role::Name) {
                    let names = text.split_whitespace().filter(|word| word.contains("ci-") && !word.contains('.'));
                    let ends: BTreeSet<_> = names.map(|name| name.rsplit(['-', '…']).next().unwrap()).collect();
                    assert!(ends.len() == 3, "{table}, {width}: {ends:?}\n{text}");
                }
            }
        }
    }

    #[test]
    fn what_answers_the_question_is_cut_last() {
        let (id, name) = ("0123456789abcdef".repeat(4), "shop/checkout-7d9f8c6b5d-x2x4z/istio-proxy".to_owned());
        let why = "over containers.max_per_pod_container (1)";
        let titles = [
            ("KIND", Role::Value),
            ("ID", Role::Id),
            ("NAME", Role::Name),
            ("AGE", Role::Detail),
            ("SIZE", Role::Value),
            ("WHY", Role::Reason),
        ];
        let row = |width| grid(terminal(width), titles, &[["container", &id, &name, "100d", "", why]]);
        let rows = [
            (60, "container  shop/checkou…d-x2x4z/istio-proxy  over".to_owned()),
            (80, "container  shop/checkout-7d…c6b5d-x2x4z/istio-proxy  over".to_owned()),
            (100, format!("container  shop/checkout-7d…c6b5d-x2x4z/istio-proxy  100d  {why}")),
            (120, format!("container  0123456789abcdef  {name}  100d  {why}")),
            (200, format!("container  {id}  {name}  100d  {why}")),
        ];
        for (width, expected) in rows {
            assert_eq!(row(width).lines().nth(1).unwrap(), expected, "{width}");
        }
        assert_eq!(row(80).lines().nth(2).unwrap().trim_start(), "containers.max_per_pod_con…");
    }
}
