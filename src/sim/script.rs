//! The faults and hooks that tests queue per method, and the record of calls.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use strum::{EnumIter, IntoEnumIterator as _};
use tonic::Code;

use super::defects::Defect;
use super::sim_node::Node;

/// The methods of both services, and the calls of containerd's own API.
#[derive(Clone, Copy, Debug, strum::Display, EnumIter, Eq, Hash, PartialEq)]
#[expect(missing_docs, reason = "the names of the CRI and of containerd's services")]
pub enum Rpc {
    Version,
    Status,
    RunPodSandbox,
    StopPodSandbox,
    RemovePodSandbox,
    ListPodSandbox,
    StreamPodSandboxes,
    CreateContainer,
    StartContainer,
    StopContainer,
    RemoveContainer,
    ListContainers,
    StreamContainers,
    ContainerStatus,
    ListContainerStats,
    ListImages,
    StreamImages,
    ImageStatus,
    RemoveImage,
    ImageFsInfo,
    // containerd's own API
    Namespaces,
    Plugins,
    StoreImages,
    StoreContainers,
    Blobs,
    Downloads,
    Snapshots,
    SnapshotUsage,
    Leases,
}

/// One call that arrived.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RecordedCall {
    pub method: Rpc,
    /// The object of the call, as written in the request: the id of the container, sandbox or image. For a list, the id
    /// in its filter, or else the sandbox in it. Empty if there is none.
    pub id: String,
}

/// A fault of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The call is not carried out; the answer is this error.
    Fail(Code),
    /// The call is not carried out; the answer is that of containerd while another removal of the container is in progress.
    InRemoval,
    /// The call is not carried out, and answered as if it was.
    Pretend,
    /// The call is not carried out and never answered.
    Hang,
    /// The call starts after this delay. It is not carried out if the caller gives up before.
    Slow(Duration),
    /// The call is carried out at once and answered after this delay.
    Late(Duration),
    /// The call is carried out and never answered.
    DoThenHang,
    /// The call is carried out, and then all connections break.
    DoThenCut,
    /// The call is carried out, and its connection breaks after part of the answer.
    BreakOff,
    /// The call is carried out, and the answer has a defect.
    Answer(Defect),
    /// The call is not carried out. The socket and all connections are removed until [`super::Sim::listen_again`].
    Vanish,
}

/// The number of calls that a fault affects.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Times {
    /// This many calls.
    N(usize),
    /// All calls from now on.
    Forever,
}

/// A change of the state.
pub(super) type Change = Box<dyn FnOnce(&mut Node) + Send>;

/// Sees a call, its object and the node, and chooses its fault.
pub(crate) struct Observer(pub Box<Observe>);

/// Returns how a call is answered, as the rule of a fault says it; `None` = as usual.
type Observe = dyn FnMut(Rpc, &str, &Node) -> Option<Fault> + Send;

/// The queued faults, the queued hooks and the recorded calls.
#[derive(Debug, Default)]
pub(super) struct Script {
    faults: VecDeque<Queued>,
    hooks: Vec<Hook>,
    calls: Vec<RecordedCall>,
}

#[derive(Debug)]
struct Queued {
    method: Rpc,
    /// The object whose calls the fault affects; `None` = all calls of the method.
    id: Option<String>,
    fault: Fault,
    left: Times,
}

struct Hook {
    method: Rpc,
    /// The number of calls until the hook runs. The hook runs at the call that finds 1 here.
    calls_left: usize,
    change: Change,
}

// === impl Rpc ===

impl Rpc {
    /// Returns all methods.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::iter()
    }

    /// Returns whether a call of this method changes the state.
    pub fn changes(self) -> bool {
        matches!(
            self,
            Self::RunPodSandbox
                | Self::StopPodSandbox
                | Self::RemovePodSandbox
                | Self::CreateContainer
                | Self::StartContainer
                | Self::StopContainer
                | Self::RemoveContainer
                | Self::RemoveImage
        )
    }
}

// === impl RecordedCall ===

impl fmt::Display for RecordedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.method, self.id)
    }
}

// === impl Script ===

impl Script {
    pub(super) fn queue(&mut self, method: Rpc, id: Option<&str>, fault: Fault, left: Times) {
        self.faults.push_back(Queued { method, id: id.map(str::to_owned), fault, left });
    }

    pub(super) fn hook(&mut self, method: Rpc, nth: usize, change: Change) {
        self.hooks.push(Hook { method, calls_left: nth.max(1), change });
    }

    pub(super) fn heal(&mut self) {
        self.faults.clear();
        self.hooks.clear();
    }

    pub(super) fn calls(&self) -> &[RecordedCall] {
        &self.calls
    }

    pub(super) fn forget_calls(&mut self) {
        self.calls.clear();
    }

    /// Records a call. Returns its fault, and the changes to make before it.
    pub(super) fn arrive(&mut self, method: Rpc, id: &str) -> (Option<Fault>, Vec<Change>) {
        self.calls.push(RecordedCall { method, id: id.to_owned() });
        (self.next_fault(method, id), self.due_hooks(method))
    }

    fn next_fault(&mut self, method: Rpc, id: &str) -> Option<Fault> {
        self.faults.retain(|queued| queued.left != Times::N(0));
        let applies =
            |queued: &&mut Queued| queued.method == method && queued.id.as_deref().is_none_or(|wanted| wanted == id);
        let queued = self.faults.iter_mut().find(applies)?;
        if let Times::N(left) = &mut queued.left {
            *left -= 1;
        }
        Some(queued.fault)
    }

    fn due_hooks(&mut self, method: Rpc) -> Vec<Change> {
        for hook in self.hooks.iter_mut().filter(|hook| hook.method == method) {
            hook.calls_left -= 1;
        }
        self.hooks.extract_if(.., |hook| hook.calls_left == 0).map(|hook| hook.change).collect()
    }
}

// === impl Observer ===

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

// === impl Hook ===

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook")
            .field("method", &self.method)
            .field("calls_left", &self.calls_left)
            .finish_non_exhaustive()
    }
}
