//! The invariants of ARCHITECTURE.md, on random nodes.
//!
//! `PROPTEST_CASES=20000` runs more cases. Each property compares what a plan leaves with what must remain, computed
//! from the snapshot alone.

mod log_limits;
mod nodes;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kubegc_core::model::{Container, ContainerState, Image, Pod, PodUid, SandboxState, Snapshot, attempt_of_log};
use kubegc_core::plan::{
    Confirmed, Guards, Kind, Plan, Policy, Profile, RemoveReason, Scope, Target, confirm, decide, update_memory,
};
use kubegc_core::rules::{Rules, Then};
pub use nodes::now;
use nodes::{a_node, a_policy};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn i1_running_containers_and_used_sandboxes_are_never_removed(node in a_node(), policy in a_policy(), kubelet: bool) {
        let policy = if kubelet { without_guards(policy) } else { policy };
        holds_i1(&node, &decide(&node, &policy, Scope::All))?;
    }

    #[test]
    fn i2_an_incomplete_pod_list_proves_no_pod_deleted(node in a_node(), policy in a_policy()) {
        holds_i2(&node, &decide(&node, &policy, Scope::All))?;
    }

    #[test]
    fn i3_the_newest_instance_is_kept_until_pod_deletion(node in a_node(), policy in a_policy()) {
        holds_i3(&node, &decide(&node, &policy, Scope::All))?;
    }

    #[test]
    fn i4_a_container_that_may_start_is_kept(node in a_node(), policy in a_policy()) {
        holds_i4(&node, &decide(&node, &policy, Scope::All))?;
    }

    #[test]
    fn i5_objects_that_are_not_the_kubelets_are_kept(node in a_node(), policy in a_policy()) {
        holds_i5(&decide(&node, &policy, Scope::All))?;
    }

    #[test]
    fn i6_an_image_in_use_is_kept(node in a_node(), policy in a_policy()) {
        holds_i6(&node, &decide(&node, &policy, Scope::All), &policy)?;
    }

    #[test]
    fn i7_log_paths_are_one_name_beneath_their_root(node in a_node(), policy in a_policy()) {
        holds_i7(&decide(&node, &policy, Scope::All), &policy)?;
    }

    #[test]
    fn i9_images_reach_the_target_or_report_a_shortfall(node in a_node(), policy in a_policy()) {
        let plan = decide(&node, &policy, Scope::Images);
        let size_if = |is_for: fn(&RemoveReason) -> bool| -> Vec<u64> {
            of_kind(&plan, Kind::Image).filter(|action| is_for(&action.reason)).map(|action| size(&action.target)).collect()
        };
        let for_space = size_if(|reason| matches!(reason, RemoveReason::Space { .. }));
        let by_rule = size_if(|reason| matches!(reason, RemoveReason::Rule(_)));
        let sum: u64 = for_space.iter().chain(&by_rule).sum();
        prop_assert!(sum + plan.images.shortfall_bytes >= plan.images.target_bytes);
        if let Some(last) = for_space.last() {
            prop_assert!(sum - last < plan.images.target_bytes, "one image too many");
        }
        prop_assert!(plan.images.shortfall_bytes == 0 || !plan.errors.is_empty());
        prop_assert!(plan.images.shortfall_bytes == 0 || plan.images.reserve.is_empty());
    }

    #[test]
    fn i11_a_pod_is_deleted_only_with_complete_proof(node in a_node(), policy in a_policy()) {
        holds_i11(&node, &decide(&node, &policy, Scope::All))?;
    }

    #[test]
    fn i12_an_untrusted_list_proves_nothing(node in a_node(), policy in a_policy()) {
        holds_i12(&node, &decide(&node, &policy, Scope::All))?;
    }

    #[test]
    fn a_foreign_saved_plan_breaks_no_invariant(node in a_node(), before in a_node(), is_same: bool, policy in a_policy(), other in a_policy(), kubelet: bool) {
        let other = if kubelet { without_guards(other) } else { other };
        let saved = decide(if is_same { &node } else { &before }, &other, Scope::All);
        let Confirmed { plan, denied } = confirm(saved.clone(), &node, &policy);
        prop_assert_eq!(plan.actions.len() + denied.len(), saved.actions.len());
        hold(&node, &plan, &policy)?;
    }

    #[test]
    fn a_saved_plan_is_fully_confirmed_on_its_node(node in a_node(), policy in a_policy()) {
        let saved = decide(&node, &policy, Scope::All);
        let Confirmed { plan, denied } = confirm(saved.clone(), &node, &policy);
        prop_assert_eq!((plan.actions, plan.images.reserve, denied), (saved.actions, saved.images.reserve, vec![]));
    }

    #[test]
    fn every_object_is_removed_or_kept_and_never_both(node in a_node(), policy in a_policy()) {
        let plan = decide(&node, &policy, Scope::All);
        let removed = plan.actions.iter().map(kubegc_core::plan::Action::key);
        let kept = plan.kept.iter().map(|kept| kubegc_core::plan::key(kept.kind, &kept.id));
        let mut decided: Vec<_> = removed.chain(kept).collect();
        decided.sort();
        let mut all = nodes::keys(&node, &policy, &plan);
        all.sort();
        prop_assert_eq!(decided, all);
    }

    #[test]
    fn shuffled_lists_give_the_same_plan(node in a_node(), policy in a_policy(), seed: u64) {
        prop_assert_eq!(decide(&nodes::shuffled(&node, seed), &policy, Scope::All), decide(&node, &policy, Scope::All));
    }

    #[test]
    fn a_carried_out_plan_leaves_nothing_to_do(node in a_node(), policy in a_policy()) {
        let node = nodes::believed(node); // The next pass may remove what this one keeps because of untrusted lists.
        let plan = decide(&node, &policy, Scope::All);
        let after = decide(&nodes::carried_out(&node, &plan, &policy), &policy, Scope::All);
        prop_assert_eq!(after.actions, vec![]);
    }

    #[test]
    fn keep_rules_only_keep_more(node in a_node(), mut policy in a_policy()) {
        policy.rules = policy.rules.iter().filter(|rule| rule.text().then == Then::Keep).cloned().collect();
        let with = decide(&node, &policy, Scope::Containers);
        let without = decide(&node, &Policy { rules: Rules::default(), ..policy }, Scope::Containers);
        for kind in [Kind::Container, Kind::Sandbox, Kind::LogDir, Kind::LogLink] {
            prop_assert!(gone(&with, kind).is_subset(&gone(&without, kind)));
        }
        // What is in a removed directory is removed with it.
        let dirs = gone(&without, Kind::LogDir);
        let is_in_dir = |file: &String| dirs.iter().any(|dir| std::path::Path::new(file).starts_with(dir));
        let without = gone(&without, Kind::LogFile);
        prop_assert!(gone(&with, Kind::LogFile).iter().all(|file| without.contains(file) || is_in_dir(file)));
    }

    #[test]
    fn keep_rules_never_remove_an_unused_image(node in a_node(), mut policy in a_policy()) {
        policy.images.all_unused = true; // For space, an image that is kept can cost another one.
        policy.rules = policy.rules.iter().filter(|rule| rule.text().then == Then::Keep).cloned().collect();
        let with = decide(&node, &policy, Scope::Images);
        let without = decide(&node, &Policy { rules: Rules::default(), ..policy }, Scope::Images);
        prop_assert!(gone(&with, Kind::Image).is_subset(&gone(&without, Kind::Image)));
    }

    #[test]
    fn guards_only_keep_more_containers_and_sandboxes(node in a_node(), policy in a_policy()) {
        let node = nodes::without_attempts(node); // The guards order by attempt what the kubelet orders by age.
        let by_us = decide(&node, &policy, Scope::Containers);
        let by_kubelet = decide(&node, &without_guards(policy), Scope::Containers);
        for kind in [Kind::Container, Kind::Sandbox, Kind::LogDir, Kind::LogLink] {
            prop_assert!(gone(&by_us, kind).is_subset(&gone(&by_kubelet, kind)));
        }
    }

    #[test]
    fn memory_makes_no_new_image_old_or_pod_missing(node in a_node(), policy in a_policy()) {
        let memory = update_memory(&node, &policy);
        let known = |id| node.memory.images.iter().any(|image| image.id == id);
        if node.containers.as_ref().is_some() && node.images.as_ref().is_some() {
            for image in memory.images.iter().filter(|image| !known(image.id.clone())) {
                prop_assert_eq!(image.first_seen, Some(now()));
            }
        }
        for absence in &*memory.absent_since {
            let listed = node.pods.as_ref().is_some_and(|list| list.pods.iter().any(|pod| pod.uid == absence.uid));
            prop_assert!(!listed && !runs(&node, &absence.uid) && absence.since <= now());
        }
    }

    #[test]
    fn documents_read_back_as_they_were_written(node in a_node(), policy in a_policy()) {
        let plan = decide(&node, &policy, Scope::All);
        let written = (serde_json::to_string(&node).unwrap(), serde_json::to_string(&plan).unwrap());
        prop_assert_eq!(serde_json::from_str::<Snapshot>(&written.0).unwrap(), node);
        prop_assert_eq!(serde_json::from_str::<Plan>(&written.1).unwrap(), plan.clone());
        for (action, value) in plan.actions.iter().zip(serde_json::from_str::<serde_json::Value>(&written.1).unwrap()["actions"].as_array().unwrap()) {
            prop_assert_eq!(action.reason.kind(), value["reason"].as_str().unwrap());
            prop_assert!(!action.reason.explain().rule.is_empty());
        }
        for kept in &plan.kept {
            let value = serde_json::to_value(kept).unwrap();
            prop_assert_eq!(kept.reason.kind(), value["reason"].as_str().unwrap());
            prop_assert!(!kept.reason.explain().change.is_empty());
        }
    }
}

