//! Judges each change that the runtime gets, at its moment, by what is true then; and what is left in the end.

use std::time::Duration;

use super::agent::Acts;
use crate::model::{ContainerState, SandboxState};
use crate::sim::sim_node::{SimContainer, SimSandbox};
use crate::sim::{GIB, Node, Rpc};
use crate::testing::lives::clock;

/// `guards.gone_after`, and `guards.created_grace` in nanoseconds.
const GONE_AFTER: Duration = Duration::from_mins(1);
const CREATED_GRACE: i128 = 600_000_000_000;
/// For how long a lookup holds (I11), and the removal of a sandbox takes at most: two calls that are late.
const LOOKED_UP: Duration = Duration::from_secs(60 + 2 * 40);
pub(super) const POD_UID: &str = "io.kubernetes.pod.uid";
/// The thresholds are 85 of 100 gibibytes.
const FULL: u64 = 85 * GIB;

type Judged = Result<(), &'static str>;

/// Returns the fault of a call.
pub(super) fn judge(method: Rpc, id: &str, node: &Node, acts: &Acts) -> Judged {
    check(!acts.is_paused || !method.changes(), "the node is paused")?;
    check(!acts.is_quiet() || !method.changes(), "the hours are quiet")?;
    match method {
        Rpc::RemoveContainer => node.containers.find(id).map_or(Ok(()), |found| judge_container(found, node, acts)),
        Rpc::StopPodSandbox => check(!node.sandboxes.find(id).is_ok_and(is_ready), "the sandbox is ready"),
        Rpc::RemovePodSandbox => node.sandboxes.find(id).map_or(Ok(()), |found| judge_sandbox(found, node, acts)),
        Rpc::RemoveImage => node.image_id(id).map_or(Ok(()), |found| judge_image(&found, node, acts)),
        _ => check(!method.changes(), "kubegc makes no such call"),
    }
}

fn judge_container(container: &SimContainer, node: &Node, acts: &Acts) -> Judged {
    let uid = container.listed.labels.get(POD_UID).ok_or("the container is of no pod")?;
    let age = clock().as_nanosecond() - i128::from(container.listed.created_at);
    // One of the future was made before the clock was set back.
    let is_young = container.state() == ContainerState::Created && (0..CREATED_GRACE).contains(&age);
    check(!matches!(container.state(), ContainerState::Running | ContainerState::Unknown), "the container runs")?;
    check(!is_young, "the container may be about to start")?;
    check(!is_newest(container, node, |_| true) || is_deleted(uid, acts), "the pod is not proven deleted")
}

fn judge_sandbox(sandbox: &SimSandbox, node: &Node, acts: &Acts) -> Judged {
    let uid = sandbox.listed.labels.get(POD_UID).ok_or("the sandbox is of no pod")?;
    check(!is_ready(sandbox), "the sandbox is ready")?;
    check(sandbox.containers.is_empty(), "the sandbox has containers")?;
    check(!is_last(sandbox, node) || is_deleted(uid, acts), "the pod is not proven deleted")
}

fn judge_image(image: &str, node: &Node, acts: &Acts) -> Judged {
    check(!is_used(image, node, |it| it.state() == ContainerState::Running), "a container uses the image")?;
    check(!node.images.iter().any(|it| it.listed.id == image && it.listed.pinned), "the image is pinned")?;
    let shown = acts.shown().unwrap_or_default();
    let mut known = acts.listed.iter().chain(&shown).filter(|pod| acts.is_kept(&pod.uid.to_string()));
    check(!known.any(|pod| names(&pod.images, image, node)), "a pod names the image")
}

