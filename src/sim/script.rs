//! What the tests ask of the calls: faults and hooks queued per method, and the log of what came.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use tonic::Code;

use super::defects::Defect;
use super::node::Node;

/// The calls of both services.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(missing_docs, reason = "the CRI's own names")]
pub enum Method {
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
}

/// One call that arrived.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Call {
    /// Which.
    pub method: Method,
    /// What it was about, as the caller spelt it: the id of its container, sandbox or image; for a list the id in its
    /// filter, else the sandbox in it; empty where there is none.
    pub id: String,
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// Nothing is done; the answer is this error.
    Fail(Code),
    /// Nothing is done, and there is never an answer.
    Hang,
    /// It begins after a while. Nothing is done if the caller gave up before.
    Slow(Duration),
    /// It is done at once and answered after a while.
    Late(Duration),
    /// It is done, and there is never an answer.
    DoThenHang,
    /// It is done, and then all connections break.
    DoThenCut,
    /// It is done, and its connection breaks after part of the answer.
    BreakOff,
    /// It is done, and the answer has a defect.
    Answer(Defect),
    /// Nothing is done, and the socket goes with all connections, until [`super::Sim::listen_again`].
    Vanish,
}

/// How many calls meet a fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Times {
    /// So many.
    N(usize),
    /// All from now on.
    Forever,
}

/// A change of the state.
pub(super) type Change = Box<dyn FnOnce(&mut Node) + Send>;

/// Faults, hooks and calls.
#[derive(Debug, Default)]
pub(super) struct Script {
    faults: VecDeque<Queued>,
    hooks: Vec<Hook>,
    calls: Vec<Call>,
}

#[derive(Debug)]
struct Queued {
    method: Method,
    /// The one object whose calls meet the fault; `None` = all calls do.
    id: Option<String>,
    fault: Fault,
    left: Times,
}

struct Hook {
    method: Method,
    /// Runs at the call that finds 1 here.
    calls_left: usize,
    change: Change,
}

// === impl Method ===

impl Method {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Version,
        Self::Status,
        Self::RunPodSandbox,
        Self::StopPodSandbox,
        Self::RemovePodSandbox,
        Self::ListPodSandbox,
        Self::StreamPodSandboxes,
        Self::CreateContainer,
        Self::StartContainer,
        Self::StopContainer,
        Self::RemoveContainer,
        Self::ListContainers,
        Self::StreamContainers,
        Self::ContainerStatus,
        Self::ListImages,
        Self::StreamImages,
        Self::ImageStatus,
        Self::RemoveImage,
        Self::ImageFsInfo,
    ];

    /// Says whether a call changes the state.
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

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

// === impl Call ===

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.method, self.id)
    }
}

// === impl Script ===

impl Script {
    pub(super) fn queue(&mut self, method: Method, id: Option<&str>, fault: Fault, left: Times) {
        self.faults.push_back(Queued { method, id: id.map(str::to_owned), fault, left });
    }

    pub(super) fn hook(&mut self, method: Method, nth: usize, change: Change) {
        self.hooks.push(Hook { method, calls_left: nth.max(1), change });
    }

    pub(super) fn heal(&mut self) {
        self.faults.clear();
        self.hooks.clear();
    }

    pub(super) fn calls(&self) -> &[Call] {
        &self.calls
    }

    pub(super) fn forget_calls(&mut self) {
        self.calls.clear();
    }

    /// Notes a call; returns what it meets and what changes before it.
    pub(super) fn arrive(&mut self, method: Method, id: &str) -> (Option<Fault>, Vec<Change>) {
        self.calls.push(Call { method, id: id.to_owned() });
        (self.next_fault(method, id), self.due_hooks(method))
    }

    fn next_fault(&mut self, method: Method, id: &str) -> Option<Fault> {
        self.faults.retain(|queued| queued.left != Times::N(0));
        let strikes =
            |queued: &&mut Queued| queued.method == method && queued.id.as_deref().is_none_or(|wanted| wanted == id);
        let queued = self.faults.iter_mut().find(strikes)?;
        if let Times::N(left) = &mut queued.left {
            *left -= 1;
        }
        Some(queued.fault)
    }

    fn due_hooks(&mut self, method: Method) -> Vec<Change> {
        for hook in self.hooks.iter_mut().filter(|hook| hook.method == method) {
            hook.calls_left -= 1;
        }
        self.hooks.extract_if(.., |hook| hook.calls_left == 0).map(|hook| hook.change).collect()
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