/// Checks each invariant of a plan. Of those, the profile `kubelet` has the first.
pub fn hold(node: &Snapshot, plan: &Plan, policy: &Policy) -> Result<(), TestCaseError> {
    holds_i1(node, plan)?;
    if policy.profile == Profile::Kubelet {
        return Ok(());
    }
    holds_i2(node, plan)?;
    holds_i3(node, plan)?;
    holds_i4(node, plan)?;
    holds_i5(plan)?;
    holds_i6(node, plan, policy)?;
    holds_i7(plan, policy)?;
    holds_i11(node, plan)?;
    holds_i12(node, plan)
}

fn holds_i1(node: &Snapshot, plan: &Plan) -> Result<(), TestCaseError> {
    let gone = gone(plan, Kind::Container);
    for container in containers(node) {
        if container.state == ContainerState::Running {
            prop_assert!(!gone.contains(container.id.as_str()));
        }
    }
    for sandbox in removed_sandboxes(node, plan) {
        prop_assert_eq!(sandbox.state, SandboxState::NotReady);
        let left = containers(node).iter().filter(|container| !gone.contains(container.id.as_str()));
        prop_assert_eq!(left.filter(|container| container.sandbox_id == sandbox.id).count(), 0);
    }
    Ok(())
}

fn holds_i2(node: &Snapshot, plan: &Plan) -> Result<(), TestCaseError> {
    let is_complete = node.pods.as_ref().is_some_and(|list| list.complete);
    let called_deleted = plan.actions.iter().any(|action| action.reason == RemoveReason::PodDeleted {});
    prop_assert!(is_complete || !called_deleted);
    Ok(())
}

