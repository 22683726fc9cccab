//! The images of a node during a replay: those of the replay, and those that the node had.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

use crate::model::{
    CRI_NAMESPACE, Container, ContainerState, DiskSample, FileSystem, ImageEvent, ImageId, ImageMemory, Memory,
    PodList, RuntimeStore, Seen, Snapshot, StoreHolder, StorePart, Trace, TraceEvent, TracedImage,
};
use crate::plan::{KeepReason, Kept};

/// The images at one time.
pub(super) struct World<'t> {
    trace: &'t Trace,
    /// The state of each image of the trace.
    states: Vec<State>,
    numbers: HashMap<&'t ImageId, usize>,
    /// The bytes of the images of the replay.
    pub bytes: u64,
    /// The bytes of the images that the node had.
    recorded_bytes: u64,
}

/// The state of one image.
#[derive(Clone, Debug, Default)]
struct State {
    /// Whether the replay has it.
    is_there: bool,
    /// Whether the node had it.
    was_there: bool,
    is_used: bool,
    first_seen: Option<Timestamp>,
    last_used: Option<Timestamp>,
    /// Whether the replay removed it last.
    is_removed: bool,
    /// Until when a plan keeps it although it is old, if nothing happens to it.
    held_until: Option<Timestamp>,
}

/// The unused images at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unused {
    pub any: bool,
    pub since: Option<Timestamp>,
}

// === impl World ===

impl<'t> World<'t> {
    /// Returns the node at a time, with the images that it had.
    pub fn at(trace: &'t Trace, at: Timestamp) -> Self {
        let states = vec![State::default(); trace.images.len()];
        let numbers = trace.images.iter().enumerate().map(|(number, image)| (image.id(), number)).collect();
        let mut world = Self { trace, states, numbers, bytes: 0, recorded_bytes: 0 };
        for event in trace.events.iter().take_while(|event| event.at < at) {
            world.apply(event);
            if event.event == ImageEvent::Collected {
                world.take(event.image);
            }
        }
        world.states.iter_mut().for_each(|state| state.is_removed = false);
        world
    }

