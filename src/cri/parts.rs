//! Lists that are too large for one message, received in parts by the CRI's own filters.
//!
//! A server refuses an answer above its limit (containerd's `max_send_message_size`, 16 MiB, which about 18,500 exited
//! containers exceed: kubernetes#134750), and the list stays too large until something is removed. Containers are listed
//! by state, then by state and sandbox; sandboxes by state, then by the pods that are known from elsewhere. Another error
//! than the refusal fails the list as a whole.
//!
//! **Changes between the parts.** A container only moves forward through CREATED, RUNNING, UNKNOWN, EXITED, some states
//! left out. The parts are listed in this order, so one that leaves a state before that state's part is listed is in the
//! part of a later state: each container that existed at the first part is found, or was removed since. One that moves
//! between two parts is in both, and the later one counts. Sandboxes move from READY to NOTREADY alone.

use std::collections::{BTreeSet, HashMap};
use std::pin::pin;

use futures::stream::{self, StreamExt};

use super::lists::{Listed, Received};
use super::reader::RuntimeReader;
use super::{CriError, convert, generated as pb, lists};
use crate::model::{Container, Image, ListReceipt, MissingPart, PartState, PodRef, PodUid, Sandbox};

/// Parts under way at the same time: each may take as much memory as one message.
const AT_ONCE: usize = 4;

/// The states of containers, in the order in which a container passes through them.
const CONTAINER_STATES: [(PartState, pb::ContainerState); 4] = [
    (PartState::Created, pb::ContainerState::ContainerCreated),
    (PartState::Running, pb::ContainerState::ContainerRunning),
    (PartState::Unknown, pb::ContainerState::ContainerUnknown),
    (PartState::Exited, pb::ContainerState::ContainerExited),
];

/// The states of sandboxes, in the same way.
const SANDBOX_STATES: [(PartState, pb::PodSandboxState); 2] = [
    (PartState::Ready, pb::PodSandboxState::SandboxReady),
    (PartState::NotReady, pb::PodSandboxState::SandboxNotready),
];

/// A list, whole or in parts, and how it was received.
#[derive(Debug)]
pub struct List<T> {
    /// What was received, each object once.
    pub items: Vec<T>,
    /// How. Parts may be missing.
    pub receipt: ListReceipt,
    call: &'static str,
}

/// A list that is being received in parts.
struct Parts<T> {
    items: Vec<T>,
    /// Where each object is in `items`, by its id.
    places: HashMap<String, usize>,
    id: fn(&T) -> &str,
    receipt: ListReceipt,
}

// === impl List ===

impl<T> List<T> {
    fn whole(call: &'static str, received: Received<T>) -> Self {
        let Received { items, bytes, streamed } = received;
        Self { items, receipt: ListReceipt { bytes, parts: 1, streamed, ..ListReceipt::default() }, call }
    }

    /// The same with each object once: a runtime may list one twice, and the later entry counts.
    fn distinct(call: &'static str, received: Received<T>, id: fn(&T) -> &str) -> Self {
        let mut parts = Parts::new(None, id);
        parts.receipt.streamed = received.streamed;
        parts.add(received);
        parts.into_list(call)
    }

    /// Why the list is not complete, if so.
    pub fn incomplete(&self) -> Option<CriError> {
        if self.receipt.missing.is_empty() {
            return None;
        }
        let missing: Vec<_> = self.receipt.missing.iter().map(ToString::to_string).collect();
        let refused = self.receipt.refused.clone().unwrap_or_default();
        Some(CriError::TooLarge { call: self.call, refused, missing: first_of(&missing) })
    }

    /// The objects of a complete list.
    ///
    /// # Errors
    /// Parts are missing.
    pub fn complete(self) -> Result<Vec<T>, CriError> {
        self.incomplete().map_or(Ok(self.items), Err)
    }
}

// === impl RuntimeReader ===

