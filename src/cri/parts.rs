//! Receives lists that are too large for one message in parts, with the filters of the CRI.
//!
//! A server rejects an answer above its limit. containerd's `max_send_message_size` is 16 MiB, which about 18,500
//! exited containers exceed (kubernetes#134750). The list is too large until something is removed. Containers are
//! listed by state, then by state and sandbox. Sandboxes are listed by state, then by the pods that are known from
//! other sources. Any error other than "too large" fails the whole list.
//!
//! **Changes between the parts.** A container only moves forward through CREATED, RUNNING, UNKNOWN, EXITED, and may
//! skip states. The parts are listed in this order. A container that leaves a state before that state is listed appears
//! in the part of a later state. So each container that existed at the first part is found, or was removed since. A
//! container that changes its state between two parts is in both, and the later part counts. Sandboxes only move from
//! READY to NOTREADY.
//!
//! **A list with missing parts** is unavailable, and what was received is in `partial`. Slots are decided from it if
//! all their instances could be listed, so that the list becomes small enough again. Images wait. A pod is proven
//! deleted only if all RUNNING containers and READY sandboxes were listed.

use std::collections::{BTreeSet, HashMap};
use std::pin::pin;

use futures::stream::{self, StreamExt};

use super::lists::{Received, RuntimeList};
use super::reader::RuntimeReader;
use super::{CriError, convert, generated as pb};
use crate::model::{Container, Image, ListReceipt, MissingPart, PartState, PodRef, PodUid, Sandbox};

/// The number of parts requested at the same time. Each part may need as much memory as one message.
const AT_ONCE: usize = 4;

/// The container states, in the order in which a container passes through them.
const CONTAINER_STATES: [(PartState, pb::ContainerState); 4] = [
    (PartState::Created, pb::ContainerState::ContainerCreated),
    (PartState::Running, pb::ContainerState::ContainerRunning),
    (PartState::Unknown, pb::ContainerState::ContainerUnknown),
    (PartState::Exited, pb::ContainerState::ContainerExited),
];

/// The sandbox states, in the order in which a sandbox passes through them.
const SANDBOX_STATES: [(PartState, pb::PodSandboxState); 2] = [
    (PartState::Ready, pb::PodSandboxState::SandboxReady),
    (PartState::NotReady, pb::PodSandboxState::SandboxNotready),
];

/// A list, and how it was received: whole or in parts.
#[derive(Debug)]
pub struct List<T> {
    /// The received objects, each once.
    pub items: Vec<T>,
    /// How the list was received, and which parts are missing.
    pub receipt: ListReceipt,
    call: &'static str,
}

/// A list that is being received in parts.
struct Parts<T> {
    items: Vec<T>,
    /// The index of each object in `items`, by id.
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

    /// Returns a whole list with each object once. A runtime may list an object twice; the later entry counts.
    fn distinct(call: &'static str, received: Received<T>, id: fn(&T) -> &str) -> Self {
        let mut parts = Parts::new(None, id);
        parts.receipt.streamed = received.streamed;
        parts.add(received);
        parts.into_list(call)
    }

    /// Returns why the list is incomplete; `None` = it is complete.
    pub fn incomplete(&self) -> Option<CriError> {
        if self.receipt.missing.is_empty() {
            return None;
        }
        let missing: Vec<_> = self.receipt.missing.iter().map(ToString::to_string).collect();
        let refused = self.receipt.refused.clone().unwrap_or_default();
        Some(CriError::TooLarge { call: self.call, refused, missing: first_of(&missing) })
    }

    /// Returns the objects of a complete list.
    ///
    /// # Errors
    /// Parts are missing.
    pub fn complete(self) -> Result<Vec<T>, CriError> {
        self.incomplete().map_or(Ok(self.items), Err)
    }
}

// === impl RuntimeReader ===

impl RuntimeReader {
    /// Lists containers in every state, in parts if the list is too large. `pods` names pods that may have sandboxes.
    /// It is used only if the list of sandboxes is too large as well.
    pub async fn container_list(&self, pods: &[PodUid]) -> Result<List<Container>, CriError> {
        match self.all::<pb::LeanContainers>().await {
            Err(error) if error.is_too_large() => self.containers_in_parts(pods, &error).await,
            whole => Ok(List::distinct(pb::LeanContainers::UNARY.name(), whole?, pb::LeanContainers::id)),
        }
    }

    /// Lists sandboxes, in parts if the list is too large. `pods` names pods that may have sandboxes. If the list of
    /// one state is also too large, sandboxes can only be listed pod by pod.
    pub async fn sandbox_list(&self, pods: &[PodUid]) -> Result<List<Sandbox>, CriError> {
        match self.all::<pb::LeanSandboxes>().await {
            Err(error) if error.is_too_large() => self.sandboxes_in_parts(pods, &error).await,
            whole => Ok(List::distinct(pb::LeanSandboxes::UNARY.name(), whole?, pb::LeanSandboxes::id)),
        }
    }

