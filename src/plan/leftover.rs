//! Decides what is left over in the kubelet's directory.
//!
//! Removes for `instance_gone` and `image_gone`. Keeps for `not_selected`, `not_removed_by_kubegc`, `pull_in_progress`, `unrecognized`,
//! `runtime_not_seen`, `list_incomplete`, `backing_off`, and by the guards `runtime_just_started`, `list_fell` and `baseline_lost`.
//!
//! A record of a pulled image protects the image: without it, pods need no pull secret for it. So only the record of an image
//! goes that kubegc itself removed and that did not return, and only if the kubelet did not write it since.

use super::document::Kept;
use super::document::action::{Action, Kind, Target};
use super::document::reason::{KeepReason, RemoveReason};
use super::step::{Context, Step};
use crate::model::{Leftover, LeftoverKind, Seen};

/// Decides all that is left over.
pub(super) fn decide(step: &mut Step) {
    let context = step.context;
    let Some(leftovers) = step.need("leftovers", &context.snapshot.leftovers) else { return };
    let mut leftovers: Vec<_> = leftovers.iter().collect();
    leftovers.sort_by(|a, b| a.at.path.cmp(&b.at.path));
    for leftover in leftovers {
        let target = Target::RemoveLeftover { leftover: leftover.kind, path: leftover.at.path.clone().into() };
        let (pod, size) = (leftover.pod.clone(), Some(leftover.at.usage.bytes).into());
        let age_seconds = leftover.modified_at.map(|at| context.age_seconds(at));
        match verdict(context, leftover, &target.id()) {
            Ok(reason) => _ = step.remove(Action { pod, age_seconds, size, ..target.remove(reason) }),
            Err(reason) => step.keep(Kept { pod, age_seconds, size, ..target.keep(reason) }),
        }
    }
}

fn verdict(context: &Context, leftover: &Leftover, id: &str) -> Result<RemoveReason, KeepReason> {
    let proven = match leftover.kind {
        LeftoverKind::PullRecord => image_is_gone(context, leftover),
        LeftoverKind::TerminationLog => instance_is_gone(context, leftover),
        LeftoverKind::PodDirectory | LeftoverKind::SnapshotDirectory => Err(KeepReason::NotSelected {}),
    };
    let reason = proven?;
    if !context.policy.leftovers.0.contains(&leftover.kind) {
        return Err(KeepReason::NotSelected {});
    }
    context.backing_off(Kind::Leftover, id).map_or(Ok(reason), Err)
}

fn image_is_gone(context: &Context, leftover: &Leftover) -> Result<RemoveReason, KeepReason> {
    let Some(image) = &leftover.image else { return Err(KeepReason::Unrecognized {}) };
    if let Some(cause) = context.snapshot.images.cause() {
        return Err(KeepReason::RuntimeNotSeen { cause: cause.to_owned() });
    }
    let removed_at =
        context.snapshot.memory.removed_images.get(&image.as_str().into()).filter(|at| **at <= context.now);
    let is_unchanged = removed_at.is_some_and(|at| leftover.modified_at.is_some_and(|modified| modified < *at));
    let is_pulling = !context.snapshot.pulling.is_empty() || context.snapshot.image_uses.cause().is_some();
    match (is_unchanged, is_pulling) {
        (false, _) => Err(KeepReason::NotRemovedByKubegc {}),
        (true, true) => Err(KeepReason::PullInProgress {}),
        (true, false) => Ok(RemoveReason::ImageGone {}),
    }
}

