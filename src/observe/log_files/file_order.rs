//! The order of the log files of a container by their lines, and each file once.
//!
//! The name of a rotated file has the local time of its node, which is set back once a year. And of a file that was rotated and compressed
//! between two looks the archive has both forms under different names. The first line of a file says where it belongs and which file it is.

use std::collections::HashMap;
use std::io::{BufReader, Read as _};

use flate2::bufread::MultiGzDecoder;
use jiff::Timestamp;

use super::log_lines::time_of_line;
use super::pod_logs::LogFile;
use super::sparse::Sparse;
use crate::model::LogFileName;

/// The bytes in which the first line of a file is looked for. Files of an instance that begin with the same bytes are one, if
/// one is compressed or they have the same length.
const HEAD: u64 = 4 << 10;

/// Returns files that are in the order of their names in that of their lines. The current file is the last of its instance.
pub(super) fn in_order(files: &[LogFile]) -> Vec<LogFile> {
    files.chunk_by(|one, next| one.name.attempt == next.name.attempt).flat_map(of_instance).collect()
}

fn of_instance(files: &[LogFile]) -> Vec<LogFile> {
    if files.len() < 2 {
        return files.to_vec();
    }
    let (mut ordered, mut last) = (Vec::new(), None);
    for file in files {
        let (time, head) = head(file);
        // One without a line stays behind the one before it.
        last = time.or(last);
        ordered.push((last, head, file));
    }
    ordered.sort_by_key(|(time, _, file)| (file.name.is_current, *time));
    let (mut known, mut once) = (HashMap::new(), Vec::<LogFile>::new());
    for (_, head, file) in ordered {
        let at = if head.is_empty() { once.len() } else { *known.entry(head).or_insert(once.len()) };
        match once.get_mut(at) {
            Some(other) if other.name.is_compressed && !file.name.is_compressed => *other = file.clone(),
            Some(other) if !other.name.is_compressed && file.name.is_compressed => {}
            // A copy, such as an export beside the archive.
            Some(other) if other.name.is_compressed == file.name.is_compressed && other.bytes == file.bytes => {}
            _ => once.push(file.clone()),
        }
    }
    once
}

/// Returns the time of the first line of a file, and its first bytes; nothing if it has no line in the format.
fn head(file: &LogFile) -> (Option<Timestamp>, Vec<u8>) {
    let mut head = Vec::new();
    if let Ok((opened, name)) = file.open() {
        // Of a damaged file what can be read counts.
        let _ = if LogFileName::parse(&name).is_some_and(|name| name.is_compressed) {
            MultiGzDecoder::new(BufReader::new(opened)).take(HEAD).read_to_end(&mut head)
        } else {
            Sparse::new(opened, 0, u64::MAX).take(HEAD).read_to_end(&mut head)
        };
    }
    let time = head.split(|byte| *byte == b'\n').find_map(time_of_line);
    (time, if time.is_some() { head } else { Vec::new() })
}