    /// Lists images. The CRI has no filter that splits this list.
    pub async fn image_list(&self) -> Result<List<Image>, CriError> {
        let call = pb::ListImagesResponse::UNARY.name();
        match self.all::<pb::ListImagesResponse>().await {
            Err(error) if error.is_too_large() => {
                Err(CriError::TooLarge { call, refused: cause(&error), missing: "all images".to_owned() })
            }
            whole => Ok(List::whole(call, whole?)),
        }
    }

    async fn containers_in_parts(&self, pods: &[PodUid], refused: &CriError) -> Result<List<Container>, CriError> {
        let mut parts = Parts::new(Some(refused), pb::LeanContainers::id);
        // Listed after the first part was requested, so that it contains the sandbox of each container that existed
        // then.
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
        Ok(parts.into_list(pb::LeanContainers::UNARY.name()))
    }

    /// Lists the containers in one state, sandbox by sandbox.
    async fn containers_by_sandbox(
        &self,
        state: PartState,
        filter: &pb::ContainerFilter,
        sandboxes: &List<Sandbox>,
        parts: &mut Parts<Container>,
    ) -> Result<(), CriError> {
        let list_one = |Sandbox { id, pod, .. }: Sandbox| {
            let filter = pb::ContainerFilter { pod_sandbox_id: id.to_string(), ..filter.clone() };
            let part = MissingPart { state, sandbox_id: Some(id), pod };
            async move { (part, self.some_containers(filter).await) }
        };
        receive(sandboxes.items.iter().cloned().map(list_one), parts).await?;
        if !sandboxes.receipt.missing.is_empty() {
            parts.miss(MissingPart { state, sandbox_id: None, pod: None });
        }
        Ok(())
    }

    async fn sandboxes_in_parts(&self, pods: &[PodUid], refused: &CriError) -> Result<List<Sandbox>, CriError> {
        let mut parts = Parts::new(Some(refused), pb::LeanSandboxes::id);
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
            // Includes the pods that already have a listed sandbox, so that all sandboxes of each listed pod are known.
            let listed = parts.items.iter().filter_map(|sandbox| sandbox.pod_uid().cloned());
            let uids: BTreeSet<PodUid> = listed.chain(pods.iter().cloned()).filter(|uid| !uid.is_empty()).collect();
            self.sandboxes_by_pod(&too_large, uids, &mut parts).await?;
        }
        Ok(parts.into_list(pb::LeanSandboxes::UNARY.name()))
    }

    /// Lists the sandboxes of some pods, pod by pod. Records each state as missing, because other pods may have
    /// sandboxes too.
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
        let requests = uids.into_iter().map(|uid| {
            let label_selector = convert::pod_selector(&uid);
            let filter = pb::PodSandboxFilter { label_selector, ..pb::PodSandboxFilter::default() };
            let part = MissingPart { state, sandbox_id: None, pod: Some(PodRef { uid, ..PodRef::default() }) };
            async move { (part, self.some_sandboxes(filter).await) }
        });
        receive(requests, parts).await
    }
}

/// Requests parts, [`AT_ONCE`] at a time, and adds each. Records parts that are too large as missing.
async fn receive<T, F>(requests: impl Iterator<Item = F>, parts: &mut Parts<T>) -> Result<(), CriError>
where
    F: Future<Output = (MissingPart, Result<Received<T>, CriError>)>,
{
    let mut answers = pin!(stream::iter(requests).buffer_unordered(AT_ONCE));
    while let Some((part, answer)) = answers.next().await {
        parts.add_or_miss(answer, part)?;
    }
    Ok(())
}

// === impl Parts ===

impl<T> Parts<T> {
    /// Returns an empty list. `refused` is the error of the whole list, if that error is why parts are received.
    fn new(refused: Option<&CriError>, id: fn(&T) -> &str) -> Self {
        let receipt = ListReceipt { refused: refused.map(cause), ..ListReceipt::default() };
        Self { items: Vec::new(), places: HashMap::new(), id, receipt }
    }

    /// Adds a part. If an object is already in the list, the new entry with its later state replaces the old one.
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

    /// Adds a part, or records it as missing because it is too large.
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

/// Returns the server's message without the name of the call.
fn cause(error: &CriError) -> String {
    match error {
        CriError::Call { status, .. } => status.message().to_owned(),
        other => other.to_string(),
    }
}

/// Returns the first text and the number of the others.
fn first_of(all: &[String]) -> String {
    match all {
        [first] => first.clone(),
        [first, rest @ ..] => format!("{first}, and {} more", rest.len()),
        [] => String::new(),
    }
}
