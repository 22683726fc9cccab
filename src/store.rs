//! What the store of the runtime holds and who holds it: the index, and the account of the disk. Pure: a snapshot in, data out.
//!
//! It is below `plan`, which estimates with the index what a removal reclaims. What decides about an image comes to the account as
//! data. The readers are above: containerd's API in `cri/containerd`, the files of CRI-O in `observe/store`.

#![forbid(clippy::disallowed_methods, clippy::disallowed_types)]

mod account;
mod category;
mod entries;
mod index;

pub use account::{CategoryEntry, DiskAccount, DiskAccountKind, ImageStates, account};
pub use category::Category;
pub use entries::{ImageEntry, LeftEntry, SharedEntry, WritableEntry};
pub use index::StoreIndex;
