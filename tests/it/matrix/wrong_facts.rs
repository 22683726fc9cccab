//! The expectations of a fact that is wrong in every item of an answer.

use kubegc::sim::{Defect, Fault, Rpc, WrongFact};

use super::cell::{CellFault, Often, Scope};
use super::expect::{CONTAINER, IMAGE, LOG_DIR, LOG_LINK, SANDBOX};
use super::node::TERMINATED;
use super::protected::Things;
use super::run::{Reference, Run};

pub const ALL: [WrongFact; 6] = [
    WrongFact::CreatedIn1970,
    WrongFact::CreatedAtOnce,
    WrongFact::CreatedInFuture,
    WrongFact::AttemptsReversed,
    WrongFact::EmptyPath,
    WrongFact::RelativePath,
];

/// A created container of an existing pod that is not the newest of its slot.
const SUPERSEDED: &str = "container crash-0/late#0";

/// Returns the kinds that are removed although a fact in the answers of this method is wrong: all, except what `keeps`
/// keeps. Images are removed by the thresholds, which need the file system of the images, or under disk pressure.
pub fn removable_kinds(scope: Scope, method: Rpc) -> Vec<&'static str> {
    let mut kinds = vec![CONTAINER, SANDBOX, LOG_DIR, LOG_LINK];
    if method != Rpc::ImageFsInfo || scope == Scope::Pressure {
        kinds.push(IMAGE);
    }
    kinds
}

/// Says whether a thing is kept while a fact is wrong.
pub fn keeps(scope: Scope, method: Rpc, fault: Fault, thing: &str) -> bool {
    let Fault::Answer(Defect::Wrong(wrong)) = fault else { return false };
    let goes_with_its_pod = [" gone-", " bare-"].iter().any(|pod| thing.contains(pod))
        || (scope == Scope::Pressure && thing.contains(TERMINATED));
    let (of_containers, of_sandboxes) = match method {
        Rpc::ListContainers | Rpc::StreamContainers => (true, false),
        Rpc::ListPodSandbox | Rpc::StreamPodSandboxes => (false, true),
        _ => return false,
    };
    match wrong {
        // An object of unknown age counts as young: a created container may be about to start, and a container may be
        // about to be created in a sandbox.
        WrongFact::CreatedIn1970 | WrongFact::CreatedInFuture => {
            (of_containers && thing == SUPERSEDED) || (of_sandboxes && thing.starts_with(SANDBOX))
        }
        // The oldest instance of a pod that exists is the newest one by attempt.
        WrongFact::AttemptsReversed => {
            let kind = if of_containers { CONTAINER } else { SANDBOX };
            thing.starts_with(kind) && thing.ends_with("#0") && !goes_with_its_pod
        }
        WrongFact::CreatedAtOnce | WrongFact::EmptyPath | WrongFact::RelativePath => false,
    }
}

/// Returns what was removed although a fact is wrong in every answer, and its right value is needed for that. The age of
/// an object from the future counts from the first pass that saw it, and `guards.sandbox_grace` ends before the second.
pub fn lost(run: &Run, reference: &Reference, method: Rpc, fault: Fault, often: Often) -> Vec<String> {
    if often == Often::Once {
        return Vec::new();
    }
    let scope = run.cell().scope;
    let ages =
        |thing: &str| fault == Fault::Answer(Defect::Wrong(WrongFact::CreatedInFuture)) && thing.starts_with(SANDBOX);
    let is_kept =
        |thing: &&String| keeps(scope, method, fault, thing) && !ages(thing) || needs_path(run, method, fault, thing);
    let removed = reference.before.difference(&reference.first);
    removed.filter(is_kept).filter(|thing| !run.things.contains(*thing)).cloned().collect()
}

/// Says whether the removal of a thing needs a path: that of log files in a directory that is kept, or that of the file
/// system of the images.
fn needs_path(run: &Run, method: Rpc, fault: Fault, thing: &str) -> bool {
    let Fault::Answer(Defect::Wrong(WrongFact::EmptyPath | WrongFact::RelativePath)) = fault else { return false };
    match method {
        Rpc::ContainerStatus => is_log_in_kept_dir(&run.things, thing),
        Rpc::ImageFsInfo => run.cell().scope != Scope::Pressure && thing.starts_with(IMAGE),
        _ => false,
    }
}

fn is_log_in_kept_dir(things: &Things, thing: &str) -> bool {
    let dir = thing.strip_prefix(LOG_DIR).and_then(|path| path.split('/').next());
    dir.is_some_and(|dir| things.contains(&format!("{LOG_DIR}{dir}")))
}

/// Says whether the log files of removed containers are not known.
pub fn hides_logs(run: &Run) -> bool {
    let CellFault::Call { method: Rpc::ContainerStatus, fault: Fault::Answer(defect), .. } = run.cell().fault else {
        return false;
    };
    matches!(defect, Defect::Wrong(WrongFact::EmptyPath | WrongFact::RelativePath))
}
