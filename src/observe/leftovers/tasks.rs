//! What containerd has of the tasks of containers that no client has any more: bundles, mounts in them and shims (containerd#13893).

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use procfs::process::{Process, all_processes};

use super::pod_directory::mount_points;
use crate::host_path::HostFs;
use crate::model::{Leftover, LeftoverKind, PathUsage, Seen, Snapshot};
use crate::observe::{ObserveError, Observer, log_files};

/// The directory of the bundles, beside the socket of containerd: a directory for each namespace, in it one for each task.
const TASKS: &str = "io.containerd.runtime.v2.task";
/// What the names of the programs of shims begin with.
const SHIM: &str = "containerd-shim";

/// The ids of the containers or sandboxes by the paths of what their tasks have.
type Found = BTreeMap<PathBuf, String>;

// === impl Observer ===

impl Observer {
    /// Adds what is left of tasks to the leftovers. A task is there before and after its container is missing in the lists: it is
    /// neither created nor deleted in between. Without the lists of all clients, nothing is added.
    pub(in crate::observe) async fn find_tasks(&self, snapshot: &mut Snapshot) {
        let Some(runtime) = snapshot.runtime.as_ref() else { return };
        let (state, socket) = (Path::new(&runtime.endpoint).with_file_name(""), runtime.endpoint.clone());
        let find = || {
            let socket = socket.clone();
            self.list_directory(&state, move |host, state| of_tasks(host, state, &socket))
        };
        let before = find().await;
        let Some(before) = before.as_ref().filter(|found| !found.is_empty()) else { return };
        let Ok(known) = self.reader.all_container_ids().await else { return };
        let sandboxes = snapshot.sandboxes.as_ref().into_iter().flatten();
        let known: HashSet<_> = known.into_iter().chain(sandboxes.map(|sandbox| sandbox.id.to_string())).collect();
        let unknown: Vec<_> = before.iter().filter(|(_, id)| !known.contains(*id)).collect();
        let after = if unknown.is_empty() { return } else { find().await };
        let is_left = |path, id| after.as_ref().is_some_and(|after| after.get(path) == Some(id));
        let left = unknown.into_iter().filter(|(path, id)| is_left(*path, *id)).map(|(path, _)| leftover(path));
        if let Seen::Seen(leftovers) = &mut snapshot.leftovers {
            leftovers.extend(left);
        }
    }
}

fn leftover(path: &Path) -> Leftover {
    let at = PathUsage { path: path.display().to_string(), ..PathUsage::default() };
    Leftover { kind: LeftoverKind::Task, at, pod: None, image: None, modified_at: None, obstacle: None }
}

/// Returns what belongs to tasks. An agent in a container sees neither the mounts nor the processes of the host.
fn of_tasks(host: &HostFs, state: &Path, socket: &str) -> Result<Found, ObserveError> {
    let tasks = state.join(TASKS);
    let mut found = Found::new();
    for (_, namespace) in log_files::entries(&tasks)? {
        found.extend(log_files::entries(&namespace.path())?.into_iter().map(|(id, bundle)| (bundle.path(), id)));
    }
    let id = |mount: &PathBuf| Some(mount.strip_prefix(&tasks).ok()?.iter().nth(1)?.to_str()?.to_owned());
    let mounts = mount_points(host).unwrap_or_default();
    found.extend(mounts.into_iter().filter_map(|mount| Some((mount.clone(), id(&mount)?))));
    if host.is_agents() {
        found.extend(shims(socket));
    }
    Ok(found)
}

/// Returns the shims of the containerd at a socket. One in a container has another namespace of processes.
fn shims(socket: &str) -> Found {
    let namespace = |process: &Process| process.namespaces().ok()?.0.get(OsStr::new("pid")).map(|of| of.identifier);
    let own = Process::myself().ok().and_then(|own| namespace(&own));
    let shim = |process: Process| {
        let arguments = process.cmdline().ok()?;
        let after = |flag: &str| arguments.iter().skip_while(|argument| *argument != flag).nth(1);
        let is_shim = Path::new(arguments.first()?).file_name()?.to_str()?.starts_with(SHIM);
        let is_meant = is_shim && after("-address").is_some_and(|at| at == socket) && namespace(&process) == own;
        Some((format!("/proc/{}", process.pid).into(), after("-id").filter(|_| is_meant)?.clone()))
    };
    all_processes().into_iter().flatten().filter_map(Result::ok).filter_map(shim).collect()
}