fn holds_i3(node: &Snapshot, plan: &Plan) -> Result<(), TestCaseError> {
    let mut newest: BTreeMap<_, &Container> = BTreeMap::new();
    for container in containers(node) {
        let key = (container.pod_uid(), container.name.as_str());
        let newest = newest.entry(key).or_insert(container);
        let order = |one: &Container| (one.attempt, one.created_at, one.id.clone());
        if order(container) > order(newest) {
            *newest = container;
        }
    }
    for action in of_kind(plan, Kind::Container) {
        let is_newest = newest.values().any(|container| container.id.as_str() == action.target.id());
        let is_of_pod = matches!(action.reason, RemoveReason::PodDeleted {} | RemoveReason::PodTerminal { .. });
        prop_assert!(!is_newest || is_of_pod, "{:?}", action);
    }
    for action in of_kind(plan, Kind::LogFile) {
        let (path, pod) = (action.target.id(), action.pod.as_ref().unwrap());
        let [file, name] = [0, 1].map(|at| path.rsplit('/').nth(at).unwrap());
        let attempt = attempt_of_log(file).unwrap_or(u32::MAX);
        let of_slot = || containers(node).iter().filter(|one| one.pod_uid() == Some(&pod.uid) && one.name == name);
        let is_of_pod = matches!(action.reason, RemoveReason::PodDeleted {} | RemoveReason::PodTerminal { .. });
        prop_assert!(of_slot().all(|one| one.attempt != attempt), "{action:?}");
        prop_assert!(is_of_pod || of_slot().any(|one| one.attempt > attempt), "{action:?}");
    }
    Ok(())
}