impl RuntimeReader {
    /// Lists containers in every state, in parts where the list is too large. `pods` names pods that may have
    /// sandboxes, for the case that the sandboxes are too many as well.
    pub async fn container_list(&self, pods: &[PodUid]) -> Result<List<Container>, CriError> {
        match self.all_containers().await {
            Err(error) if error.is_too_large() => self.containers_in_parts(pods, &error).await,
            whole => Ok(List::distinct(lists::Containers::UNARY.name(), whole?, lists::Containers::id)),
        }
    }

    /// Lists sandboxes, in parts where the list is too large. `pods` names pods that may have some: beyond the states
    /// only their sandboxes can be listed one pod at a time.
    pub async fn sandbox_list(&self, pods: &[PodUid]) -> Result<List<Sandbox>, CriError> {
        match self.all_sandboxes().await {
            Err(error) if error.is_too_large() => self.sandboxes_in_parts(pods, &error).await,
            whole => Ok(List::distinct(lists::Sandboxes::UNARY.name(), whole?, lists::Sandboxes::id)),
        }
    }

    /// Lists images. The CRI has no filter that divides them.
    pub async fn image_list(&self) -> Result<List<Image>, CriError> {
        let call = lists::Images::UNARY.name();
        match self.all_images().await {
            Err(error) if error.is_too_large() => {
                Err(CriError::TooLarge { call, refused: cause(&error), missing: "all images".to_owned() })
            }
            whole => Ok(List::whole(call, whole?)),
        }
    }

    async fn containers_in_parts(&self, pods: &[PodUid], refused: &CriError) -> Result<List<Container>, CriError> {
        let mut parts = Parts::new(Some(refused), lists::Containers::id);
        // Listed after the first part was asked for, so that it has the sandbox of each container that existed then.
        let mut sandboxes = None;
        for (state, wanted) in CONTAINER_STATES {
            let filter = pb::ContainerFilter { state: Some(container_state(wanted)), ..pb::ContainerFilter::default() };
            match self.some_containers(filter.clone()).await {
                Err(error) if error.is_too_large() => {
                    let listed = match sandboxes {
                        Some(listed) => listed,
                        None => self.sandbox_list(pods).await?,
                    };
                    self.containers_by_sandbox(state, &filter, &listed, &mut parts).await?;
                    sandboxes = Some(listed);
                }
                part => parts.add(part?),
            }
        }
        Ok(parts.into_list(lists::Containers::UNARY.name()))
    }

    /// The containers in one state, one sandbox at a time.
    async fn containers_by_sandbox(
        &self,
        state: PartState,
        filter: &pb::ContainerFilter,
        sandboxes: &List<Sandbox>,
        parts: &mut Parts<Container>,
    ) -> Result<(), CriError> {
        let ask = |Sandbox { id, pod, .. }: Sandbox| {
            let filter = pb::ContainerFilter { pod_sandbox_id: id.to_string(), ..filter.clone() };
            let part = MissingPart { state, sandbox_id: Some(id), pod };
            async move { (part, self.some_containers(filter).await) }
        };
        receive(sandboxes.items.clone().into_iter().map(ask), parts).await?;
        if !sandboxes.receipt.missing.is_empty() {
            parts.miss(MissingPart { state, sandbox_id: None, pod: None });
        }
        Ok(())
    }

    async fn sandboxes_in_parts(&self, pods: &[PodUid], refused: &CriError) -> Result<List<Sandbox>, CriError> {
        let mut parts = Parts::new(Some(refused), lists::Sandboxes::id);
        let mut too_large = Vec::new();
        for (state, wanted) in SANDBOX_STATES {
            let value = pb::PodSandboxStateValue { state: wanted.into() };
            let filter = pb::PodSandboxFilter { state: Some(value), ..pb::PodSandboxFilter::default() };
            match self.some_sandboxes(filter).await {
                Err(error) if error.is_too_large() => too_large.push(state),
                part => parts.add(part?),
            }
        }
        if !too_large.is_empty() {
            // Pods of which one sandbox was listed are listed too, so that of each listed pod all sandboxes are known.
            let listed = parts.items.iter().filter_map(|sandbox| sandbox.pod_uid().cloned());
            let uids: BTreeSet<PodUid> = listed.chain(pods.iter().cloned()).filter(|uid| !uid.is_empty()).collect();
            self.sandboxes_by_pod(&too_large, uids, &mut parts).await?;
        }
        Ok(parts.into_list(lists::Sandboxes::UNARY.name()))
    }

