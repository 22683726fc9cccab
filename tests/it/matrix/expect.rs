//! The expectations of a cell.

use std::collections::BTreeMap;

use kubegc::cri::generated as pb;
use kubegc::sim::{Defect, Fault, Rpc};
use tonic::Code;

use super::cell::{CellFault, Often, Scope, is_of_store};
use super::node::{GONE, TERMINATED};
use super::protected::{Things, Why, held, protected};
use super::run::{Reference, Run};
use super::stage::Kind;
use super::wrong_facts;

pub const CONTAINER: &str = "container ";
pub const SANDBOX: &str = "sandbox ";
pub const IMAGE: &str = "image ";
pub const LOG_DIR: &str = "log pods/";
pub const LOG_LINK: &str = "log containers/";

/// Expects that nothing protected was removed.
pub fn kept(run: &mut Run, kind: Kind, removed: &Things, protected: &BTreeMap<String, Why>) {
    for thing in removed {
        match protected.get(thing) {
            Some(why) if !is_waived(run, *why) => run.fail(class(*why), format!("{kind:?} removed {thing}")),
            _ => {}
        }
    }
}

/// Expects that a container is removed by its own call, never with its sandbox (I1).
pub fn removed_by_id(run: &mut Run, kind: Kind, before: &[pb::Container]) {
    let (now, calls) = (run.stage.sim.state().container_ids(), run.stage.sim.calls_of(Rpc::RemoveContainer));
    let is_lost = |container: &&pb::Container| !now.contains(&container.id) && !calls.contains(&container.id);
    let lost = before.iter().filter(is_lost).count();
    if lost > 0 {
        run.fail("sandbox with containers removed", format!("{kind:?}: {lost} containers were removed with it"));
    }
}

/// Expects that everything that does not need the failing method was removed (I13).
pub fn untouched(run: &mut Run, reference: &Reference, method: Rpc, fault: Fault, often: Often) {
    let left = left(run, &reference.first, &reference.before);
    for kind in untouched_kinds(run.cell().scope, method, fault, often) {
        let is_due = |thing: &&String| {
            let waits = needs_sandboxes(method, thing) || wrong_facts::keeps(run.cell().scope, method, fault, thing);
            thing.starts_with(kind) && !may_differ(run, thing) && !waits
        };
        let mut of_kind = left.iter().filter(is_due);
        if let Some(first) = of_kind.next() {
            run.fail("untouched not collected", format!("{first} and {} more", of_kind.count()));
        }
    }
    let of_own_kind = left.iter().filter(|thing| thing.starts_with(own_kind(method))).count();
    // Without an answer to the removal of an image its space is not measured, and no other image is removed in that
    // pass.
    let ends_its_kind = method == Rpc::RemoveImage && !matches!(fault, Fault::Fail(_) | Fault::Answer(_));
    if often == Often::Once && !own_kind(method).is_empty() && !ends_its_kind && of_own_kind > 1 {
        run.fail("one failure stops the rest", format!("{of_own_kind} left where one call failed"));
    }
}

/// Expects that nothing was removed for whose removal a wrong fact is needed.
pub fn unused_facts(run: &mut Run, reference: &Reference, method: Rpc, fault: Fault, often: Often) {
    let lost = wrong_facts::lost(run, reference, method, fault, often);
    if let Some(first) = lost.first() {
        run.fail("wrong fact used", format!("{} things, as {first}", lost.len()));
    }
}

/// A container of unknown state may run as long as nothing says that its sandbox is not ready.
fn needs_sandboxes(method: Rpc, thing: &str) -> bool {
    matches!(method, Rpc::ListPodSandbox | Rpc::StreamPodSandboxes) && thing.contains("/lost#")
}

/// Expects that the rounds after the fault remove the same objects as rounds without a fault, and nothing else.
pub fn healed(run: &mut Run, reference: &Reference) {
    let differing = |a: &Things, b: &Things| {
        let differing: Vec<_> = a.difference(b).filter(|thing| !may_differ(run, thing)).cloned().collect();
        differing.first().map(|first| format!("{} things, as {first}", differing.len()))
    };
    let (left, missing) = (differing(&run.things, &reference.last), differing(&reference.last, &run.things));
    if let Some(left) = left {
        run.fail("left after healing", left);
    }
    if let Some(missing) = missing {
        run.fail("removed too much", missing);
    }
}

/// Returns what the reference removed in its first round, and this cell did not remove although it could.
pub fn left(run: &Run, reference: &Things, before: &Things) -> Things {
    let protected = protected(&run.stage, &run.things, run.cell().scope == Scope::Pressure);
    let held = held(&run.stage, &run.things);
    let is_free = |thing: &&String| !protected.contains_key(*thing) && !held.contains(*thing);
    before.difference(reference).filter(|thing| run.things.contains(*thing)).filter(is_free).cloned().collect()
}

