//! The lines of log files in the format of the CRI: `TIME STREAM TAG CONTENT` (kubelet 1.36, `pkg/kubelet/kuberuntime/logs/logs.go`).
//!
//! A runtime writes a line of more than 16 KiB in parts, with the tag `P` on each but the last. The parts of a stream are joined, also
//! over a rotation and if parts of the other stream stand between them. Lines that are not in the format are left out, as in the kubelet.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::PathBuf;

use flate2::bufread::MultiGzDecoder;
use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::log_tree::in_order;
use super::pod_logs::{Limited, LogFile};
use super::sparse::Sparse;
use crate::model::LogFileName;

/// The bytes from which the rest of a line is a line of its own: 64 parts of the usual size. A file without an end of a line would fill
/// the memory.
const MOST_LINE: usize = 1 << 20;
/// How much is read at once.
const READ_BYTES: usize = 64 << 10;
/// The bytes before the end of the files in which the last lines are looked for first, and the most in which a whole first line of each
/// stream is looked for: a line may begin long before lines of the other stream.
const FIRST_WINDOW: u64 = if cfg!(test) { 256 } else { 64 << 10 };
const MOST_WINDOW: u64 = 16 << 20;

/// A line of a container.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct LogLine {
    /// When its first part was written.
    pub time: Timestamp,
    pub stream: LogStream,
    /// The attempt of the instance that wrote it.
    pub attempt: u32,
    /// What the container wrote, without the end of the line. It may be anything; a document has no bytes that are not UTF-8.
    #[serde(serialize_with = "as_text")]
    pub message: Vec<u8>,
}

/// Where a container wrote a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogStream {
    Stdout,
    Stderr,
}

/// Which lines are read.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogQuery {
    /// Only lines of this time or later. As in the kubelet, of the last lines those.
    pub since: Option<Timestamp>,
    /// Only the last so many lines.
    pub tail: Option<usize>,
    /// Whether the files are read further than they went when they were listed.
    pub follows: bool,
}

/// The lines of log files, in their order. It reads while it is iterated, and its memory does not grow with the files.
pub struct LogLines {
    ahead: VecDeque<LogFile>,
    /// Where the next file is read from, in bytes.
    offset: u64,
    query: LogQuery,
    /// The file that is read.
    file: Option<(PathBuf, Box<dyn BufRead>)>,
    /// The last file of all.
    last: Option<LogFile>,
    joiner: Joiner,
    /// The paths of files that could not be read, or not to their ends, and why.
    pub faults: Vec<String>,
}

/// Joins the parts of lines.
#[derive(Default)]
struct Joiner {
    attempt: u32,
    /// What is read of a line of the file.
    raw: Vec<u8>,
    /// Whether the rest of a line of the file follows, and its head; `None` = it is not in the format.
    goes_on: bool,
    head: Option<Head>,
    /// Of each stream the line that has not ended.
    open: [Option<LogLine>; 2],
    omitted: usize,
}

/// What stands before the content of a line of a file.
#[derive(Clone, Copy)]
struct Head {
    time: Timestamp,
    stream: LogStream,
    is_partial: bool,
}

// === impl LogLines ===

impl LogLines {
    /// Reads files of a container, which are in the order of their names. No more of them is read than is needed for the last lines, and none that was last
    /// written before the time.
    pub fn new(files: &[LogFile], query: LogQuery) -> Self {
        let files = in_order(files);
        let is_old = |file: &&LogFile| file.modified_at.is_some_and(|at| query.since.is_some_and(|since| at < since));
        // The last file may be written to while it is followed.
        let skippable = files.len().saturating_sub(usize::from(query.follows));
        let old = files.iter().take(skippable).take_while(is_old).count();
        let recent = files.get(old..).unwrap_or_default();
        let (rest, offset, skipped) = query.tail.map_or((recent, 0, 0), |count| last_lines(recent, count));
        let mut lines = Self::starting_at(rest, offset, LogQuery { since: None, ..query });
        lines.by_ref().take(skipped).for_each(drop);
        lines.joiner.omitted = 0;
        Self { query, last: files.last().cloned(), ..lines }
    }