fn holds_i4(node: &Snapshot, plan: &Plan) -> Result<(), TestCaseError> {
    let gone = gone(plan, Kind::Container);
    for container in containers(node).iter().filter(|container| container.state == ContainerState::Created) {
        let is_young = seconds_since(container.created_at) < 600.0;
        prop_assert!(!(is_young && gone.contains(container.id.as_str())));
    }
    Ok(())
}

fn holds_i5(plan: &Plan) -> Result<(), TestCaseError> {
    for action in plan.actions.iter().filter(|action| matches!(action.target.kind(), Kind::Container | Kind::Sandbox)) {
        prop_assert!(action.pod.as_ref().is_some_and(|pod| !pod.uid.is_empty()));
    }
    Ok(())
}

fn holds_i6(node: &Snapshot, plan: &Plan, policy: &Policy) -> Result<(), TestCaseError> {
    let next = plan.images.reserve.iter().map(|action| action.target.id());
    let gone: BTreeSet<_> = gone(plan, Kind::Image).into_iter().chain(next).collect();
    for image in node.images.as_ref().into_iter().flatten().filter(|image| gone.contains(image.id.as_str())) {
        prop_assert!(!is_needed(node, policy, image), "{:?}", image);
    }
    Ok(())
}

fn holds_i7(plan: &Plan, policy: &Policy) -> Result<(), TestCaseError> {
    for action in &plan.actions {
        let (path, root) = match &action.target {
            Target::RemoveLogDir { path } => (path, &policy.logs.pods_root),
            Target::RemoveLogLink { path } => (path, &policy.logs.containers_root),
            _ => continue,
        };
        prop_assert_eq!(path.parent(), Some(root.as_path()));
        let name = path.file_name().unwrap().to_str().unwrap();
        prop_assert!(name.matches('_').count() == 2, "{}", name);
    }
    Ok(())
}

fn holds_i11(node: &Snapshot, plan: &Plan) -> Result<(), TestCaseError> {
    for action in plan.actions.iter().filter(|action| action.reason == RemoveReason::PodDeleted {}) {
        let uid = &action.pod.as_ref().unwrap().uid;
        let list = node.pods.as_ref().unwrap();
        prop_assert!(list.complete && list.pods.iter().all(|pod| pod.uid != *uid));
        prop_assert!(!runs(node, uid));
        prop_assert!(node.pod_dirs.as_ref().is_some_and(|dirs| !dirs.contains(uid)));
        let since = node.memory.absent_since.iter().find(|absence| absence.uid == *uid).unwrap().since;
        prop_assert!(seconds_since(since) >= 60.0);
    }
    Ok(())
}

fn holds_i12(node: &Snapshot, plan: &Plan) -> Result<(), TestCaseError> {
    if is_doubtful(node) {
        prop_assert_eq!(of_kind(plan, Kind::Image).count(), 0);
        prop_assert_eq!(of_kind(plan, Kind::LogFile).count(), 0);
        let is_removed = |action: &kubegc_core::plan::Action| action.reason == RemoveReason::PodDeleted {};
        prop_assert!(!plan.actions.iter().any(is_removed), "{:?}", plan.actions);
    }
    Ok(())
}