/// Returns the kinds that are removed without this method.
fn untouched_kinds(scope: Scope, method: Rpc, fault: Fault, often: Often) -> Vec<&'static str> {
    if let Fault::Answer(Defect::Wrong(_)) = fault {
        return wrong_facts::removable_kinds(scope, method);
    }
    // A list that becomes much shorter proves nothing (I12).
    let falls = matches!(fault, Fault::Answer(Defect::Empty | Defect::Truncated));
    match method {
        // Sandboxes and objects of deleted pods are removed only if the lists are trusted (I12). Garbage in the IDs of
        // images makes the list shorter.
        Rpc::ListImages | Rpc::StreamImages if falls || fault == Fault::Answer(Defect::Garbage) => Vec::new(),
        Rpc::ListImages | Rpc::StreamImages | Rpc::ImageStatus | Rpc::RemoveImage | Rpc::Status => {
            vec![CONTAINER, SANDBOX, LOG_DIR, LOG_LINK]
        }
        Rpc::ImageFsInfo if scope == Scope::Pressure => vec![CONTAINER, SANDBOX, LOG_DIR, LOG_LINK, IMAGE],
        Rpc::ImageFsInfo => vec![CONTAINER, SANDBOX, LOG_DIR, LOG_LINK],
        Rpc::StopPodSandbox | Rpc::RemovePodSandbox => vec![CONTAINER, LOG_DIR, LOG_LINK, IMAGE],
        Rpc::ListPodSandbox | Rpc::StreamPodSandboxes if falls => Vec::new(),
        // A sandbox in an unknown state counts as ready, so its pod counts as running.
        Rpc::ListPodSandbox | Rpc::StreamPodSandboxes if fault == Fault::Answer(Defect::Garbage) => vec![IMAGE],
        Rpc::ListPodSandbox | Rpc::StreamPodSandboxes => vec![CONTAINER, IMAGE],
        Rpc::StopContainer | Rpc::RemoveContainer => vec![SANDBOX, LOG_DIR, LOG_LINK, IMAGE],
        Rpc::ContainerStatus if often == Often::Once => vec![SANDBOX, LOG_DIR, IMAGE],
        Rpc::ContainerStatus => vec![SANDBOX, LOG_DIR],
        // If a runtime does not answer the first call, the others are not tried.
        Rpc::Version if matches!(fault, Fault::Fail(Code::Internal | Code::PermissionDenied)) => {
            vec![CONTAINER, SANDBOX, LOG_DIR, LOG_LINK]
        }
        Rpc::Version if matches!(fault, Fault::Answer(_)) => vec![CONTAINER, SANDBOX, LOG_DIR, LOG_LINK],
        // Nothing depends on the store of the runtime.
        method if is_of_store(method) => vec![CONTAINER, SANDBOX, LOG_DIR, LOG_LINK, IMAGE],
        _ => Vec::new(),
    }
}

/// Returns the kind of which a failing call leaves one object.
fn own_kind(method: Rpc) -> &'static str {
    match method {
        Rpc::StopContainer | Rpc::RemoveContainer | Rpc::ContainerStatus => CONTAINER,
        Rpc::StopPodSandbox | Rpc::RemovePodSandbox => SANDBOX,
        Rpc::ImageStatus | Rpc::RemoveImage => IMAGE,
        _ => "",
    }
}

/// Says whether the times in the list of containers are garbage. They are the only evidence of which instance is the
/// newest.
fn has_no_ages(run: &Run) -> bool {
    let CellFault::Call { method, fault, .. } = run.cell().fault else { return false };
    matches!(method, Rpc::ListContainers | Rpc::StreamContainers) && fault == Fault::Answer(Defect::Garbage)
}

/// Says whether an invariant cannot hold. Without ages this is true of I3 and I4, and of I7 for the logs of the
/// containers that they protect. If the list has a container with an ID that does not exist, nothing shows its image
/// volumes (I6).
fn is_waived(run: &Run, why: Why) -> bool {
    has_no_ages(run) && matches!(why, Why::I3 | Why::I4 | Why::I6 | Why::I7)
}

/// Says whether a thing may differ from the reference. If a runtime reports a wrong log file when a container is
/// removed, the right one is not known later. If it reports wrong states of sandboxes, containers of unknown state stay,
/// and so their image was used later. The logs of a terminated pod stay under disk pressure, but go with an instance that an
/// earlier pass removed because it was over the limit.
fn may_differ(run: &Run, thing: &str) -> bool {
    let has_garbage = |methods: &[Rpc]| match run.cell().fault {
        CellFault::Call { method, fault, .. } => methods.contains(&method) && fault == Fault::Answer(Defect::Garbage),
        _ => false,
    };
    let wrong_log = has_garbage(&[Rpc::ContainerStatus]) || wrong_facts::hides_logs(run);
    if has_garbage(&[Rpc::ListPodSandbox, Rpc::StreamPodSandboxes]) && thing == format!("{IMAGE}{GONE}") {
        return true;
    }
    let is_log = thing.starts_with(LOG_DIR) || thing.starts_with(LOG_LINK);
    let is_of_container = is_log || [CONTAINER, IMAGE].iter().any(|kind| thing.starts_with(kind));
    let is_of_terminated = run.cell().scope == Scope::Pressure && is_log && thing.contains(TERMINATED);
    is_of_terminated || (wrong_log && thing.starts_with(LOG_DIR)) || (has_no_ages(run) && is_of_container)
}

fn class(why: Why) -> &'static str {
    match why {
        Why::I1 => "I1 broken",
        Why::I3 => "I3 broken",
        Why::I4 => "I4 broken",
        Why::I5 => "I5 broken",
        Why::I6 => "I6 broken",
        Why::I7 => "I7 broken",
    }
}
