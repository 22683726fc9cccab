//! One containerd in a cell of namespaces, told what to do over a pipe (`scripts/containerd-cell.sh`).
//!
//! The pipe's end is the cell's end: shims, containers and their mounts go with it, however the test ends.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The longest wait for the cell to obey; containerd ends within a second.
const PATIENCE: Duration = Duration::from_secs(30);

/// A cell, with or without a containerd that runs in it.
pub struct Cell {
    child: Child,
    orders: Option<ChildStdin>,
    done: Receiver<String>,
}

/// What a cell can be told.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// Starts containerd. Pods of an earlier start live on.
    Start,
    /// Ends it kindly, as a service manager does.
    Stop,
    /// Ends it with SIGKILL.
    Kill,
}

// === impl Cell ===

impl Cell {
    /// Opens a cell for the programs in `bin` and the configuration in `dir`, whose pods are beneath `cgroup`.
    pub fn open(bin: &Path, dir: &Path, cgroup: &str) -> Self {
        let mut child = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/containerd-cell.sh"))
            .args([bin, dir])
            .arg(cgroup)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, done) = channel();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, orders, done }
    }

    /// Gives an order and waits until it is carried out. A containerd that was started does not answer calls yet.
    pub fn order(&mut self, order: Order) {
        let word = match order {
            Order::Start => "start",
            Order::Stop => "stop",
            Order::Kill => "kill",
        };
        let told = writeln!(self.orders.as_mut().unwrap(), "{word}");
        assert!(told.is_ok(), "the cell is closed: are unshare and mount allowed here?");
        match self.done.recv_timeout(PATIENCE) {
            Ok(done) => assert_eq!(done, word),
            Err(error) => panic!("the cell did not {word}: {error}"),
        }
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        drop(self.orders.take());
        let since = Instant::now();
        while let Ok(None) = self.child.try_wait() {
            if since.elapsed() > PATIENCE {
                eprintln!("a cell of containerd did not end: process {}", self.child.id());
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}
