//! The terminal: its width, and whether tables have a header.
//!
//! Both hold for the whole process. So they are set once, and a table reads them when it is formatted.

use std::io;
use std::sync::OnceLock;

/// The columns that a wide table needs for a column of pods.
const ROOM: usize = 140;

/// How tables are laid out.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(in crate::cli) struct Screen {
    /// The columns of the terminal; `None` = standard output is no terminal, or nothing is to be shortened.
    pub(in crate::cli) width: Option<usize>,
    /// Whether tables have no header (`--no-headers`).
    pub(in crate::cli) no_headers: bool,
}

static SCREEN: OnceLock<Screen> = OnceLock::new();

// === impl Screen ===

impl Screen {
    /// Sets the screen of the process. Only the first call has an effect. `columns` replaces the width of the terminal.
    pub(in crate::cli) fn set(no_headers: bool, no_trunc: bool, columns: Option<usize>) {
        let terminal = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
        let width = terminal.filter(|_| !no_trunc).map(|width| columns.unwrap_or(width));
        let _ = SCREEN.set(Self { width: width.filter(|width| *width > 0), no_headers });
    }

    /// Returns whether a wide table has room for a column of pods.
    pub(in crate::cli) fn has_room(self) -> bool {
        self.width.is_none_or(|width| width >= ROOM)
    }

    /// Returns the screen of the process.
    pub(in crate::cli) fn of_process() -> Self {
        SCREEN.get().copied().unwrap_or_default()
    }
}
