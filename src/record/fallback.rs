//! The store in memory while its file cannot be used, and the return to the file.
//!
//! When an operation on the file fails (a full disk, an I/O error, a lock that another program holds, damage, a
//! read-only file system), the store continues in memory. It uses a copy of the file, or begins empty if the file
//! cannot be read. The first operation that fails moves the store. The operations after it do not try the file again,
//! so a pass waits at most once. The next run tries to return to the file.

use std::path::Path;

use rusqlite::Connection;

use super::error::{StoreError, StoreNote, is_damage};
use super::file::{self, CopyMode, Identity, Trouble};
use super::memory::note_baseline_loss;
use super::merge;
use super::runs::Runs;
use super::store::{COPY, Place, REOPEN, State, Store};

/// Why a store is in memory, and which of its data the file does not have.
#[derive(Debug)]
pub(super) struct Fallback {
    cause: Cause,
    /// `None` = it began empty, because the file could not be read.
    since: Option<Since>,
    /// Whether the next run does not try the file again. A fault between two runs counts for the pass that begins the
    /// next run. While a call is blocked in the file system, no run tries the file.
    waits: bool,
}

/// The last ids that the file had when it was copied.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Since {
    /// The lowest id of a run that may have changed since the copy.
    pub(super) run: i64,
    /// The highest id of a removal in the file.
    pub(super) removal: i64,
}

/// Why the file cannot be used.
#[derive(Clone, Debug)]
pub(super) struct Cause {
    text: String,
    is_full: bool,
    is_damage: bool,
}

// === impl Cause ===

impl Cause {
    pub(super) fn of(path: &Path, error: &rusqlite::Error) -> Self {
        Self { text: error.to_string(), is_full: file::is_full(path, error), is_damage: is_damage(error) }
    }

    fn of_trouble(path: &Path, trouble: Trouble) -> Self {
        let (text, is_full) = match trouble {
            Trouble::Full(detail) => (detail, true),
            trouble => (trouble.into_error(path).to_string(), false),
        };
        Self { text, is_full, is_damage: false }
    }
}

// === impl Fallback ===

impl Fallback {
    /// Creates a store in memory for a file that cannot be opened.
    ///
    /// # Errors
    /// The file belongs to a newer version or to another program, so kubegc must not replace it.
    pub(super) fn open(
        path: &Path,
        trouble: Trouble,
        notes: &mut Vec<StoreNote>,
    ) -> Result<(Connection, Self), StoreError> {
        let cause = match trouble {
            Trouble::Error(error) if error.is_foreign() => return Err(error),
            trouble => Cause::of_trouble(path, trouble),
        };
        let was_there = path.symlink_metadata().is_ok();
        let mode = if cause.is_full { CopyMode::Exclusive } else { CopyMode::Shared };
        let copy = match file::copy(path, mode) {
            Ok(copy) => copy,
            Err(Trouble::Error(error)) if error.is_foreign() => return Err(error),
            Err(Trouble::Damaged(detail)) => {
                if let Ok(to) = file::set_aside(path) {
                    notes.push(StoreNote::SetAside { path: path.to_owned(), to, detail });
                }
                None
            }
            Err(_) => None,
        };
        let opened = match copy {
            Some(copy) => Since::of(&copy, &[]).map(|since| (copy, Some(since))),
            None if was_there => empty().map(|empty| (empty, None)),
            None => file::in_memory().map(|empty| (empty, None)),
        };
        let (connection, since) = opened.map_err(|cause| StoreError::Open { path: path.to_owned(), cause })?;
        Ok((connection, Self { cause, since, waits: false }))
    }

    pub(super) fn note(&self, path: &Path) -> StoreNote {
        StoreNote::InMemory { path: path.to_owned(), cause: self.cause.text.clone(), is_empty: self.since.is_none() }
    }
}

// === impl Since ===

