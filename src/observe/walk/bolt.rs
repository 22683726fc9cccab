//! Reads a bolt database (go.etcd.io/bbolt 1.4, `internal/common`) without its lock, which the program that has it open holds.
//!
//! A transaction writes new pages and then one of the two meta pages. A page that the last transaction has in use is not written
//! before the transaction after the next. So what was read is one state of the database if the meta page is the same afterward; else
//! it is an error. No number in the file is trusted: pages are bounded by its size, and levels by [`LEVELS`].

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
/// The bytes of the head of a page.
const HEAD: usize = 16;
/// The bytes of an element of a page: of a branch and of a leaf.
const ELEMENT: usize = 16;
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
/// The flag of an element that is a bucket.
const BUCKET: u32 = 1;
/// The most pages above one another.
const LEVELS: u32 = 20;
/// The largest page, in bytes: many more snapshots than a node has.
const MOST_BYTES: usize = 16 << 20;

/// A database in one state.
pub(super) struct Bolt {
    file: File,
    page_size: usize,
    /// The number of the last transaction.
    transaction: u64,
    root: u64,
}

/// A bucket.
pub(super) enum Bucket {
    /// Its root page.
    At(u64),
    /// One that is small has its page in its element.
    Inline(Vec<u8>),
}

/// An element of a bucket.
pub(super) struct Entry {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    pub is_bucket: bool,
}

// === impl Bolt ===

impl Bolt {
    /// Opens a database in its last state.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let mut head = [0; HEAD + 64];
        file.read_exact_at(&mut head, 0)?;
        let page_size = number(&head, HEAD + 8, 4)?;
        let page_size = usize::try_from(page_size).ok().filter(|size| (512..=1 << 16).contains(size));
        let page_size = page_size.ok_or_else(damaged)?;
        let metas = [0, page_size].map(|at| meta(&file, at));
        let newest = metas.into_iter().flatten().max_by_key(|(_, transaction)| *transaction);
        let (root, transaction) = newest.ok_or_else(damaged)?;
        Ok(Self { file, page_size, transaction, root })
    }

    /// Returns a bucket by its path from the root; `None` = there is none.
    ///
    /// # Errors
    /// A page cannot be read, or is damaged.
    pub fn bucket(&self, path: &[&str]) -> io::Result<Option<Bucket>> {
        let mut bucket = Bucket::At(self.root);
        for name in path {
            let entries = self.entries(&bucket)?;
            let Some(found) = entries.into_iter().find(|entry| entry.is_bucket && entry.key == name.as_bytes()) else {
                return Ok(None);
            };
            bucket = found.bucket()?;
        }
        Ok(Some(bucket))
    }

    /// Returns the entries of a bucket.
    ///
    /// # Errors
    /// As [`Self::bucket`].
    pub fn entries(&self, bucket: &Bucket) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        match bucket {
            Bucket::At(page) => self.read(*page, LEVELS, &mut entries)?,
            Bucket::Inline(page) => leaf(page, &mut entries)?,
        }
        Ok(entries)
    }

    /// Checks that no transaction has ended since.
    ///
    /// # Errors
    /// One has: what was read may be of several states.
    pub fn check_unchanged(&self) -> io::Result<()> {
        let metas = [0, self.page_size].map(|at| meta(&self.file, at));
        match metas.into_iter().flatten().map(|(_, transaction)| transaction).max() {
            Some(last) if last == self.transaction => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::WouldBlock, "it changed while it was read")),
        }
    }

    fn read(&self, page: u64, levels: u32, entries: &mut Vec<Entry>) -> io::Result<()> {
        let page = self.page(page)?;
        match u16::try_from(number(&page, 8, 2)?).map_err(|_| damaged())? {
            LEAF => leaf(&page, entries),
            BRANCH if levels > 0 => {
                for position in elements(&page)? {
                    self.read(number(&page, position + 8, 8)?, levels - 1, entries)?;
                }
                Ok(())
            }
            _ => Err(damaged()),
        }
    }

    /// Reads a page with those that belong to it.
    fn page(&self, page: u64) -> io::Result<Vec<u8>> {
        let size = u64::try_from(self.page_size).map_err(|_| damaged())?;
        let at = page.checked_mul(size).ok_or_else(damaged)?;
        let mut head = [0; HEAD];
        self.file.read_exact_at(&mut head, at)?;
        let pages = usize::try_from(number(&head, 12, 4)?).map_err(|_| damaged())?.checked_add(1);
        let bytes = pages.and_then(|pages| pages.checked_mul(self.page_size)).filter(|bytes| *bytes <= MOST_BYTES);
        let mut whole = vec![0; bytes.ok_or_else(damaged)?];
        self.file.read_exact_at(&mut whole, at)?;
        Ok(whole)
    }
}

