//! The screen: the width of the terminal, and which parts of tables are shown.
//!
//! It is the same for a whole command, which prints from one thread. So it is set once, and a table reads it when it is formatted.

use std::cell::Cell;
use std::io;

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
