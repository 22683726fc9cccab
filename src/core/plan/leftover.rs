//! Decides what is left over: in the kubelet's directory, in those of networks, and in the store of the runtime.
//!
//! A record of a pulled image protects the image: without it, pods need no pull secret for it. The kubelet has its records in memory
//! too, and writes none again that it knows. A record that kubegc removes would be missing after the kubelet's next start, when
//! something may have pulled or restored the image since (I21).

use jiff::SignedDuration;

use super::document::action::Target;
use super::document::reason::{KeepReason, RemoveReason};
use super::logs::{InRuntime, in_runtime};
use super::step::{Context, Step};
use crate::model::{DirUsage, Leftover, LeftoverKind, PodUid, StorePart};
use crate::rules::Then;

/// How old it is at least: it may be in the making.
const SETTLED: SignedDuration = SignedDuration::from_mins(10);
/// The name of the runtime that collects its garbage when asked.
const CONTAINERD: &str = "containerd";

/// Decides all that is left over.
pub(super) fn decide(step: &mut Step) {
    let context = step.context;
    let leftovers = step.need_if_read("leftovers", &context.snapshot.leftovers);
    let Some(leftovers) = leftovers.filter(|leftovers| !leftovers.is_empty()) else { return };
    let in_runtime = in_runtime(step);
    let mut leftovers: Vec<_> = leftovers.iter().collect();
    leftovers.sort_by(|a, b| a.at.path.cmp(&b.at.path));
    for leftover in leftovers {
        let target = Target::RemoveLeftover { leftover: leftover.kind, path: leftover.at.path.clone().into() };
        let age_seconds = leftover.modified_at.map(|at| context.age_seconds(at));
        let object = target.with(leftover.pod.clone(), age_seconds, leftover.size());
        if let Some(proof) = proof(context, &in_runtime, leftover) {
            step.decide(object, proof.and_then(|reason| selected(context, leftover.kind).map(|()| reason)));
        }
    }
}

/// Returns why it is left over, or why that is not certain; `None` = it is not.
fn proof(context: &Context, in_runtime: &InRuntime, leftover: &Leftover) -> Option<Result<RemoveReason, KeepReason>> {
    match leftover.kind {
        LeftoverKind::PullRecord => Some(Err(KeepReason::ProtectsImage {})),
        LeftoverKind::TerminationLog => Some(instance_is_gone(context, leftover)),
        LeftoverKind::PodDirectory => {
            let is_gone = pod_is_gone(context, in_runtime, &leftover.pod.as_ref()?.uid)?;
            let obstacle = leftover.obstacle.clone().map(|cause| KeepReason::ForeignPath { cause });
            Some(is_gone.and_then(|reason| obstacle.map_or(Ok(reason), Err)))
        }
        LeftoverKind::Checkpoint => Some(rule_removes(context, leftover)),
        LeftoverKind::Address | LeftoverKind::Task => Some(Err(KeepReason::ShownOnly {})),
        // It is no file.
        LeftoverKind::Unreferenced => None,
    }
}

/// Decides what nothing in the store of containerd refers to, if the store was read: containerd removes all of it with one call.
pub(super) fn decide_unreferenced(step: &mut Step) {
    let context = step.context;
    let snapshot = context.snapshot;
    let is_containerd = snapshot.runtime.as_ref().is_some_and(|runtime| runtime.name == CONTAINERD);
    let Some(store) = snapshot.store.as_ref().filter(|_| is_containerd) else { return };
    let Some(images) = snapshot.image_filesystem.as_ref().filter(|_| store.missing.is_empty()) else { return };
    let created = store.unreferenced(context.now).filter_map(|part| part.created_at);
    let oldest = created.filter(|at| context.now.duration_since(*at) > SETTLED).min();
    let Some(oldest) = oldest else { return };
    let usage = store.unreferenced(context.now).map(StorePart::usage).fold(DirUsage::default(), DirUsage::and);
    let target = Target::CollectUnreferenced { store: images.mountpoint.clone() };
    let object = target.with(None, Some(context.age_seconds(oldest)), Some(usage.bytes));
    let is_selected = selected(context, LeftoverKind::Unreferenced);
    step.decide(object, is_selected.map(|()| RemoveReason::Unreferenced {}));
}

/// The kubelet writes a checkpoint for some time.
fn rule_removes(context: &Context, leftover: &Leftover) -> Result<RemoveReason, KeepReason> {
    let rule = context.rules.checkpoint(leftover)?.filter(|rule| rule.text().then == Then::Remove);
    let Some(rule) = rule else { return Err(KeepReason::NoRule {}) };
    settled(context, leftover).map(|()| rule.removes(None))
}