// === impl Entry ===

impl Entry {
    /// Returns the bucket that it is.
    ///
    /// # Errors
    /// Its value is none.
    pub fn bucket(self) -> io::Result<Bucket> {
        match number(&self.value, 0, 8)? {
            0 => Ok(Bucket::Inline(self.value.get(HEAD..).ok_or_else(damaged)?.to_vec())),
            page => Ok(Bucket::At(page)),
        }
    }
}

/// Returns the root page and the transaction of a meta page; `None` = it is damaged, as after a crash while it was written.
fn meta(file: &File, at: usize) -> Option<(u64, u64)> {
    let mut page = [0; HEAD + 64];
    file.read_exact_at(&mut page, u64::try_from(at).ok()?).ok()?;
    let body = page.get(HEAD..)?;
    let is_meta = number(body, 0, 4).ok()? == u64::from(MAGIC) && number(body, 4, 4).ok()? == u64::from(VERSION);
    let is_whole = number(body, 56, 8).ok()? == fnv(body.get(..56)?);
    (is_meta && is_whole).then_some((number(body, 16, 8).ok()?, number(body, 48, 8).ok()?))
}

/// The checksum of a meta page: FNV-1a of 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Reads the entries of a leaf page.
fn leaf(page: &[u8], entries: &mut Vec<Entry>) -> io::Result<()> {
    for position in elements(page)? {
        let field = |at: usize| usize::try_from(number(page, position + at, 4)?).map_err(|_| damaged());
        let (key_size, value_size) = (field(8)?, field(12)?);
        let start = position.checked_add(field(4)?).ok_or_else(damaged)?;
        let middle = start.checked_add(key_size).ok_or_else(damaged)?;
        let end = middle.checked_add(value_size).ok_or_else(damaged)?;
        let key = page.get(start..middle).ok_or_else(damaged)?.to_vec();
        let value = page.get(middle..end).ok_or_else(damaged)?.to_vec();
        entries.push(Entry { key, value, is_bucket: number(page, position, 4)? & u64::from(BUCKET) != 0 });
    }
    Ok(())
}

/// Returns the positions of the elements of a page.
fn elements(page: &[u8]) -> io::Result<impl Iterator<Item = usize> + use<>> {
    let count = usize::try_from(number(page, 10, 2)?).map_err(|_| damaged())?;
    Ok((0..count).map(|element| HEAD + element * ELEMENT))
}

