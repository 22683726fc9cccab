//! Decides files of the archive (`archive`), log directories of deleted pods, leftover log files (`leftovers`), log files over a limit
//! (`limits`), and dangling log symlinks.
//!
//! Entries that the recheck in `execute` would refuse in every pass are kept whatever the guards are: an entry that is
//! not a directory, a name without a uid, and a directory of a pod that still has containers or sandboxes after this
//! pass.

pub(super) mod archive;
mod leftovers;
pub(super) mod limits;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use super::document::action::Target;
use super::document::reason::{KeepReason, RemoveReason};
use super::pods::{Completeness, PodStatus};
use super::rules::book::time_limit;
use super::step::{Context, Step};
use crate::model::{
    Container, ContainerId, ContainerState, EntryKind, LinkTarget, LogDir, LogLink, PodRef, PodUid, Sandbox, Seen,
    Snapshot, container_id_of_link, is_log_link, is_log_link_without_id, log_link_name,
};
use crate::rules::{Rule, RuleSubject};

/// Containers by ID, also by a prefix of it: the kubelet shortens long names of log symlinks.
#[derive(Default)]
struct ById<'a> {
    whole: HashMap<&'a ContainerId, ContainerState>,
    sorted: Vec<&'a Container>,
    /// Those that have not exited, by the name of a log symlink that has too little of the ID.
    without_id: HashMap<String, ContainerState>,
}

/// Decides log directories, log files, then log symlinks.
pub(super) fn decide(step: &mut Step) {
    archive::decide(step);
    let context = step.context;
    let dirs = step.need("log_dirs", &context.snapshot.log_dirs).filter(|dirs| !dirs.is_empty());
    let removed = dirs.map(|dirs| decide_dirs(step, dirs)).unwrap_or_default();
    leftovers::decide(step, &removed);
    limits::decide(step, &removed);
    if let Some(links) = step.need("log_links", &context.snapshot.log_links) {
        decide_links(step, links);
    }
}

/// Decides log directories. Returns the pods whose directories are removed.
fn decide_dirs(step: &mut Step, dirs: &[LogDir]) -> HashSet<PodUid> {
    let context = step.context;
    let (in_runtime, mut removed) = (in_runtime(step), HashSet::new());
    let mut dirs: Vec<_> = dirs.iter().collect();
    dirs.sort_by(|a, b| a.name.cmp(&b.name));
    for dir in dirs {
        let (pod, path) = (dir.pod(), context.policy.logs.pods_root.join(&dir.name));
        let status = || context.pods.status(pod.as_ref(), Completeness::Required);
        let why_removed = || status().removes_dead(context.policy).unwrap_or(RemoveReason::PodDeleted {});
        let verdict = why_dir_kept(context, &in_runtime, dir).map_or_else(|| Ok(why_removed()), Err);
        let age_seconds = dir.modified_at.map(|at| context.age_seconds(at));
        if step.decide(Target::RemoveLogDir { path }.with(pod, age_seconds, dir.size_bytes), verdict) {
            removed.insert(dir.pod_uid());
        }
    }
    removed
}

/// Returns why a log directory is kept, if so.
fn why_dir_kept(context: &Context, in_runtime: &InRuntime, dir: &LogDir) -> Option<KeepReason> {
    let known = dir.pod();
    let is_careful = context.policy.guards.keep_unrecognized_logs;
    let pod = known.clone().unwrap_or_else(|| PodRef { uid: dir.pod_uid(), ..PodRef::default() });
    if dir.entry != EntryKind::Directory || !is_one_name(pod.uid.as_str()) || (is_careful && known.is_none()) {
        return Some(KeepReason::Unrecognized {});
    }
    match context.pods.status(Some(&pod), Completeness::Required) {
        PodStatus::Exists { terminated: true } if context.policy.pass.is_last_resort => {}
        PodStatus::Exists { .. } => return Some(KeepReason::PodPresent { source: context.pods.source() }),
        PodStatus::Unknown(reason) | PodStatus::Guarded(reason) => return Some(reason),
        PodStatus::Deleted => {}
    }
    match in_runtime.result() {
        Ok(uids) if uids.contains(&pod.uid) => Some(KeepReason::PodInRuntime {}),
        Ok(_) => kept_by_rule(context, dir, &pod),
        Err(cause) => Some(KeepReason::RuntimeNotSeen { cause: cause.to_owned() }),
    }
}

/// Returns the pods whose logs a rule keeps once they are deleted. Their containers are removed without their logs.
pub(super) fn kept_by_rules(context: &Context) -> HashSet<PodUid> {
    let dirs = context
        .snapshot
        .log_dirs
        .as_ref()
        .into_iter()
        .flatten()
        .filter(|_| context.rules.has_any_for(RuleSubject::Log));
    let pods = dirs.filter_map(|dir| Some((dir, dir.pod()?)));
    let exists =
        |pod: &PodRef| matches!(context.pods.status(Some(pod), Completeness::NotRequired), PodStatus::Exists { .. });
    let kept = pods.filter(|(dir, pod)| {
        if exists(pod) {
            return false;
        }
        let missing_for = context.pods.missing_for(&pod.uid);
        kept_for(context, context.rules.would_keep_log_dir(dir, pod, missing_for), missing_for).is_some()
    });
    kept.map(|(_, pod)| pod.uid).collect()
}

/// Returns the rule that keeps the log directory of a deleted pod, if one does. The pod is deleted since it is missing.
fn kept_by_rule(context: &Context, dir: &LogDir, pod: &PodRef) -> Option<KeepReason> {
    let missing_for = context.pods.missing_for(&pod.uid);
    kept_for(context, context.rules.log_dir(dir, pod, missing_for), missing_for)
}

