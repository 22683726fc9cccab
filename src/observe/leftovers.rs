//! Finds what is left over: in the kubelet's directory termination logs of instances that the runtime no longer has, records of
//! pulled images that it no longer has, directories of pods that no list has, and checkpoints; elsewhere addresses of sandboxes
//! that are gone.
//!
//! The kubelet removes a termination log with its pod only (kubernetes#121180). The record of an image stays when something
//! else removes the image, and then the kubelet refuses the same image if it is loaded without a pull (kubernetes#138175).

pub(super) mod pod_directory;
mod search;
mod tasks;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs::{self, DirEntry, File, Metadata};
use std::io::Read as _;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};

use super::leftover_logs::RestartedContainer;
use super::pods::LARGEST_RECORD_BYTES;
use super::walk::BLOCK;
use super::{ObserveError, log_files};
use crate::host_path::HostFs;
use crate::model::{DirUsage, Image, Leftover, LeftoverKind, PathUsage, PullRecord, is_checkpoint, is_termination_log};

/// The directory of the records beneath that of the kubelet.
const RECORDS: &str = "image_manager/pulled";
/// The directory of the checkpoints beneath that of the kubelet.
const CHECKPOINTS: &str = "checkpoints";
/// What the name of a checkpoint ends with in the name of the file that keeps it.
const KEEP: &str = ".keep";
/// How old a reservation is whose sandbox must be in the lists: it is made before the sandbox is.
const RESERVED: SignedDuration = SignedDuration::from_mins(10);
/// The highest number of files of one directory that are examined. What remains is found by a later pass.
const MAX_FILES: usize = if cfg!(test) { 20 } else { 10_000 };

/// Returns the termination logs of a container beneath the kubelet's directory, newest first, without those that its instances in
/// the runtime may have, and without one more: the kubelet creates the file before the container.
fn termination_logs(root: &Path, container: &RestartedContainer) -> Result<Vec<Leftover>, ObserveError> {
    let dir = container.termination_logs();
    if !dir.ancestors().all(|path| is_directory(&root.join(path))) {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for (name, entry) in log_files::entries(&root.join(&dir))?.into_iter().take(MAX_FILES) {
        let Ok(metadata) = entry.metadata() else { continue };
        if is_termination_log(&name) && metadata.is_file() {
            let pod = Some(container.pod().clone());
            files.push(Leftover { pod, ..leftover(LeftoverKind::TerminationLog, &dir.join(name), &metadata) });
        }
    }
    files.sort_by_key(|file| Reverse(file.modified_at));
    Ok(files.into_iter().skip(container.instances() + 1).collect())
}

/// Returns the records beneath the kubelet's directory of images that are not among these.
fn pull_records(root: &Path, images: &[Image]) -> Result<Vec<Leftover>, ObserveError> {
    let entries = log_files::entries(&root.join(RECORDS))?;
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let listed = images.iter().map(|image| Cow::Borrowed(image.id.as_str()));
    let names = images.iter().flat_map(Image::names).chain(listed);
    let known: HashSet<_> = names.map(|name| PullRecord::file_name(&name)).collect();
    let mut records = Vec::new();
    for (name, entry) in entries.into_iter().take(MAX_FILES) {
        let Ok(metadata) = entry.metadata() else { continue };
        if PullRecord::is_file_name(&name) && !known.contains(&name) && metadata.is_file() {
            let image = read(&entry.path()).and_then(|text| PullRecord::parse(&name, &text)).map(|record| record.image);
            let path = Path::new(RECORDS).join(name);
            records.push(Leftover { image, ..leftover(LeftoverKind::PullRecord, &path, &metadata) });
        }
    }
    Ok(records)
}

/// Returns whether the kubelet has a record of the pull of an image, which protects it (I21); `None` = that cannot be read.
pub async fn has_pull_record(host: &HostFs, kubelet_root: &Path, image: &Image) -> Option<bool> {
    let file = |name: &str| kubelet_root.join(RECORDS).join(PullRecord::file_name(name));
    let files: Vec<_> = image.names().map(|name| file(&name)).chain([file(image.id.as_str())]).collect();
    let find = move |host: &HostFs| {
        files.iter().try_fold(false, |found, file| Ok::<_, std::io::Error>(found || host.exists(file)?))
    };
    host.run(kubelet_root, find).await.ok()?.ok()
}

/// Returns the checkpoints beneath the kubelet's directory, without those that have a file `.keep` beside them (checkpoint-restore-operator#108).
fn checkpoints(root: &Path) -> Result<Vec<Leftover>, ObserveError> {
    let entries = log_files::entries(&root.join(CHECKPOINTS))?;
    let kept: HashSet<_> = entries.iter().filter_map(|(name, _)| name.strip_suffix(KEEP)).map(str::to_owned).collect();
    let entries = entries.into_iter().filter(|(name, _)| !kept.contains(name)).take(MAX_FILES);
    let checkpoint = |(name, entry): (String, DirEntry)| {
        let metadata = entry.metadata().ok().filter(|found| is_checkpoint(&name) && found.is_file())?;
        Some(leftover(LeftoverKind::Checkpoint, &Path::new(CHECKPOINTS).join(name), &metadata))
    };
    Ok(entries.filter_map(checkpoint).collect())
}

/// A reservation, and the id of the sandbox that it is for.
type Reservation = (Leftover, String);

/// Returns the reservations of host-local that are old enough for their sandboxes to be listed. The file of an address has its name; in
/// it are the id of the sandbox and, in a second line, the name of the interface (plugins 1.4, `backend/disk`).
fn reservations(networks: &Path, now: Timestamp) -> Result<Vec<Reservation>, ObserveError> {
    let mut found = Vec::new();
    for (network, _) in log_files::entries(networks)?.into_iter().filter(|(_, entry)| is_directory(&entry.path())) {
        let addresses = log_files::entries(&networks.join(&network))?.into_iter().take(MAX_FILES);
        found.extend(addresses.filter_map(|(name, entry)| {
            name.parse::<IpAddr>().ok()?;
            let metadata = entry.metadata().ok().filter(Metadata::is_file)?;
            let address = leftover(LeftoverKind::Address, &Path::new(&network).join(name), &metadata);
            address.modified_at.filter(|at| *at < now - RESERVED)?;
            let text = String::from_utf8(read(&entry.path())?).ok()?;
            let id = text.lines().next()?.trim().to_owned();
            (!id.is_empty()).then_some((address, id))
        }));
    }
    Ok(found)
}

fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(LARGEST_RECORD_BYTES).read_to_end(&mut text).ok()?;
    Some(text)
}

