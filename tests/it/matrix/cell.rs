//! One cell of the matrix: the fault, the passes that it affects, and how often.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use kubegc::sim::{Defect, Fault, Rpc, Streaming, Times, WrongFact};
use tonic::Code;

use super::node::Size;
use super::stage::{Kind, LIMIT};

/// The passes of one round.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Scope {
    Containers,
    Images,
    /// Containers, then images, as the service starts them.
    Both,
    /// The same under disk pressure, where everything unused is removed.
    Pressure,
}

/// How often a fault occurs.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Often {
    /// In the first call.
    Once,
    /// In every call, in two rounds. The memory of the first round must not disable a guard in the second.
    Always,
}

/// When the clock is stepped.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum When {
    /// Before the first round.
    Before,
    /// After the first round.
    Between,
    /// In each of the first rounds, between its two passes.
    Within,
    /// Before the first round, and back after it.
    ThereAndBack,
}

/// The fault of a cell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CellFault {
    Nothing,
    Call { method: Rpc, fault: Fault, often: Often },
    Clock { by: SignedDuration, when: When },
}

/// One cell.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub fault: CellFault,
    pub scope: Scope,
}

pub const SCOPES: [Scope; 4] = [Scope::Containers, Scope::Images, Scope::Both, Scope::Pressure];
/// Longer than every limit.
const TOO_LATE: Duration = LIMIT.saturating_mul(3);
/// The methods that kubegc calls. It never calls methods that start something.
pub const METHODS: [Rpc; 26] = [
    Rpc::Version,
    Rpc::Status,
    Rpc::ListPodSandbox,
    Rpc::StreamPodSandboxes,
    Rpc::ListContainers,
    Rpc::StreamContainers,
    Rpc::ListImages,
    Rpc::StreamImages,
    Rpc::ContainerStatus,
    Rpc::ListContainerStats,
    Rpc::ImageStatus,
    Rpc::ImageFsInfo,
    Rpc::StopContainer,
    Rpc::RemoveContainer,
    Rpc::StopPodSandbox,
    Rpc::RemovePodSandbox,
    Rpc::RemoveImage,
    Rpc::Namespaces,
    Rpc::Plugins,
    Rpc::StoreImages,
    Rpc::StoreContainers,
    Rpc::Blobs,
    Rpc::Downloads,
    Rpc::Snapshots,
    Rpc::SnapshotUsage,
    Rpc::Leases,
];

/// Returns the cells of one fault: each method that a pass calls and whose answer can have the fault, in each scope,
/// once and always.
pub fn cells(fault: Fault) -> Vec<Cell> {
    let mut cells = Vec::new();
    for scope in SCOPES {
        for method in METHODS.into_iter().filter(|method| is_called(*method, scope) && can_have(*method, fault)) {
            let cell = |often| Cell { fault: CellFault::Call { method, fault, often }, scope };
            cells.extend([Often::Once, Often::Always].map(cell));
        }
    }
    cells
}

/// Returns the cells of clock steps.
pub fn clock_cells() -> Vec<Cell> {
    let hour = SignedDuration::from_hours(1);
    let year = hour * 24 * 365;
    let mut cells = Vec::new();
    for scope in SCOPES {
        for by in [-year, -hour, hour, year] {
            let whens = [When::Before, When::Between, When::Within, When::ThereAndBack];
            cells.extend(whens.map(|when| Cell { fault: CellFault::Clock { by, when }, scope }));
        }
    }
    cells
}

/// A call that is carried out, but answered after the deadline.
pub fn late() -> Fault {
    Fault::Late(TOO_LATE)
}

/// Says whether the passes of a scope call a method if there is no fault.
pub fn is_called(method: Rpc, scope: Scope) -> bool {
    match method {
        Rpc::ListContainerStats
        | Rpc::StopContainer
        | Rpc::RemoveContainer
        | Rpc::StopPodSandbox
        | Rpc::RemovePodSandbox => scope != Scope::Images,
        Rpc::ImageStatus | Rpc::RemoveImage => scope != Scope::Containers,
        method if is_of_store(method) => scope != Scope::Containers,
        _ => true,
    }
}