/// Returns what should be removed, or why the disk should not be full.
pub(super) fn leftover(node: &Node, acts: &Acts) -> Option<String> {
    let is_gone = |uid: Option<&String>| uid.is_some_and(|uid| !acts.exists(uid));
    let is_dead = |it: &SimContainer| it.state() == ContainerState::Exited;
    // Of a clock that was set back, what was created last by the clock is kept too.
    let is_latest = |it: &SimContainer| {
        let of_pod = node.containers.of_pod(&it.listed.labels[POD_UID]);
        of_pod
            .filter(|other| other.metadata().0 == it.metadata().0)
            .all(|other| other.listed.created_at <= it.listed.created_at)
    };
    let is_old = |it: &SimContainer| !is_newest(it, node, is_dead) && !is_latest(it);
    let is_left = |it: &&SimContainer| is_old(it) || is_gone(it.listed.labels.get(POD_UID));
    if let Some(container) = node.containers.iter().filter(|it| is_dead(it)).find(is_left) {
        return Some(format!("container {} is left", container.listed.id));
    }
    let is_latest = |it: &SimSandbox| {
        node.sandboxes.of_pod(&it.listed.labels[POD_UID]).all(|other| other.listed.created_at <= it.listed.created_at)
    };
    let is_superseded = |it: &SimSandbox| !is_last(it, node) && !is_latest(it) && it.containers.is_empty();
    let is_left = |it: &&SimSandbox| !is_ready(it) && (is_superseded(it) || is_gone(it.listed.labels.get(POD_UID)));
    if let Some(sandbox) = node.sandboxes.iter().find(is_left) {
        return Some(format!("sandbox {} is left", sandbox.listed.id));
    }
    let is_named = |id: &str| acts.pods.iter().flatten().any(|pod| names(&pod.images, id, node));
    let is_unused = |id: &&String| !is_used(id, node, |_| true) && !is_named(id);
    let unused = node.images.iter().filter(|it| !it.listed.pinned).map(|it| &it.listed.id).find(is_unused);
    let unused = unused.filter(|_| is_full(node));
    unused.map(|id| format!("the disk is full, and image {id} is left"))
}

pub(super) fn is_full(node: &Node) -> bool {
    let disk = node.file_system();
    disk.capacity_bytes - disk.available_bytes > FULL
}

fn is_ready(sandbox: &SimSandbox) -> bool {
    sandbox.state() == SandboxState::Ready
}

/// Returns whether it is the newest of its name in its pod, of those that count.
pub(super) fn is_newest(container: &SimContainer, node: &Node, counts: impl Fn(&SimContainer) -> bool) -> bool {
    let (name, attempt) = container.metadata();
    let of_pod = node.containers.of_pod(&container.listed.labels[POD_UID]);
    of_pod.filter(|it| it.metadata().0 == name && counts(it)).all(|it| it.metadata().1 <= attempt)
}

fn is_last(sandbox: &SimSandbox, node: &Node) -> bool {
    let attempt = |it: &SimSandbox| it.listed.metadata.as_ref().map(|metadata| metadata.attempt);
    node.sandboxes.of_pod(&sandbox.listed.labels[POD_UID]).all(|it| attempt(it) <= attempt(sandbox))
}

/// Returns whether a pod is deleted, and the agent knows it for long enough and has looked it up, or its containers never run again.
fn is_deleted(uid: &str, acts: &Acts) -> bool {
    let is_over = acts.exists(uid) && !acts.is_kept(uid);
    let is_absent = acts.absent.get(uid).copied().flatten().is_some_and(|since| since.elapsed() >= GONE_AFTER);
    let is_looked_up = acts.absent_at.get(uid).is_some_and(|at| at.elapsed() < LOOKED_UP);
    is_over || is_absent && (acts.is_listed || acts.has_long_pass) && is_looked_up && !acts.dirs.join(uid).exists()
}

/// Returns whether a container was made from an image or names it, or has it as a volume that counts.
fn is_used(image: &str, node: &Node, counts: impl Fn(&SimContainer) -> bool) -> bool {
    let mounts =
        |it: &SimContainer| it.mounts.iter().filter_map(|mount| mount.image.as_ref()).any(|it| it.image == image);
    let made = |it: &SimContainer| {
        let name = it.listed.image.as_ref().map(|name| name.image.clone());
        it.listed.image_ref == image || names(name.as_slice(), image, node)
    };
    node.containers.iter().any(|it| made(it) || counts(it) && mounts(it))
}

fn names(names: &[String], image: &str, node: &Node) -> bool {
    names.iter().any(|name| node.image_id(name).as_deref() == Some(image))
}

fn check(holds: bool, fault: &'static str) -> Judged {
    if holds { Ok(()) } else { Err(fault) }
}