    fn starting_at(files: &[LogFile], offset: u64, query: LogQuery) -> Self {
        let (file, last, joiner, faults) = Default::default();
        Self { ahead: files.to_vec().into(), offset, query, file, last, joiner, faults }
    }

    /// Adds those of all files of the container that are newer than its own. To be called when the lines have ended.
    pub fn add_newer(&mut self, mut files: Vec<LogFile>) {
        // While a new file is empty, the runtime may still write to the one before it.
        files.pop_if(|file| file.bytes == 0);
        if let Some(last) = &self.last {
            let at = files.iter().position(|file| file.inode == last.inode);
            files.drain(..at.map_or(0, |at| at + 1));
            if at.is_none() {
                // It was compressed after a second rotation, or removed. The kubelet leaves the newest rotated file as it is.
                let is_newer =
                    |file: &LogFile| file.name.attempt >= last.name.attempt && file.modified_at >= last.modified_at;
                files.retain(|file| is_newer(file) && !file.name.is_compressed);
                let fault = || format!("{}: it was rotated again before its lines were read", last.path().display());
                self.faults.extend((!files.is_empty()).then(fault));
            }
        }
        self.last = files.last().cloned().or(self.last.take());
        self.ahead.extend(files);
    }

    /// Returns how many lines were left out so far because they are not in the format.
    pub fn omitted(&self) -> usize {
        self.joiner.omitted
    }

    /// Returns the next line of any time.
    fn line(&mut self) -> Option<LogLine> {
        loop {
            if let Some((path, file)) = &mut self.file {
                match self.joiner.next(file) {
                    Ok(Some(line)) => return Some(line),
                    Ok(None) if self.query.follows && self.ahead.is_empty() => return None,
                    Ok(None) => {}
                    Err(error) => self.faults.push(format!("{}: {error}", path.display())),
                }
                self.file = None;
                if let Ok(Some(line)) = self.joiner.next(&mut &b"\n"[..]) {
                    return Some(line);
                }
            }
            let is_other = |next: &LogFile| next.name.attempt != self.joiner.attempt;
            if self.ahead.front().is_none_or(is_other)
                && let Some(line) = self.joiner.unfinished()
            {
                return Some(line);
            }
            let next = self.ahead.pop_front()?;
            match self.open(&next) {
                Ok(file) => self.file = Some((next.path(), file)),
                Err(error) => self.faults.push(format!("{}: {error}", next.path().display())),
            }
        }
    }

    fn open(&mut self, file: &LogFile) -> io::Result<Box<dyn BufRead>> {
        let (opened, name) = file.open()?;
        let is_compressed = LogFileName::parse(&name).is_some_and(|name| name.is_compressed);
        self.joiner.attempt = file.name.attempt;
        // The byte before shows whether a line begins there.
        let skipped = std::mem::take(&mut self.offset).checked_sub(1);
        let mut reader: Box<dyn BufRead> = if is_compressed {
            let mut content = Limited::new(MultiGzDecoder::new(BufReader::new(opened)));
            io::copy(&mut content.by_ref().take(skipped.unwrap_or_default()), &mut io::sink())?;
            Box::new(BufReader::with_capacity(READ_BYTES, content))
        } else {
            let end = if self.query.follows { u64::MAX } else { file.bytes };
            Box::new(BufReader::with_capacity(READ_BYTES, Sparse::new(opened, skipped.unwrap_or_default(), end)))
        };
        if skipped.is_some() {
            reader.skip_until(b'\n')?;
        }
        Ok(reader)
    }
}

impl Iterator for LogLines {
    type Item = LogLine;

    /// Returns the next line. After `None` there may be more lines if it follows the files.
    fn next(&mut self) -> Option<LogLine> {
        let since = self.query.since;
        std::iter::from_fn(|| self.line()).find(|line| since.is_none_or(|since| line.time >= since))
    }
}