/// Returns why logs are kept for which a rule decided this. What could not be evaluated goes to the archive if there is one, whose limits it
/// obeys: a directory has none.
fn kept_for(
    context: &Context,
    decided: Result<Option<&Rule>, KeepReason>,
    missing_for: Duration,
) -> Option<KeepReason> {
    let rule = match decided {
        Ok(rule) => rule?,
        Err(reason) if reason.is_not_evaluated() && !context.policy.logs.archive.is_empty() => return None,
        Err(reason) => return Some(reason),
    };
    let keep_for = rule.limits()?.keep_for?;
    (missing_for < keep_for).then(|| rule.keeps_within(time_limit("keep_for", keep_for)))
}

/// The pods that still have containers or sandboxes after this pass.
pub(super) type InRuntime<'a> = Seen<HashSet<&'a PodUid>>;

/// Returns the pods that still have containers or sandboxes after this pass.
pub(super) fn in_runtime<'a>(step: &Step<'_, 'a>) -> InRuntime<'a> {
    let context = step.context;
    let Snapshot { containers, sandboxes, .. } = context.snapshot;
    let both = containers.result().and_then(|containers| Ok((containers, sandboxes.result()?)));
    let in_both = |(containers, sandboxes): (&'a Vec<Container>, &'a Vec<Sandbox>)| {
        let sandboxes = sandboxes.iter().filter(|sandbox| !step.removed_sandboxes.contains(&sandbox.id));
        let uids = step.remaining(containers).filter_map(|container| container.pod_uid());
        uids.chain(sandboxes.filter_map(|sandbox| sandbox.pod_uid())).collect()
    };
    both.map(in_both).into()
}

fn decide_links(step: &mut Step, links: &[LogLink]) {
    let context = step.context;
    let containers = context.snapshot.containers.result();
    let is_needed = is_any_dangling(links);
    let containers = containers.map(|listed| if is_needed { ById::new(listed, step) } else { ById::default() }).into();
    let mut links: Vec<_> = links.iter().collect();
    links.sort_by(|a, b| a.name.cmp(&b.name));
    for link in links {
        let target = Target::RemoveLogLink { path: context.policy.logs.containers_root.join(&link.name) };
        let kept = why_link_kept(context, &containers, link);
        step.decide(target.with(None, None, None), kept.map_or(Ok(RemoveReason::Dangling {}), Err));
    }
}

/// Returns whether any symlink is dangling. On most nodes none is, and then the containers are not needed.
fn is_any_dangling(links: &[LogLink]) -> bool {
    links.iter().any(|link| link.target == LinkTarget::Missing)
}

/// Returns why a log symlink is kept, if so (I7). A dangling symlink of a container that has not exited is normal: its log
/// is being rotated.
fn why_link_kept(context: &Context, containers: &Seen<ById>, link: &LogLink) -> Option<KeepReason> {
    let is_careful = context.policy.guards.keep_unrecognized_logs;
    if !is_log(&link.name) || (is_careful && !is_log_link(&link.name)) {
        return Some(KeepReason::Unrecognized {});
    }
    match link.target {
        LinkTarget::Exists => return Some(KeepReason::TargetExists {}),
        LinkTarget::Unknown => return Some(KeepReason::TargetUnknown {}),
        LinkTarget::Missing => {}
    }
    let id = container_id_of_link(&link.name);
    if id.is_none() && !is_log_link_without_id(&link.name) {
        return None;
    }
    match containers.result() {
        Ok(containers) => {
            let of_id = id.and_then(|id| containers.not_exited(&id));
            let of_any = of_id.or_else(|| containers.without_id.get(&link.name).copied());
            of_any.map(|state| KeepReason::ContainerNotExited { state })
        }
        Err(cause) => is_careful.then(|| KeepReason::RuntimeNotSeen { cause: cause.to_owned() }),
    }
}

/// Returns the name of the log symlink of a container that has not exited, if the name has too little of the ID.
fn without_id(container: &Container) -> Option<(String, ContainerState)> {
    let pod = container.pod.as_ref().filter(|_| container.state != ContainerState::Exited)?;
    let name = log_link_name(&pod.name, &pod.namespace, &container.name, &container.id);
    is_log_link_without_id(&name).then_some((name, container.state))
}

/// Returns whether a uid can be the name of a directory of the kubelet.
fn is_one_name(uid: &str) -> bool {
    !matches!(uid, "" | "." | "..")
}

fn is_log(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "log")
}

// === impl ById ===

impl<'a> ById<'a> {
    /// Collects the containers that this pass keeps.
    fn new(containers: &'a [Container], step: &Step) -> Self {
        let mut containers: Vec<_> = step.remaining(containers).collect();
        containers.sort_by(|a, b| a.id.cmp(&b.id));
        Self {
            whole: containers.iter().map(|container| (&container.id, container.state)).collect(),
            without_id: containers.iter().filter_map(|container| without_id(container)).collect(),
            sorted: containers,
        }
    }

    /// Returns the state of a container whose ID starts with `id` and that has not exited, if there is one.
    fn not_exited(&self, id: &ContainerId) -> Option<ContainerState> {
        if let Some(state) = self.whole.get(id) {
            return (*state != ContainerState::Exited).then_some(*state);
        }
        let prefix = id.as_str();
        let from = self.sorted.partition_point(|container| container.id.as_str() < prefix);
        let mut found = self.sorted.iter().skip(from).take_while(|container| container.id.as_str().starts_with(prefix));
        found.find(|container| container.state != ContainerState::Exited).map(|container| container.state)
    }
}

#[cfg(test)]
mod tests;
