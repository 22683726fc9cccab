//! `kubegc logs --export`.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::{failed, partial};
use crate::cli::cli_error::CliError;
use crate::cli::render::format;
use crate::cli::render::output::Output;
use crate::model::ArchivedPod;
use crate::observe::{LogFile, LoggedContainer, MOST_COPIED_BYTES, PodLogs};

/// Copies the files to `DIR/POD/CONTAINER`, as below a log root. Each name is one entry of a directory that is listed, so it has no `/` and
/// is not `..`. Only the user can read what is created.
pub(super) fn export(
    pod: &PodLogs,
    containers: &[LoggedContainer],
    dir: &Path,
    output: &mut Output,
) -> Result<(), CliError> {
    let of_pod = dir.join(&pod.dir);
    let of_containers: Vec<_> = containers.iter().map(|container| of_pod.join(&container.name)).collect();
    for dir in [dir, &of_pod].into_iter().chain(of_containers.iter().map(PathBuf::as_path)) {
        let created = DirBuilder::new().mode(0o700).create(dir);
        created.map_err(|error| partial(format!("cannot create {:?}: {error}", dir.display().to_string())))?;
    }
    let (mut copied, mut faults, mut room) = (0, Vec::new(), MOST_COPIED_BYTES);
    for (container, of_container) in containers.iter().zip(&of_containers) {
        for file in &container.files {
            match copy(file, of_container, &mut room) {
                Ok(()) => copied += 1,
                Err(error) => faults.push(format!("{}: {error}", file.path().display())),
            }
        }
    }
    if let Some(document) = pod.document() {
        let written = serde_json::to_vec_pretty(&document).map_err(std::io::Error::from);
        let written = written.and_then(|text| std::fs::write(of_pod.join(ArchivedPod::FILE), text));
        faults.extend(written.err().map(|error| format!("{}: {error}", ArchivedPod::FILE)));
    }
    let (count, of_pod) = (format::count(copied, "file"), of_pod.display().to_string());
    output.page(&format!("{count} copied to {}\n", format::printable(&of_pod)))?;
    failed("copy", &faults)
}

/// Copies a file to a directory. Of one that cannot be copied to its end nothing is left.
#[expect(clippy::disallowed_methods, reason = "it deletes the file that it has just created")]
fn copy(file: &LogFile, to: &Path, room: &mut u64) -> std::io::Result<()> {
    let mut created = None;
    let copied = file.copy(room, |name| {
        let path = to.join(name);
        let target = File::create_new(&path)?;
        created = Some(path);
        Ok(target)
    });
    if let (Err(_), Some(path)) = (&copied, created) {
        std::fs::remove_file(path)?;
    }
    copied
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};

    use super::*;

    #[test]
    fn holes_are_no_bytes_and_of_a_file_that_is_too_large_nothing_is_left() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        std::fs::create_dir_all(at("pods/default_web_u1/app")).unwrap();
        let sparse = File::create(at("pods/default_web_u1/app/0.log")).unwrap();
        sparse.write_all_at(b"line", 1 << 40).unwrap();
        sparse.set_len(8 << 40).unwrap();
        std::fs::write(at("pods/default_web_u1/app/1.log"), vec![7; 9 << 20]).unwrap();
        let pods = PodLogs::find(Path::new("/"), (&at("pods"), &at("missing")), &mut Vec::new()).unwrap();
        let files = pods[0].containers(&mut Vec::new()).remove(0).files;
        let mut room = 8 << 20;
        copy(&files[0], root.path(), &mut room).unwrap();
        let copied = std::fs::metadata(at("0.log")).unwrap();
        assert!(copied.len() == 8 << 40 && copied.blocks() * 512 <= 1 << 20, "{copied:?}");
        let mut read = [0; 4];
        File::open(at("0.log")).unwrap().read_exact_at(&mut read, 1 << 40).unwrap();
        assert_eq!(&read, b"line");
        let error = copy(&files[1], root.path(), &mut room).unwrap_err();
        assert!(error.to_string().contains("more than 4 GiB together") && !at("1.log").exists(), "{error}");
        std::fs::write(at("1.log"), "mine").unwrap();
        copy(&files[1], root.path(), &mut (16 << 20)).unwrap_err();
        assert_eq!(std::fs::read(at("1.log")).unwrap(), b"mine", "what it did not create stays");
    }
}