fn without_guards(policy: Policy) -> Policy {
    Policy { profile: Profile::Kubelet, guards: Guards::of(Profile::Kubelet), ..policy }
}

fn containers(node: &Snapshot) -> &[Container] {
    node.containers.as_ref().map_or(&[], Vec::as_slice)
}

fn of_kind(plan: &Plan, kind: Kind) -> impl Iterator<Item = &kubegc_core::plan::Action> {
    plan.actions.iter().filter(move |action| action.target.kind() == kind)
}

fn gone(plan: &Plan, kind: Kind) -> BTreeSet<String> {
    of_kind(plan, kind).map(|action| action.target.id()).collect()
}

fn removed_sandboxes<'a>(node: &'a Snapshot, plan: &Plan) -> Vec<&'a kubegc_core::model::Sandbox> {
    let gone = gone(plan, Kind::Sandbox);
    let all = node.sandboxes.as_ref().into_iter().flatten();
    all.filter(|sandbox| gone.contains(sandbox.id.as_str())).collect()
}

fn seconds_since(moment: Timestamp) -> f64 {
    now().duration_since(moment).as_secs_f64()
}

fn size(target: &Target) -> u64 {
    match target {
        Target::RemoveImage { estimated_bytes, .. } => *estimated_bytes,
        _ => 0,
    }
}

fn runs(node: &Snapshot, uid: &PodUid) -> bool {
    let sandboxes = node.sandboxes.as_ref().into_iter().flatten();
    containers(node)
        .iter()
        .any(|container| container.state == ContainerState::Running && container.pod_uid() == Some(uid))
        || sandboxes.into_iter().any(|sandbox| sandbox.state == SandboxState::Ready && sandbox.pod_uid() == Some(uid))
}

fn is_needed(node: &Snapshot, policy: &Policy, image: &Image) -> bool {
    let names: Vec<&str> = std::iter::once(image.id.as_str()).chain(image.tags.iter().map(String::as_str)).collect();
    let has = |name: &str| names.contains(&name);
    let used = containers(node).iter().any(|container| {
        let by_name = container.image_id.iter().chain(&container.image).any(|name| has(name));
        by_name || container.image_volumes.iter().any(|name| has(name))
    });
    let may_mount =
        |container: &&Container| container.image_volumes_unknown.is_some() && container.state != ContainerState::Exited;
    let may_be_mounted = containers(node).iter().filter(may_mount).any(|container| {
        let mut pods = node.pods.as_ref().into_iter().flat_map(|list| &list.pods);
        let spec = pods.find(|pod| Some(&pod.uid) == container.pod_uid() && !pod.images.is_empty());
        spec.is_none_or(|pod| pod.images.iter().any(|name| has(name)))
    });
    let sandbox_image = node.sandbox_image.as_ref().and_then(Option::as_deref).is_some_and(has);
    // With `evict_terminated_pods`, terminated pods no longer need their images.
    let needs_none = |pod: &&Pod| policy.containers.evict_terminated_pods && pod.phase.is_terminal();
    let pods = node.pods.as_ref().into_iter().flat_map(|list| &list.pods).filter(|pod| !needs_none(pod));
    used || may_be_mounted
        || image.pinned
        || !node.image_uses.is_seen()
        || sandbox_image
        || node.pulling.iter().any(|name| has(name))
        || pods.flat_map(|pod| &pod.images).any(|name| has(name))
        || policy.images.keep.iter().any(|name| name.matches(image))
}

fn is_doubtful(node: &Snapshot) -> bool {
    let started = node.listening_since.as_ref().copied().flatten();
    let lengths = [
        node.containers.as_ref().map(Vec::len),
        node.sandboxes.as_ref().map(Vec::len),
        node.images.as_ref().map(Vec::len),
    ];
    let before = node.memory.last_counts.unwrap_or_default();
    let fell = |(before, now): (u64, Option<usize>)| {
        now.is_some_and(|now| now as u64 * 2 < before && (now == 0 || before - now as u64 >= 3))
    };
    let lists = [before.containers, before.sandboxes, before.images].into_iter().zip(lengths);
    started.is_some_and(|since| seconds_since(since) < 60.0) || lists.into_iter().any(fell)
}
