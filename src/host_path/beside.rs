//! Files that are replaced in one step: the text is written beside the file, which then gets its name.

use std::io::{self, Write as _};
use std::path::Path;

use tempfile::NamedTempFile;

/// Writes a text into a temporary file in the directory of `path`. The caller sets what else it needs, and then replaces `path` with
/// [`NamedTempFile::persist`]. A reader sees the old text or the new one.
///
/// # Errors
/// The directory does not exist, or cannot be written.
pub fn written_beside(path: &Path, text: &str) -> io::Result<NamedTempFile> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The collector of node_exporter reads files that end in .prom, and this one does not.
    let mut file = tempfile::Builder::new().prefix(".kubegc-").suffix(".tmp").tempfile_in(dir)?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}