/// The newest files of a container are not among the leftovers. The recheck compares the others with the mounts of its instances.
fn instance_is_gone(context: &Context, leftover: &Leftover) -> Result<RemoveReason, KeepReason> {
    if let Seen::NotSeen(cause) = &context.snapshot.containers {
        return Err(KeepReason::RuntimeNotSeen { cause: cause.clone() });
    }
    if context.gaps.may_miss_containers(leftover.pod.as_ref().map(|pod| &pod.uid)) {
        return Err(KeepReason::ListIncomplete { list: "containers".to_owned() });
    }
    context.pods.why_untrusted().map_or(Ok(RemoveReason::InstanceGone {}), |reason| Err(reason.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Snapshot;
    use crate::plan::policy::Leftovers;
    use crate::plan::tests::node::{Node, Row, ago, hold, node};

    const OLD: &str = "sha256:old";

    fn record() -> Node {
        node().left_over(LeftoverKind::PullRecord, "record", 60).but(|snapshot| {
            let Seen::Seen(leftovers) = &mut snapshot.leftovers else { return };
            leftovers[0].image = Some(OLD.to_owned());
            leftovers[0].pod = None;
            snapshot.memory.removed_images.insert(OLD.into(), ago(30));
        })
    }

    #[test]
    #[rustfmt::skip]
    fn the_record_of_an_image_goes_that_kubegc_removed() {
        let unknown = |snapshot: &mut Snapshot| snapshot.memory.removed_images.clear();
        let written = |snapshot: &mut Snapshot| _ = snapshot.memory.removed_images.insert(OLD.into(), ago(90));
        let format = |snapshot: &mut Snapshot| if let Seen::Seen(leftovers) = &mut snapshot.leftovers { leftovers[0].image = None };
        let no_time = |snapshot: &mut Snapshot| if let Seen::Seen(leftovers) = &mut snapshot.leftovers { leftovers[0].modified_at = None };
        hold(&[Kind::Leftover], [
            ("kubegc removed the image", record(), "", "record: image_gone") as Row,
            ("something else removed it", record().but(unknown), "record: not_removed_by_kubegc", ""),
            ("the kubelet wrote the record since", record().but(written), "record: not_removed_by_kubegc", ""),
            ("the clock was set back since",
                record().but(|snapshot| _ = snapshot.memory.removed_images.insert(OLD.into(), ago(-30))),
                "record: not_removed_by_kubegc", ""),
            ("the time of the record is unknown", record().but(no_time), "record: not_removed_by_kubegc", ""),
            ("the kubelet pulls an image",
                record().but(|snapshot| snapshot.pulling.push("r.example/any:1".into())), "record: pull_in_progress", ""),
            ("the pulls are not known",
                record().but(|snapshot| snapshot.image_uses = Seen::NotSeen("denied".into())), "record: pull_in_progress", ""),
            ("the format is another one", record().but(format), "record: unrecognized", ""),
            ("the list of images is unavailable",
                record().but(|snapshot| snapshot.images = Seen::NotSeen("no answer".into())), "record: runtime_not_seen", ""),
            ("the setting has another kind",
                record().set(|policy| policy.leftovers = Leftovers([LeftoverKind::TerminationLog].into())),
                "record: not_selected", ""),
            ("a removal failed before", record().failed("leftover//var/lib/kubelet/record", 1), "record: backing_off", ""),
            ("the kubelet removes none", record().kubelet(), "record: not_selected", ""),
        ]);
    }

    #[test]
    #[rustfmt::skip]
    fn the_termination_log_of_an_instance_goes_that_the_runtime_lost() {
        let log = || node().pod("web").running("web/app", "c", 1).left_over(LeftoverKind::TerminationLog, "01234567", 60);
        let no_containers = |snapshot: &mut Snapshot| snapshot.containers = Seen::NotSeen("no answer".into());
        let just_started = |snapshot: &mut Snapshot| snapshot.listening_since = Seen::Seen(Some(ago(0)));
        hold(&[Kind::Leftover], [
            ("the runtime has a newer instance", log(), "", "01234567: instance_gone") as Row,
            ("the list of containers is unavailable", log().but(no_containers), "01234567: runtime_not_seen", ""),
            ("the runtime has just started", log().but(just_started), "01234567: runtime_just_started", ""),
            ("the setting is empty", log().set(|policy| policy.leftovers.0.clear()), "01234567: not_selected", ""),
        ]);
    }

    #[test]
    fn directories_are_shown_only() {
        let all = |policy: &mut crate::plan::Policy| policy.leftovers.0.extend([LeftoverKind::PodDirectory]);
        let node = node().left_over(LeftoverKind::PodDirectory, "u-gone", 60).set(all);
        hold(&[Kind::Leftover], [("a directory of a pod", node, "u-gone: not_selected", "")]);
    }
}