/// Says whether a call is one of containerd's own API. Only a pass that would remove an image makes it.
pub fn is_of_store(method: Rpc) -> bool {
    use Rpc::{Blobs, Downloads, Leases, Namespaces, Plugins, SnapshotUsage, Snapshots, StoreContainers, StoreImages};
    let all = [Namespaces, Plugins, StoreImages, StoreContainers, Blobs, Downloads, Snapshots, SnapshotUsage, Leases];
    all.contains(&method)
}

/// Says whether an answer can have a defect.
fn can_have(method: Rpc, fault: Fault) -> bool {
    let Fault::Answer(defect) = fault else { return true };
    if let Defect::Wrong(wrong) = defect {
        return has_fact(method, wrong);
    }
    match method {
        Rpc::Version | Rpc::Status | Rpc::Plugins | Rpc::SnapshotUsage => {
            matches!(defect, Defect::Empty | Defect::Garbage)
        }
        Rpc::ContainerStatus | Rpc::ImageStatus => {
            matches!(defect, Defect::Empty | Defect::WithoutId | Defect::Garbage)
        }
        method => !method.changes(),
    }
}

/// Says whether an answer has a fact.
fn has_fact(method: Rpc, wrong: WrongFact) -> bool {
    let is_list =
        matches!(method, Rpc::ListContainers | Rpc::StreamContainers | Rpc::ListPodSandbox | Rpc::StreamPodSandboxes);
    match wrong {
        WrongFact::CreatedIn1970 | WrongFact::CreatedAtOnce | WrongFact::CreatedInFuture => {
            is_list || method == Rpc::ContainerStatus
        }
        WrongFact::AttemptsReversed => is_list || matches!(method, Rpc::ContainerStatus | Rpc::ListContainerStats),
        WrongFact::EmptyPath | WrongFact::RelativePath => matches!(method, Rpc::ContainerStatus | Rpc::ImageFsInfo),
    }
}

// === impl Scope ===

impl Scope {
    /// Returns the passes, in order.
    pub fn passes(self) -> &'static [Kind] {
        match self {
            Self::Containers => &[Kind::Containers],
            Self::Images => &[Kind::Images],
            Self::Both => &[Kind::Containers, Kind::Images],
            Self::Pressure => &[Kind::ContainersUnderPressure, Kind::ImagesUnderPressure],
        }
    }
}

// === impl Often ===

impl Often {
    pub fn times(self) -> Times {
        match self {
            Self::Once => Times::N(1),
            Self::Always => Times::Forever,
        }
    }

    /// Returns the number of rounds under the fault.
    pub fn rounds(self) -> usize {
        match self {
            Self::Once => 1,
            Self::Always => 2,
        }
    }
}

// === impl Cell ===

impl Cell {
    /// Returns whether lists are streamed: only if the fault is one of a streamed list.
    pub fn streaming(&self) -> Streaming {
        match self.fault {
            CellFault::Call { method: Rpc::StreamContainers | Rpc::StreamPodSandboxes | Rpc::StreamImages, .. } => {
                Streaming::Batches(5)
            }
            _ => Streaming::Unimplemented,
        }
    }

    /// Returns the size of the node: wide if a method is called for each object and waits can add up.
    pub fn size(&self) -> Size {
        let CellFault::Call { method, fault, often: Often::Always } = self.fault else { return Size::Small };
        let for_each = method.changes() || matches!(method, Rpc::ContainerStatus | Rpc::ImageStatus);
        match fault {
            Fault::Hang | Fault::Late(_) if for_each => Size::Wide,
            // A removal is not retried if the runtime is unavailable.
            Fault::Fail(Code::Unavailable) if for_each && !method.changes() => Size::Wide,
            _ => Size::Small,
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scope = self.scope;
        match self.fault {
            CellFault::Nothing => write!(f, "nothing {scope:?}"),
            CellFault::Call { method, fault, often } => write!(f, "{method} {} {scope:?} {often:?}", name(fault)),
            CellFault::Clock { by, when } => write!(f, "clock {:+} h {scope:?} {when:?}", by.as_hours()),
        }
    }
}

fn name(fault: Fault) -> String {
    match fault {
        Fault::Fail(code) => format!("{code:?}"),
        Fault::Late(_) => "Late".to_owned(),
        Fault::Answer(Defect::Wrong(wrong)) => format!("{wrong:?}"),
        Fault::Answer(defect) => format!("{defect:?}"),
        fault => format!("{fault:?}"),
    }
}