/// Returns from where on the files are read for their last so many lines: the files, the offset in the first of them, and the number of lines
/// to skip.
fn last_lines(files: &[LogFile], count: usize) -> (&[LogFile], u64, usize) {
    let mut window = FIRST_WINDOW;
    loop {
        let (rest, offset) = last_bytes(files, window);
        let (mut found, mut firsts) = (0_usize, [None; 2]);
        for line in LogLines::starting_at(rest, offset, LogQuery::default()) {
            firsts.get_mut(line.stream as usize).map(|first| first.get_or_insert(found));
            found += 1;
        }
        let skipped = found.saturating_sub(count);
        // The first line of each stream may lack its beginning.
        let is_whole = window >= MOST_WINDOW || firsts.into_iter().flatten().all(|first| first < skipped);
        if (rest.len(), offset) == (files.len(), 0) || (found > count && is_whole) {
            return (rest, offset, skipped);
        }
        window = window.saturating_mul(4);
    }
}

/// Returns the files with the last so many bytes, and the offset of these in the first of them. A compressed file is read from its start.
fn last_bytes(files: &[LogFile], mut window: u64) -> (&[LogFile], u64) {
    for (at, file) in files.iter().enumerate().rev() {
        match file.bytes.checked_sub(window) {
            Some(offset) => {
                let offset = if file.name.is_compressed { 0 } else { offset };
                return (files.get(at..).unwrap_or_default(), offset);
            }
            None => window -= file.bytes,
        }
    }
    (files, 0)
}

/// Returns the time of a line of a file, if it is in the format.
pub(super) fn time_of_line(raw: &[u8]) -> Option<Timestamp> {
    Head::read(raw).map(|(head, _)| head.time)
}

fn as_text<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}

// === impl Joiner ===

impl Joiner {
    /// Reads to the end of the next line. `None` = the input ended before.
    fn next(&mut self, input: &mut dyn BufRead) -> io::Result<Option<LogLine>> {
        loop {
            let room = MOST_LINE.saturating_sub(self.raw.len()) as u64;
            (&mut *input).take(room).read_until(b'\n', &mut self.raw)?;
            let is_ended = self.raw.last() == Some(&b'\n');
            if !is_ended && self.raw.len() < MOST_LINE {
                return Ok(None);
            }
            let mut raw = std::mem::take(&mut self.raw);
            let line = self.add(raw.strip_suffix(b"\n").unwrap_or(&raw), is_ended);
            raw.clear();
            self.raw = raw;
            if line.is_some() {
                return Ok(line);
            }
        }
    }

    /// Adds a line of a file, or a part of a very long one. Returns the line of the container that ends with it.
    fn add(&mut self, raw: &[u8], is_ended: bool) -> Option<LogLine> {
        let mut content = raw;
        if !std::mem::replace(&mut self.goes_on, !is_ended) {
            let read = Head::read(raw);
            self.omitted += usize::from(read.is_none() && !raw.is_empty());
            self.head = read.map(|(head, _)| head);
            content = read.map_or(raw, |(_, content)| content);
        }
        let Head { time, stream, is_partial } = self.head?;
        let open = self.open.get_mut(stream as usize)?;
        let line = open.get_or_insert_with(|| LogLine { time, stream, attempt: self.attempt, message: Vec::new() });
        line.message.extend_from_slice(content);
        let goes_on = (is_partial || !is_ended) && line.message.len() < MOST_LINE;
        if goes_on { None } else { open.take() }
    }

    /// Returns a line whose last part is missing.
    fn unfinished(&mut self) -> Option<LogLine> {
        self.open.iter_mut().find_map(Option::take)
    }
}

// === impl Head ===

impl Head {
    /// Reads what stands before the content of a line of a file. `None` = it is not in the format.
    fn read(raw: &[u8]) -> Option<(Self, &[u8])> {
        let mut parts = raw.splitn(4, |byte| *byte == b' ');
        let time = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
        let stream = match parts.next()? {
            b"stdout" => LogStream::Stdout,
            b"stderr" => LogStream::Stderr,
            _ => return None,
        };
        let is_partial = parts.next()?.split(|byte| *byte == b':').next() == Some(b"P");
        Some((Self { time, stream, is_partial }, parts.next()?))
    }
}

#[cfg(test)]
mod tests;