impl Since {
    fn of(copy: &Connection, underway: &[i64]) -> rusqlite::Result<Self> {
        let highest = |sql| copy.query_row(sql, [], |row| row.get::<_, i64>(0));
        let next = highest("SELECT coalesce(max(id), 0) FROM runs")? + 1;
        let removal = highest("SELECT coalesce(max(id), 0) FROM removals")?;
        Ok(Self { run: underway.iter().copied().min().unwrap_or(next).min(next), removal })
    }
}

// === impl State ===

impl State {
    /// Moves the store to memory, with all data of the file that can be read.
    pub(super) fn fall_back(&mut self, path: &Path, cause: Cause) -> rusqlite::Result<()> {
        let underway: Vec<_> = self.runs.underway.iter().map(|run| run.id).collect();
        let copied = self.faults.strike(COPY).ok().and_then(|()| file::checked_copy(path, &self.connection));
        let copied = copied.and_then(|copy| Since::of(&copy, &underway).ok().map(|since| (copy, since)));
        if cause.is_damage {
            // SQLite would write its log into the damaged file and delete the log. Both are evidence.
            let _ = file::keep_log(&self.connection, true);
        }
        let (copy, since) = copied.unzip();
        self.place = Place::Fallback(Fallback { cause, since, waits: self.runs.underway.is_empty() });
        match copy {
            Some(copy) => self.connection = copy,
            None => self.begin_empty()?,
        }
        Ok(())
    }

    /// Creates an empty store in memory that has the runs under way. It never assigns the id of an earlier run again.
    pub(super) fn begin_empty(&mut self) -> rusqlite::Result<()> {
        self.connection = empty()?;
        if let Place::Fallback(fallback) = &mut self.place {
            fallback.since = None;
        }
        self.connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('runs', ?1)", [self.runs.last])?;
        self.runs.underway.iter().try_for_each(|run| run.insert(&self.connection))
    }
}

/// Returns an empty store in memory, which takes the place of a file that may have had a baseline of the lists.
fn empty() -> rusqlite::Result<Connection> {
    let connection = file::in_memory()?;
    note_baseline_loss(&connection)?;
    Ok(connection)
}

// === impl Store ===

impl Store {
    /// Creates an empty store in memory, which takes the place of a store whose file does not respond.
    ///
    /// # Errors
    /// None in practice: SQLite is out of memory.
    pub(super) fn blocked(path: &Path, text: String, runs: Runs) -> Result<Self, StoreError> {
        let failed = |cause| StoreError::Open { path: path.to_owned(), cause };
        let cause = Cause { text, is_full: false, is_damage: false };
        let place = Place::Fallback(Fallback { cause, since: None, waits: false });
        let mut store = Self::new(path, file::in_memory().map_err(failed)?, place);
        let state = store.state.get_mut();
        state.runs = runs;
        state.begin_empty().map_err(failed)?;
        state.note_fallback(path);
        Ok(store)
    }

    /// Returns whether the store is in memory because its file cannot be used.
    pub(super) fn is_in_memory(&mut self) -> bool {
        matches!(self.state.get_mut().place, Place::Fallback(_))
    }