    /// Applies an event. A removal by kubegc does not count, because the replay decides itself. Returns the image if that pulls it
    /// again.
    pub fn apply(&mut self, event: &TraceEvent) -> Option<&'t TracedImage> {
        let image = self.trace.images.get(event.image)?;
        let state = self.states.get_mut(event.image)?;
        let was_there = match event.event {
            ImageEvent::Appeared => true,
            ImageEvent::Removed | ImageEvent::Collected => false,
            ImageEvent::Used | ImageEvent::LastUsed => state.was_there,
        };
        match (state.was_there, was_there) {
            (false, true) => self.recorded_bytes = self.recorded_bytes.saturating_add(image.bytes()),
            (true, false) => self.recorded_bytes = self.recorded_bytes.saturating_sub(image.bytes()),
            _ => {}
        }
        state.was_there = was_there;
        match event.event {
            ImageEvent::Appeared => return self.need(event),
            ImageEvent::Used => {
                let pull = self.need(event);
                let state = self.states.get_mut(event.image)?;
                (state.is_used, state.last_used, state.held_until) = (true, Some(event.at), None);
                return pull;
            }
            ImageEvent::LastUsed => (state.is_used, state.last_used) = (false, state.last_used.max(Some(event.at))),
            ImageEvent::Removed => {
                self.take(event.image);
                self.states.get_mut(event.image)?.is_removed = false;
            }
            ImageEvent::Collected => state.is_used = false,
        }
        None
    }

    /// Pulls an image, unless it is there. Returns it if the replay had removed it.
    fn need(&mut self, event: &TraceEvent) -> Option<&'t TracedImage> {
        let (image, state) = (self.trace.images.get(event.image)?, self.states.get_mut(event.image)?);
        if state.is_there {
            return None;
        }
        let is_again = state.is_removed;
        *state = State {
            is_there: true,
            first_seen: Some(event.at),
            ..State { is_used: state.is_used, was_there: state.was_there, ..State::default() }
        };
        self.bytes = self.bytes.saturating_add(image.bytes());
        is_again.then_some(image)
    }

    /// Removes an image from the replay.
    fn take(&mut self, number: usize) {
        let (Some(image), Some(state)) = (self.trace.images.get(number), self.states.get_mut(number)) else { return };
        if state.is_there {
            self.bytes = self.bytes.saturating_sub(image.bytes());
            *state = State { is_there: false, is_used: false, is_removed: true, ..*state };
        }
    }

    /// Removes an image that a plan removes. Returns its position and its bytes.
    pub fn remove(&mut self, id: &ImageId) -> Option<(usize, u64)> {
        let number = *self.numbers.get(id)?;
        self.take(number);
        Some((number, self.trace.images.get(number)?.bytes()))
    }

    /// Returns the file system of a sample with the images of the replay in place of those that the node had.
    pub fn disk(&self, sample: &DiskSample) -> FileSystem {
        let capacity_bytes = sample.file_system.capacity_bytes;
        let available = i128::from(capacity_bytes) - self.bytes_of_others(sample) - i128::from(self.bytes);
        let available_bytes = u64::try_from(available.max(0)).unwrap_or(u64::MAX).min(capacity_bytes);
        FileSystem { available_bytes, free_bytes: None, inodes: None, inodes_free: None, ..sample.file_system.clone() }
    }

    /// Returns the used bytes of a sample without the images that the node had. Less than 0 if their layers take less than they count.
    fn bytes_of_others(&self, sample: &DiskSample) -> i128 {
        let FileSystem { capacity_bytes, available_bytes, .. } = sample.file_system;
        i128::from(capacity_bytes) - i128::from(available_bytes) - i128::from(self.recorded_bytes)
    }

    /// Returns the unused images that are not pinned: whether there are any, and since when the first of those is unused that no plan
    /// holds. An image that was never used counts from its first sight, or from the beginning of time.
    pub fn unused(&self, now: Timestamp, never_used_is_old: bool) -> Unused {
        let is_unused = |(image, state): &(&TracedImage, &State)| !image.image.pinned && !state.is_used_at(now);
        let since = |state: &State| {
            let first_seen = state.first_seen.filter(|_| !never_used_is_old).unwrap_or(Timestamp::MIN);
            state.last_used.max(state.first_seen.filter(|_| state.last_used.is_some())).unwrap_or(first_seen)
        };
        let is_held = |state: &State| state.held_until.is_some_and(|until| now <= until);
        let free = self.present().filter(|pair| is_unused(pair) && !is_held(pair.1));
        let since = free.map(|(_, state)| since(state)).min();
        Unused { any: self.present().any(|pair| is_unused(&pair)), since }
    }

    /// Notes why a plan keeps an image at `now`. Neither the age nor the disk changes what a pattern keeps.
    pub fn hold(&mut self, kept: &Kept, now: Timestamp) {
        let Some(state) = self.numbers.get(&ImageId::from(kept.id.as_str())).and_then(|at| self.states.get_mut(*at))
        else {
            return;
        };
        let since = state.last_used.max(state.first_seen).unwrap_or(now);
        state.held_until = match kept.reason {
            KeepReason::PulledAgain { unused_seconds, .. } => {
                since.checked_add(SignedDuration::from_secs(unused_seconds)).ok()
            }
            KeepReason::KeepPattern { .. } => Some(Timestamp::MAX),
            _ => None,
        };
    }

    /// Returns a snapshot of the replay before a pass, as the node would have made it; without images in use, unless their bytes
    /// count for `totals`.
    pub fn snapshot(&self, now: Timestamp, disk: FileSystem, memory: Memory, totals: bool) -> Snapshot {
        let listed: Vec<_> = self.present().filter(|(_, state)| totals || !state.is_used_at(now)).collect();
        let listed = || listed.iter().copied();
        let images = listed().map(|(image, _)| image.image.clone()).collect();
        let containers =
            listed().filter(|(_, state)| state.is_used_at(now)).map(|(image, _)| container(image, now)).collect();
        let past = listed().filter(|(_, state)| state.first_seen < Some(now));
        let memory_of = |(image, state): (&TracedImage, &State)| ImageMemory {
            id: image.id().clone(),
            first_seen: state.first_seen,
            last_used: state.last_used,
            last_used_by: image.last_used_by.clone(),
        };
        let memory = Memory { images: past.map(memory_of).collect(), ..memory };
        let store = Seen::Seen(store(listed().map(|(image, _)| image)));
        let pods = PodList { source: "trace".into(), complete: true, ..PodList::default() };
        Snapshot {
            listening_since: Seen::Seen(None),
            sandbox_image: Seen::Seen(None),
            image_uses: Seen::Seen(()),
            images: Seen::Seen(images),
            containers: Seen::Seen(containers),
            image_filesystem: Seen::Seen(disk),
            pods: Seen::Seen(pods),
            store,
            memory,
            ..Snapshot::unobserved(now)
        }
    }

    /// Notes that the images in use are in use at a pass.
    pub fn use_now(&mut self, now: Timestamp) {
        for state in self.states.iter_mut().filter(|state| state.is_there && state.is_used) {
            state.last_used = Some(now);
        }
    }

    fn present(&self) -> impl Iterator<Item = (&'t TracedImage, &State)> {
        self.trace.images.iter().zip(&self.states).filter(|(_, state)| state.is_there)
    }
}

// === impl State ===

impl State {
    /// Returns whether a pass now finds it in use. The trace has the last pass that did.
    fn is_used_at(&self, now: Timestamp) -> bool {
        self.is_used || self.last_used == Some(now)
    }
}

fn container(image: &TracedImage, now: Timestamp) -> Container {
    Container {
        id: image.id().as_str().into(),
        sandbox_id: "".into(),
        pod: None,
        name: String::new(),
        attempt: 0,
        state: ContainerState::Running,
        created_at: now,
        finished_at: None,
        exit_code: None,
        exit_reason: None,
        log_bytes: None,
        image_id: Some(image.id().to_string()),
        image: None,
        image_volumes: Vec::new(),
        image_volumes_unknown: None,
    }
}

/// Returns a store of the runtime in which each image has one layer.
fn store<'t>(images: impl Iterator<Item = &'t TracedImage> + Clone) -> RuntimeStore {
    let layer = |image: &TracedImage| StorePart {
        name: image.id().to_string(),
        bytes: Some(image.bytes()),
        ..StorePart::default()
    };
    let holder = |(number, image): (usize, &TracedImage)| StoreHolder {
        namespace: CRI_NAMESPACE.to_owned(),
        name: image.id().to_string(),
        refs: vec![number],
        ..StoreHolder::default()
    };
    let (parts, holders) = (images.clone().map(layer).collect(), images.enumerate().map(holder).collect());
    RuntimeStore { parts, holders, ..RuntimeStore::default() }
}