    /// The sandboxes of some pods, one pod at a time. That no other pod has any cannot be proven.
    async fn sandboxes_by_pod(
        &self,
        states: &[PartState],
        uids: BTreeSet<PodUid>,
        parts: &mut Parts<Sandbox>,
    ) -> Result<(), CriError> {
        for &state in states {
            parts.miss(MissingPart { state, sandbox_id: None, pod: None });
        }
        let state = states.first().copied().unwrap_or(PartState::NotReady);
        let asks = uids.into_iter().map(|uid| {
            let label_selector = convert::pod_selector(&uid);
            let filter = pb::PodSandboxFilter { label_selector, ..pb::PodSandboxFilter::default() };
            let part = MissingPart { state, sandbox_id: None, pod: Some(PodRef { uid, ..PodRef::default() }) };
            async move { (part, self.some_sandboxes(filter).await) }
        });
        receive(asks, parts).await
    }
}

/// Asks for parts, some at once, and adds each. What is too large is noted as missing.
async fn receive<T, F>(asks: impl Iterator<Item = F>, parts: &mut Parts<T>) -> Result<(), CriError>
where
    F: Future<Output = (MissingPart, Result<Received<T>, CriError>)>,
{
    let mut answers = pin!(stream::iter(asks).buffer_unordered(AT_ONCE));
    while let Some((part, answer)) = answers.next().await {
        parts.add_or_miss(answer, part)?;
    }
    Ok(())
}

// === impl Parts ===

impl<T> Parts<T> {
    /// `refused` is the refusal of the whole list, if parts are received because of it.
    fn new(refused: Option<&CriError>, id: fn(&T) -> &str) -> Self {
        let receipt = ListReceipt { refused: refused.map(cause), ..ListReceipt::default() };
        Self { items: Vec::new(), places: HashMap::new(), id, receipt }
    }

    /// Adds a part. Of an object that is known already the later state counts.
    fn add(&mut self, part: Received<T>) {
        self.receipt.parts += 1;
        self.receipt.bytes += part.bytes;
        for item in part.items {
            let place = self.places.get((self.id)(&item)).copied();
            if let Some(known) = place.and_then(|place| self.items.get_mut(place)) {
                *known = item;
            } else {
                self.places.insert((self.id)(&item).to_owned(), self.items.len());
                self.items.push(item);
            }
        }
    }

    fn miss(&mut self, part: MissingPart) {
        self.receipt.missing.push(part);
    }

    /// Adds a part, or notes that it is missing because it is too large.
    fn add_or_miss(&mut self, part: Result<Received<T>, CriError>, named: MissingPart) -> Result<(), CriError> {
        match part {
            Err(error) if error.is_too_large() => self.miss(named),
            part => self.add(part?),
        }
        Ok(())
    }

    fn into_list(self, call: &'static str) -> List<T> {
        List { items: self.items, receipt: self.receipt, call }
    }
}

fn container_state(state: pb::ContainerState) -> pb::ContainerStateValue {
    pb::ContainerStateValue { state: state.into() }
}

/// What the server said, without the call.
fn cause(error: &CriError) -> String {
    match error {
        CriError::Call { status, .. } => status.message().to_owned(),
        other => other.to_string(),
    }
}

/// The first of many, and how many more.
fn first_of(all: &[String]) -> String {
    match all {
        [first] => first.clone(),
        [first, rest @ ..] => format!("{first}, and {} more", rest.len()),
        [] => String::new(),
    }
}