    /// Calls `work` on a store in memory. A run that it begins does not try the file again.
    pub(super) fn without_file<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        self.set_waits(true);
        let done = work(self);
        self.set_waits(false);
        done
    }

    /// Detects a file that was removed, replaced or overwritten since it was opened. SQLite does not detect this: it
    /// continues to write to an unlinked file, or to use its cache.
    pub(super) fn verify_file(&mut self) {
        let state = self.state.get_mut();
        let Place::Disk(identity) = &state.place else { return };
        let Some((text, is_damage)) = identity.difference(&self.path) else { return };
        let cause = Cause { text: text.to_owned(), is_full: false, is_damage };
        if state.fall_back(&self.path, cause).is_ok() {
            state.note_fallback(&self.path);
            self.next_may_return();
        }
    }

    /// Lets the next run try the file again. A run has begun, so an earlier fault belongs to its pass.
    pub(super) fn next_may_return(&mut self) {
        self.set_waits(false);
    }

    fn set_waits(&mut self, waits: bool) {
        if let Place::Fallback(fallback) = &mut self.state.get_mut().place {
            fallback.waits = waits;
        }
    }

    /// Returns to the file if it can be used again. Otherwise the store remains in memory.
    pub(super) fn return_to_disk(&mut self) {
        if !matches!(self.state.get_mut().place, Place::Fallback(Fallback { waits: false, .. })) {
            return;
        }
        match self.reopen() {
            Ok(()) => {
                let note = StoreNote::BackOnDisk { path: self.path.clone() };
                self.state.get_mut().note(note);
            }
            Err(cause) => self.stay(cause),
        }
    }

    /// Returns to the file after a run if the cause was a full disk: the run may have freed the space.
    pub(super) fn return_if_full(&mut self) {
        if matches!(&self.state.get_mut().place, Place::Fallback(Fallback { cause: Cause { is_full: true, .. }, .. })) {
            self.return_to_disk();
        }
    }

    /// Opens the file and adds what was learned in memory.
    fn reopen(&mut self) -> Result<(), Cause> {
        let struck = self.state.get_mut().faults.strike(REOPEN);
        struck.map_err(|error| Cause::of(&self.path, &error))?;
        match self.merge_into_file() {
            // A file that opens but whose rows cannot be read is damaged too.
            Err(cause) if cause.is_damage => {
                self.set_aside(cause)?;
                self.merge_into_file()
            }
            done => done,
        }
    }

    fn merge_into_file(&mut self) -> Result<(), Cause> {
        let mut file = self.open_file()?;
        let since = self.since();
        let merged = merge::into_file(self, &mut file, since);
        let (state, found) = (self.state.get_mut(), file.state.get_mut());
        state.faults = std::mem::take(&mut found.faults);
        if let Place::Fallback(Fallback { cause, .. }) = &found.place {
            return Err(cause.clone());
        }
        merged.map_err(|error| Cause { text: error.to_string(), is_full: false, is_damage: false })?;
        std::mem::swap(&mut state.connection, &mut found.connection);
        state.place = Place::Disk(Identity::of(&self.path));
        Ok(())
    }

    /// Opens the file as a separate store with the same injected faults.
    fn open_file(&mut self) -> Result<Self, Cause> {
        let state = self.state.get_mut();
        let mut notes = Vec::new();
        let opened = file::open_or_begin(&self.path, &mut notes);
        for note in notes {
            state.note(note);
        }
        let connection = opened.map_err(|trouble| Cause::of_trouble(&self.path, trouble))?;
        let mut file = Self::new(&self.path, connection, Place::Disk(Identity::of(&self.path)));
        file.state.get_mut().faults = std::mem::take(&mut state.faults);
        Ok(file)
    }

    /// Returns the last ids that the file had when it was copied; `None` = the store in memory began empty.
    fn since(&mut self) -> Option<Since> {
        match &self.state.get_mut().place {
            Place::Fallback(fallback) => fallback.since,
            _ => None,
        }
    }

    fn set_aside(&mut self, cause: Cause) -> Result<(), Cause> {
        let path = self.path.clone();
        let to = file::set_aside(&path).map_err(|error| Cause { text: error.to_string(), ..cause.clone() })?;
        self.state.get_mut().note(StoreNote::SetAside { path, to, detail: cause.text });
        Ok(())
    }

    /// Remains in memory, and reports the cause if it differs from the previous one.
    fn stay(&mut self, cause: Cause) {
        let state = self.state.get_mut();
        let Place::Fallback(fallback) = &mut state.place else { return };
        if fallback.cause.text != cause.text {
            fallback.cause = cause;
            state.note_fallback(&self.path);
        }
    }
}