/// Reads a number of at most 8 bytes, the lowest first, as on all machines that run Kubernetes.
fn number(bytes: &[u8], at: usize, size: usize) -> io::Result<u64> {
    let found = at.checked_add(size).and_then(|end| bytes.get(at..end)).ok_or_else(damaged)?;
    Ok(found.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is no database of bolt, or damaged")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGE: usize = 512;

    fn head(flags: u16, count: u16) -> Vec<u8> {
        [&0u64.to_le_bytes()[..], &flags.to_le_bytes(), &count.to_le_bytes(), &0u32.to_le_bytes()].concat()
    }

    fn meta_page(transaction: u64, root: u64) -> Vec<u8> {
        let numbers = [MAGIC, VERSION, u32::try_from(PAGE).unwrap(), 0].map(u32::to_le_bytes).concat();
        let body = [&numbers[..], &[root, 0, 9, 9, transaction].map(u64::to_le_bytes).concat()].concat();
        padded([head(4, 0), body.clone(), fnv(&body).to_le_bytes().to_vec()].concat())
    }

    fn padded(mut page: Vec<u8>) -> Vec<u8> {
        page.resize(PAGE, 0);
        page
    }

    fn leaf_page(entries: &[(&str, Vec<u8>, u32)]) -> Vec<u8> {
        let mut page = head(LEAF, u16::try_from(entries.len()).unwrap());
        let mut data = Vec::new();
        for (index, (key, value, flags)) in entries.iter().enumerate() {
            let position = (entries.len() - index) * ELEMENT + data.len();
            let sizes = [position, key.len(), value.len()].map(|size| u32::try_from(size).unwrap().to_le_bytes());
            page.extend([&flags.to_le_bytes()[..], &sizes.concat()].concat());
            data.extend([key.as_bytes(), value].concat());
        }
        [page, data].concat()
    }

    fn inline(entries: &[(&str, Vec<u8>, u32)]) -> Vec<u8> {
        [vec![0; HEAD], leaf_page(entries)].concat()
    }

    /// A database whose root is a branch with two leaves: the first has a bucket in its element, the second one on a page.
    fn database() -> Vec<u8> {
        let first = leaf_page(&[("v1", inline(&[("inner", inline(&[("id", vec![0xac, 2], 0)]), BUCKET)]), BUCKET)]);
        let second = leaf_page(&[("z", [5u64, 0].map(u64::to_le_bytes).concat(), BUCKET), ("value", vec![7], 0)]);
        let element = |page: u64| [&[0; 8][..], &page.to_le_bytes()].concat();
        let branch = [head(BRANCH, 2), element(3), element(4)].concat();
        let pages = [meta_page(8, 99), meta_page(9, 2), branch, first, second, leaf_page(&[("k", vec![1], 0)])];
        pages.into_iter().flat_map(padded).collect()
    }

    fn written(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    fn keys(bolt: &Bolt, path: &[&str]) -> Option<Vec<String>> {
        let bucket = bolt.bucket(path).unwrap()?;
        let entries = bolt.entries(&bucket).unwrap();
        Some(entries.into_iter().map(|entry| String::from_utf8(entry.key).unwrap()).collect())
    }

    #[test]
    fn buckets_on_pages_and_in_elements_are_read_in_the_last_state() {
        let file = written(&database());
        let bolt = Bolt::open(file.path()).unwrap();
        assert_eq!(keys(&bolt, &[]).unwrap(), ["v1", "z", "value"]);
        assert_eq!(keys(&bolt, &["v1", "inner"]).unwrap(), ["id"]);
        assert_eq!(keys(&bolt, &["z"]).unwrap(), ["k"]);
        assert_eq!((keys(&bolt, &["value"]), keys(&bolt, &["none"])), (None, None));
        bolt.check_unchanged().unwrap();
    }

    #[test]
    fn a_transaction_meanwhile_is_an_error() {
        let file = written(&database());
        let bolt = Bolt::open(file.path()).unwrap();
        let next = [meta_page(10, 2), database()[PAGE..].to_vec()].concat();
        std::fs::write(file.path(), next).unwrap();
        assert_eq!(bolt.check_unchanged().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    /// A crash while a meta page was written.
    #[test]
    fn the_other_meta_page_counts_if_one_is_damaged() {
        let mut bytes = database();
        bytes[PAGE + HEAD + 50] ^= 1;
        assert_eq!(Bolt::open(written(&bytes).path()).unwrap().transaction, 8);
        bytes[HEAD + 50] ^= 1;
        assert!(Bolt::open(written(&bytes).path()).is_err());
    }

    proptest! {
        /// Whatever the file has, it is an error or entries, in bounded time.
        #[test]
        fn no_damage_ends_the_program(changes in proptest::collection::vec((2 * PAGE..6 * PAGE, any::<u8>()), 1..20)) {
            let mut bytes = database();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            let file = written(&bytes);
            let bolt = Bolt::open(file.path()).unwrap();
            let _ = bolt.bucket(&["v1", "inner"]).map(|bucket| bucket.map(|bucket| bolt.entries(&bucket)));
        }
    }
}