fn leftover(kind: LeftoverKind, path: &Path, metadata: &Metadata) -> Leftover {
    let usage = DirUsage { bytes: metadata.blocks().saturating_mul(BLOCK), inodes: 1, ..DirUsage::default() };
    let (path, is_kubelets) = (path.display().to_string(), kind != LeftoverKind::Address);
    let at = PathUsage { path, is_kubelets, usage, ..PathUsage::default() };
    let modified_at = metadata.modified().ok().and_then(|at| Timestamp::try_from(at).ok());
    Leftover { kind, at, pod: None, image: None, modified_at, obstacle: None }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::model::Container;
    use crate::observe::leftover_logs::restarted_containers;

    fn containers(attempts: &[u32]) -> Vec<RestartedContainer> {
        let container = |attempt: &u32| -> Container {
            let container = serde_json::json!({ "id": format!("c{attempt}"), "name": "app", "attempt": attempt,
                "pod": { "uid": "u1", "namespace": "default", "name": "web" }, "state": "exited",
                "created_at": "2026-11-21T11:00:00Z" });
            serde_json::from_value(container).unwrap()
        };
        restarted_containers(&attempts.iter().map(container).collect::<Vec<_>>())
    }

    /// Writes a file that was last written so many minutes ago.
    fn write(root: &Path, path: &str, text: &str, minutes: u64) -> PathBuf {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let at = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000) - Duration::from_mins(minutes);
        File::options().write(true).open(&path).unwrap().set_modified(at).unwrap();
        path
    }

    fn logs(root: &Path, attempts: &[u32]) -> Vec<String> {
        let found =
            containers(attempts).iter().flat_map(|one| termination_logs(root, one).unwrap()).collect::<Vec<_>>();
        assert!(found.iter().all(|log| log.at.usage.bytes > 0 && log.pod.is_some()), "{found:?}");
        found.into_iter().map(|log| log.at.path.rsplit('/').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_newest_termination_logs_are_not_left_over() {
        let root = tempfile::tempdir().unwrap();
        let files = ["00000001", "deadbeef", "00000003", "00000004", "note", "0000000g", "000000005"];
        for (minutes, name) in (1..).zip(files) {
            write(root.path(), &format!("pods/u1/containers/app/{name}"), "ok", minutes);
        }
        fs::create_dir(root.path().join("pods/u1/containers/app/00000009")).unwrap();
        assert_eq!(logs(root.path(), &[7]), ["00000003", "00000004"], "one instance, and one in creation");
        assert_eq!(logs(root.path(), &[5, 7]), ["00000004"]);
        assert_eq!(logs(root.path(), &[5, 6, 7]), [""; 0]);
        assert_eq!(logs(root.path(), &[0]), [""; 0], "it did not restart");
        let elsewhere = root.path().join("elsewhere");
        fs::rename(root.path().join("pods/u1/containers"), &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, root.path().join("pods/u1/containers")).unwrap();
        assert_eq!(logs(root.path(), &[7]), [""; 0], "a link is not followed");
    }

    #[test]
    fn checkpoints_are_archives_of_the_kubelet() {
        let root = tempfile::tempdir().unwrap();
        let names = ["checkpoint-web_shop-app-2026.tar", "checkpoint-web_shop-app-2026.tar.part", "mine.tar"];
        for name in names {
            write(root.path(), &format!("{CHECKPOINTS}/{name}"), "memory", 1);
        }
        fs::create_dir(root.path().join(CHECKPOINTS).join("checkpoint-directory.tar")).unwrap();
        std::os::unix::fs::symlink("mine.tar", root.path().join(CHECKPOINTS).join("checkpoint-link.tar")).unwrap();
        let found = checkpoints(root.path()).unwrap();
        assert_eq!(
            found.iter().map(|found| &found.at.path).collect::<Vec<_>>(),
            [&format!("{CHECKPOINTS}/{}", names[0])]
        );
        assert_eq!(checkpoints(&root.path().join("absent")).unwrap(), []);
        write(root.path(), &format!("{CHECKPOINTS}/{}.keep", names[0]), "", 1);
        assert_eq!(checkpoints(root.path()).unwrap(), [], "a person keeps it");
    }

    #[test]
    fn reservations_of_addresses_name_their_sandbox() {
        let root = tempfile::tempdir().unwrap();
        let files = [
            ("net/10.88.0.2", "one\r\neth0", 11),
            ("net/fd00::2", "two", 11),
            ("net/10.88.0.3", "young\r\neth0", 9),
            ("net/10.88.0.4", "", 11),
            ("net/last_reserved_ip.0", "10.88.0.3", 11),
            ("net/lock", "", 11),
            ("10.88.0.5", "no network", 11),
        ];
        for (path, text, minutes) in files {
            write(root.path(), path, text, minutes);
        }
        fs::create_dir(root.path().join("net/10.88.0.6")).unwrap();
        std::os::unix::fs::symlink("net", root.path().join("linked")).unwrap();
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(500_000);
        let mut found = reservations(root.path(), now).unwrap();
        found.sort_by(|a, b| a.1.cmp(&b.1));
        let found: Vec<_> = found.iter().map(|(found, id)| (found.at.path.as_str(), id.as_str())).collect();
        assert_eq!(found, [("net/10.88.0.2", "one"), ("net/fd00::2", "two")]);
    }

    #[test]
    fn the_records_of_listed_images_are_not_left_over() {
        let root = tempfile::tempdir().unwrap();
        let record = |image: &str| {
            let text = format!(
                r#"{{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","imageRef":"{image}"}}"#
            );
            write(root.path(), &format!("{RECORDS}/{}", PullRecord::file_name(image)), &text, 1)
        };
        for image in ["sha256:listed", "r.example/digest@sha256:d", "sha256:gone"] {
            record(image);
        }
        fs::write(record("sha256:other"), "{}").unwrap();
        fs::copy(record("sha256:gone"), root.path().join(RECORDS).join(format!("sha256-{:064}", 0))).unwrap();
        write(root.path(), &format!("{RECORDS}/README"), "", 1);
        let image = serde_json::json!({ "id": "sha256:listed", "digests": ["r.example/digest@sha256:d"] });
        let found = pull_records(root.path(), &[serde_json::from_value(image).unwrap()]).unwrap();
        let mut images: Vec<_> = found.iter().map(|record| record.image.as_deref()).collect();
        images.sort();
        assert_eq!(images, [None, None, Some("sha256:gone")], "one is empty, and one has the name of another");
        assert_eq!(pull_records(&root.path().join("absent"), &[]).unwrap(), []);
    }
}