fn settled(context: &Context, leftover: &Leftover) -> Result<(), KeepReason> {
    match leftover.modified_at.filter(|at| context.now.duration_since(*at) > SETTLED) {
        Some(_) => Ok(()),
        None => Err(KeepReason::YoungerThanMinAge { min_age_seconds: SETTLED.as_secs() }),
    }
}

/// Returns why nothing of a kind is removed, if so.
fn selected(context: &Context, kind: LeftoverKind) -> Result<(), KeepReason> {
    let is_selected = context.policy.leftovers.0.contains(&kind) || kind == LeftoverKind::Checkpoint;
    if is_selected { Ok(()) } else { Err(KeepReason::NotSelected { leftover: kind }) }
}

fn pod_is_gone(context: &Context, in_runtime: &InRuntime, uid: &PodUid) -> Option<Result<RemoveReason, KeepReason>> {
    let proof = context.pods.of_directory(uid)?;
    Some(proof.and_then(|()| match in_runtime.result() {
        Ok(uids) if uids.contains(uid) => Err(KeepReason::PodInRuntime {}),
        Ok(_) => Ok(RemoveReason::PodDeleted {}),
        Err(cause) => Err(KeepReason::RuntimeNotSeen { cause: cause.to_owned() }),
    }))
}

/// The newest files of a container are not among the leftovers. In a crash loop the kubelet makes more while a pass begins. The recheck
/// compares the others with the mounts of its instances.
fn instance_is_gone(context: &Context, leftover: &Leftover) -> Result<RemoveReason, KeepReason> {
    if let Some(cause) = context.snapshot.containers.cause() {
        return Err(KeepReason::RuntimeNotSeen { cause: cause.to_owned() });
    }
    if context.gaps.may_miss_containers(leftover.pod.as_ref().map(|pod| &pod.uid)) {
        return Err(KeepReason::ListIncomplete { list: "containers".to_owned() });
    }
    context.pods.why_untrusted().map_or(Ok(()), |reason| Err(reason.clone()))?;
    settled(context, leftover).map(|()| RemoveReason::InstanceGone {})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::{PartKind, PodRef, Runtime, RuntimeStore, Seen, Snapshot};
    use crate::plan::document::action::Kind;
    use crate::plan::policy::{Leftovers, Policy};
    use crate::plan::tests::node::{Node, Row, ago, hold, node};
    use crate::plan::update_memory;
    use crate::rules::{Rule, RuleSubject, RuleText};

    #[test]
    #[rustfmt::skip]
    fn i21_the_record_of_an_image_is_only_shown() {
        let record = || node().left_over(LeftoverKind::PullRecord, "record", 60);
        let named = |policy: &mut Policy| policy.leftovers.0.extend([LeftoverKind::PullRecord]);
        hold(&[Kind::Leftover], [
            ("the default", record(), "record: protects_image", "") as Row,
            ("the setting names it", record().set(named), "record: protects_image", ""),
            ("the kubelet's own rules", record().kubelet(), "record: protects_image", ""),
        ]);
    }

    #[test]
    #[rustfmt::skip]
    fn the_termination_log_of_an_instance_goes_that_the_runtime_lost() {
        let log_of = |age| node().pod("web").running("web/app", "c", 1).left_over(LeftoverKind::TerminationLog, "01234567", age);
        let log = || log_of(60);
        let no_containers = |snapshot: &mut Snapshot| snapshot.containers = Seen::NotSeen("no answer".into());
        let just_started = |snapshot: &mut Snapshot| snapshot.listening_since = Seen::Seen(Some(ago(0)));
        hold(&[Kind::Leftover], [
            ("the runtime has a newer instance", log(), "", "01234567: instance_gone") as Row,
            ("it may be in the making", log_of(9), "01234567: younger_than_min_age", ""),
            ("the list of containers is unavailable", log().but(no_containers), "01234567: runtime_not_seen", ""),
            ("the runtime has just started", log().but(just_started), "01234567: runtime_just_started", ""),
            ("the setting is empty", log().set(|policy| policy.leftovers.0.clear()), "01234567: not_selected", ""),
        ]);
    }

    /// A pod of which only the kubelet's directory is left for two minutes. It does not count for the list of a source without a kubelet.
    fn orphan() -> Node {
        orphan_of("u-gone")
    }

    /// A uid as the API server gives it.
    const OF_API: &str = "247610f4-dedd-4ab7-a47d-07dbda19c81c";

    fn orphan_of(uid: &'static str) -> Node {
        node()
            .left_over(LeftoverKind::PodDirectory, uid, 60)
            .set(|policy| policy.leftovers.0.extend([LeftoverKind::PodDirectory]))
            .but(move |snapshot| {
                let Seen::Seen(leftovers) = &mut snapshot.leftovers else { return };
                leftovers[0].pod = Some(PodRef { uid: uid.into(), ..PodRef::default() });
                let Seen::Seen(list) = &mut snapshot.pods else { return };
                list.source = "kube-api+kubelet".to_owned();
                snapshot.memory.orphaned_since.insert(uid.into(), ago(2));
            })
    }

    #[test]
    #[rustfmt::skip]
    fn the_directory_of_a_deleted_pod_goes_if_asked_for() {
        let source = |name: &'static str| move |snapshot: &mut Snapshot| if let Seen::Seen(list) = &mut snapshot.pods { list.source = name.to_owned() };
        let since = |minutes: i64| move |snapshot: &mut Snapshot| _ = snapshot.memory.orphaned_since.insert("u-gone".into(), ago(minutes));
        let obstacle = |snapshot: &mut Snapshot| {
            if let Seen::Seen(leftovers) = &mut snapshot.leftovers { leftovers[0].obstacle = Some("a mount".to_owned()); }
        };
        hold(&[Kind::Leftover], [
            ("it is asked for", orphan(), "", "u-gone: pod_deleted") as Row,
            ("the default", orphan().set(|policy| policy.leftovers = Leftovers::default()), "u-gone: not_selected", ""),
            ("it is missing for the first time", orphan().but(|snapshot| snapshot.memory.orphaned_since.clear()), "u-gone: pod_missing", ""),
            ("it is missing for too short a time", orphan().but(since(0)), "u-gone: pod_missing", ""),
            ("it is listed", orphan().pod("u-gone"), "", ""),
            ("the list is incomplete", orphan().incomplete(), "", ""),
            ("the list is unavailable", orphan().without_pod_list(), "", ""),
            ("the runtime alone lists pods", orphan().but(source("runtime")), "u-gone: pod_not_confirmable", ""),
            ("a static pod has a mirror pod at most at the API server", orphan().but(source("kube-api")), "u-gone: pod_not_confirmable", ""),
            ("the API server gave its uid", orphan_of(OF_API).but(source("kube-api")), "", "247610f4-dedd-4ab7-a47d-07dbda19c81c: pod_deleted"),
            ("deletions need no proof", orphan().set(|policy| policy.guards.gone_after = std::time::Duration::ZERO),
                "u-gone: pod_not_confirmable", ""),
            ("something is mounted in it", orphan().but(obstacle), "u-gone: foreign_path", ""),
            ("something of it runs", orphan().running("u-gone/app", "c", 9), "", ""),
            ("the runtime still has something of it", orphan().exited("u-gone/app", "c", 30), "u-gone: pod_in_runtime", ""),
            ("the runtime has just started",
                orphan().but(|snapshot| snapshot.listening_since = Seen::Seen(Some(ago(0)))), "u-gone: runtime_just_started", ""),
            ("the list of containers is unavailable",
                orphan().but(|snapshot| snapshot.containers = Seen::NotSeen("no answer".into())), "u-gone: runtime_not_seen", ""),
            ("a removal failed before", orphan().failed("leftover//var/lib/kubelet/u-gone", 1), "u-gone: backing_off", ""),
        ]);
    }

    #[test]
    fn what_only_its_program_can_remove_is_shown() {
        let address = node().left_over(LeftoverKind::Address, "10.88.0.7", 60);
        let named = address.set(|policy| policy.leftovers.0.extend([LeftoverKind::Address]));
        let task = node().left_over(LeftoverKind::Task, "ab12", 60);
        hold(
            &[Kind::Leftover],
            [("an address", named, "10.88.0.7: shown_only", ""), ("a bundle", task, "ab12: shown_only", "")],
        );
    }

    #[test]
    #[rustfmt::skip]
    fn a_checkpoint_goes_by_a_rule() {
        let checkpoint = |age| node().left_over(LeftoverKind::Checkpoint, "c.tar", age);
        let rule = |then: Then, when: &'static str| move |policy: &mut Policy| {
            let text = RuleText { name: "r".into(), subject: RuleSubject::Checkpoint, when: when.into(), then: then.clone(), until: None, resource: String::new(), note: String::new() };
            policy.rules = [Rule::compile(text).unwrap()].into_iter().collect();
        };
        let hour = "checkpoint.age > duration('1h')";
        let unnamed = |policy: &mut Policy| policy.leftovers.0.clear();
        hold(&[Kind::Leftover], [
            ("no rule", checkpoint(600), "c.tar: no_rule", "") as Row,
            ("a rule removes it", checkpoint(61).set(rule(Then::Remove, hour)).set(unnamed), "", "c.tar: rule"),
            ("it is younger", checkpoint(59).set(rule(Then::Remove, hour)), "c.tar: no_rule", ""),
            ("a rule keeps it", checkpoint(61).set(rule(Then::Keep, hour)), "c.tar: rule", ""),
            ("it is in the making", checkpoint(9).set(rule(Then::Remove, "true")), "c.tar: younger_than_min_age", ""),
            ("it has just been finished", checkpoint(10).set(rule(Then::Remove, "true")), "c.tar: younger_than_min_age", ""),
            ("it is from the future", checkpoint(-9).set(rule(Then::Remove, "true")), "c.tar: younger_than_min_age", ""),
            ("a removal failed before",
                checkpoint(61).set(rule(Then::Remove, hour)).failed("leftover//var/lib/kubelet/c.tar", 1), "c.tar: backing_off", ""),
            ("the profile of the kubelet", checkpoint(61).kubelet().set(rule(Then::Remove, hour)), "", "c.tar: rule"),
        ]);
    }

    /// A store with a layer that an image holds, and one that nothing does.
    fn unreferenced(created: i64) -> Node {
        node()
            .set(|policy| policy.leftovers.0.extend([LeftoverKind::Unreferenced]))
            .layers("r.example/held:1", &[("held", 5)])
            .but(move |snapshot| {
                snapshot.runtime = Seen::Seen(Runtime { name: "containerd".to_owned(), ..Runtime::default() });
                let Seen::Seen(store) = &mut snapshot.store else { return };
                let part = |name: &str| StorePart {
                    name: name.into(),
                    bytes: Some(7),
                    created_at: Some(ago(created)),
                    ..StorePart::default()
                };
                let Seen::Seen(disk) = &mut snapshot.image_filesystem else { return };
                disk.mountpoint = "/var/lib/images".into();
                store.parts[0].created_at = Some(ago(600));
                store.parts.extend([part("loose"), StorePart { kind: PartKind::Download, ..part("download") }]);
            })
    }

    #[test]
    #[rustfmt::skip]
    fn containerd_is_asked_to_collect_what_nothing_refers_to() {
        let store = |change: fn(&mut RuntimeStore)| move |snapshot: &mut Snapshot| if let Seen::Seen(store) = &mut snapshot.store { change(store) };
        let of_crio = |snapshot: &mut Snapshot| snapshot.runtime = Seen::Seen(Runtime { name: "cri-o".to_owned(), ..Runtime::default() });
        let holds = |store: &mut RuntimeStore| store.holders[0].refs.push(1);
        hold(&[Kind::Leftover], [
            ("it is old enough", unreferenced(11), "", "images: unreferenced") as Row,
            ("it is in the making", unreferenced(9), "", ""),
            ("its age is unknown", unreferenced(11).but(store(|store| store.parts[1].created_at = None)), "", ""),
            ("an image holds it", unreferenced(11).but(store(holds)), "", ""),
            ("a list of the store is missing", unreferenced(11).but(store(|store| store.missing.push("leases".into()))), "", ""),
            ("the store was not read", unreferenced(11).but(|snapshot| snapshot.store = Seen::NotRead), "", ""),
            ("the runtime has no such call", unreferenced(11).but(of_crio), "", ""),
            ("the default", unreferenced(11).set(|policy| policy.leftovers = Leftovers::default()), "images: not_selected", ""),
            ("a collection left it", unreferenced(11).failed("leftover//var/lib/images", 1), "images: backing_off", ""),
        ]);
    }

    #[test]
    fn a_directory_is_left_over_since_the_first_list_without_its_pod() {
        let after = |node: Node| update_memory(&node.snapshot(), &Policy::default()).orphaned_since;
        let dirs = |node: Node| {
            node.but(|snapshot| snapshot.pod_dirs = Seen::Seen(vec!["u-gone".into(), "u-new".into(), "web".into()]))
        };
        let orphan = || dirs(orphan()).pod("web");
        assert_eq!(after(orphan()), [("u-gone".into(), ago(2)), ("u-new".into(), ago(0))].into());
        assert_eq!(after(orphan().incomplete()), [("u-gone".into(), ago(2))].into(), "as before");
        assert_eq!(after(orphan().pod("u-gone").pod("u-new")), BTreeMap::new());
        let future = orphan().but(|snapshot| _ = snapshot.memory.orphaned_since.insert("u-gone".into(), ago(-9)));
        assert_eq!(after(future).get(&PodUid::from("u-gone")), Some(&ago(0)));
    }
}
