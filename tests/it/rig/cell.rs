//! A cell of namespaces in which a rig's programs run. It gets its orders over a pipe (`scripts/cell.sh`).
//!
//! The cell ends when the pipe is closed. Its shims, containers and mounts end with it, however the test ends.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::failure;

/// The longest wait for an order. A program that does not stop is killed after 5 s.
const PATIENCE: Duration = Duration::from_mins(2);

/// A cell, with or without running programs.
pub struct Cell {
    child: Child,
    dir: PathBuf,
    line: Mutex<Line>,
}

/// The pipes to the cell and back.
struct Line {
    orders: Option<ChildStdin>,
    done: Receiver<String>,
}

/// An order about a program.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// Starts it. Pods of an earlier start continue to run.
    Start,
    /// Stops it gracefully, as a service manager does.
    Stop,
    /// Kills it with SIGKILL.
    Kill,
    /// Pauses it.
    Pause,
    /// Resumes it.
    Resume,
}

// === impl Cell ===

impl Cell {
    /// Opens a cell in `dir`, whose pods are beneath `cgroup`.
    pub fn open(dir: &Path, cgroup: &str) -> Self {
        failure::print_readably();
        let mut child = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/cell.sh"))
            .arg(dir)
            .arg(cgroup)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, done) = channel();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, dir: dir.to_owned(), line: Mutex::new(Line { orders, done }) }
    }

    /// Defines a program of a cell in `dir`, or replaces its definition.
    pub fn program(dir: &Path, name: &str, shell: &str) {
        let path = dir.join("start").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("#!/bin/sh\n{shell}\n")).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// Gives an order and waits until it is carried out. A program that was started may not answer calls yet.
    pub fn order(&self, order: Order, program: &str) {
        let word = match order {
            Order::Start => "start",
            Order::Stop => "stop",
            Order::Kill => "kill",
            Order::Pause => "pause",
            Order::Resume => "resume",
        };
        let mut line = self.line.lock().unwrap();
        let shown = writeln!(line.orders.as_mut().unwrap(), "{word} {program}");
        assert!(shown.is_ok(), "the cell is closed: are unshare and mount allowed here?");
        match line.done.recv_timeout(PATIENCE) {
            Ok(done) => assert_eq!(done, format!("{word} {program}")),
            Err(error) => panic!("the cell did not {word} {program}: {error}"),
        }
    }

    /// Returns a command that runs a program in the cell. Its arguments are the program and those that the caller adds.
    /// An order must precede it.
    pub fn command(&self, program: &str) -> Command {
        let pid = std::fs::read_to_string(self.dir.join("pid")).unwrap();
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--pid", "--wd=/", "--target", pid.trim(), "--", program]);
        command
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        drop(self.line.get_mut().unwrap_or_else(PoisonError::into_inner).orders.take());
        let since = Instant::now();
        while let Ok(None) = self.child.try_wait() {
            if since.elapsed() > PATIENCE {
                eprintln!("a cell did not end: process {}", self.child.id());
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}
