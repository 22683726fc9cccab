//! The images of a node during a replay: those of the replay, and those that the node had.

use jiff::Timestamp;

use crate::model::{
    CRI_NAMESPACE, Container, ContainerState, DiskSample, FileSystem, ImageEvent, ImageId, ImageMemory, Memory,
    PodList, RuntimeStore, Seen, Snapshot, StoreHolder, StorePart, Trace, TraceEvent, TracedImage,
};

/// The images at one time.
pub(super) struct World<'t> {
    trace: &'t Trace,
    /// The state of each image of the trace.
    states: Vec<State>,
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
}

/// An image that the replay pulls. Only those that it had removed are pulled again.
pub(super) struct Pull<'t> {
    pub image: &'t TracedImage,
    pub is_again: bool,
}

// === impl World ===

impl<'t> World<'t> {
    /// Returns the node at a time, with the images that it had.
    pub fn at(trace: &'t Trace, at: Timestamp) -> Self {
        let states = vec![State::default(); trace.images.len()];
        let mut world = Self { trace, states, bytes: 0, recorded_bytes: 0 };
        for event in trace.events.iter().take_while(|event| event.at < at) {
            world.apply(event);
            if event.event == ImageEvent::Collected {
                world.take(event.image);
            }
        }
        world.states.iter_mut().for_each(|state| state.is_removed = false);
        world
    }

    /// Applies an event. A removal by kubegc does not count, because the replay decides itself. Returns the pull that it causes.
    pub fn apply(&mut self, event: &TraceEvent) -> Option<Pull<'t>> {
        let image = self.trace.images.get(event.image)?;
        let state = self.states.get_mut(event.image)?;
        let was_there = match event.event {
            ImageEvent::Appeared => true,
            ImageEvent::Removed | ImageEvent::Collected => false,
            ImageEvent::Used | ImageEvent::LastUsed => state.was_there,
        };
        match (state.was_there, was_there) {
            (false, true) => self.recorded_bytes += image.bytes(),
            (true, false) => self.recorded_bytes -= image.bytes(),
            _ => {}
        }
        state.was_there = was_there;
        match event.event {
            ImageEvent::Appeared => return self.need(event),
            ImageEvent::Used => {
                let pull = self.need(event);
                let state = self.states.get_mut(event.image)?;
                (state.is_used, state.last_used) = (true, Some(event.at));
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

    /// Pulls an image, unless it is there.
    fn need(&mut self, event: &TraceEvent) -> Option<Pull<'t>> {
        let (image, state) = (self.trace.images.get(event.image)?, self.states.get_mut(event.image)?);
        if state.is_there {
            return None;
        }
        let is_again = state.is_removed;
        *state = State { is_there: true, first_seen: Some(event.at), last_used: None, is_removed: false, ..*state };
        self.bytes += image.bytes();
        Some(Pull { image, is_again })
    }

    /// Removes an image from the replay.
    fn take(&mut self, number: usize) {
        let (Some(image), Some(state)) = (self.trace.images.get(number), self.states.get_mut(number)) else { return };
        if state.is_there {
            self.bytes -= image.bytes();
            *state = State { is_there: false, is_used: false, is_removed: true, ..*state };
        }
    }

    /// Removes an image that a plan removes. Returns its position and its bytes.
    pub fn remove(&mut self, id: &ImageId) -> Option<(usize, u64)> {
        let is_of = |(image, state): &(&TracedImage, &State)| state.is_there && image.id() == id;
        let number = self.trace.images.iter().zip(&self.states).position(|pair| is_of(&pair))?;
        self.take(number);
        Some((number, self.trace.images.get(number)?.image.size_bytes))
    }

    /// Returns the file system of a sample with the images of the replay in place of those that the node had.
    pub fn disk(&self, sample: &DiskSample) -> FileSystem {
        let capacity_bytes = sample.file_system.capacity_bytes;
        let available = i128::from(capacity_bytes) - self.bytes_of_others(sample) - i128::from(self.bytes);
        let available_bytes = u64::try_from(available.max(0)).unwrap_or(u64::MAX).min(capacity_bytes);
        FileSystem { available_bytes, free_bytes: None, inodes: None, inodes_free: None, ..sample.file_system.clone() }
    }

    /// Returns the used bytes of a sample without the images that the node had. Less than 0 if their layers take less than they count.
    pub fn bytes_of_others(&self, sample: &DiskSample) -> i128 {
        let FileSystem { capacity_bytes, available_bytes, .. } = sample.file_system;
        i128::from(capacity_bytes) - i128::from(available_bytes) - i128::from(self.recorded_bytes)
    }

    /// Returns since when the images of the replay are unused that are not pinned, if any: the earliest time.
    pub fn unused_since(&self, now: Timestamp) -> Option<Timestamp> {
        let images = self.present().filter(|(image, state)| !image.image.pinned && !state.is_used_at(now));
        images.filter_map(|(_, state)| state.last_used.max(state.first_seen)).min()
    }

    /// Returns the bytes of the images that are in use or pinned, whatever a replay removes.
    pub fn needed_bytes(&self) -> u64 {
        let is_needed = |(image, state): &(&TracedImage, &State)| state.is_used || image.image.pinned;
        self.present().filter(is_needed).map(|(image, _)| image.bytes()).sum()
    }

    /// Returns a snapshot of the replay before a pass, as the node would have made it.
    pub fn snapshot(&self, now: Timestamp, disk: FileSystem, memory: Memory) -> Snapshot {
        let images = self.present().map(|(image, _)| image.image.clone()).collect();
        let used = self.present().filter(|(_, state)| state.is_used_at(now));
        let containers = used.map(|(image, _)| container(image, now)).collect();
        let past = self.present().filter(|(_, state)| state.first_seen < Some(now));
        let memory_of = |(image, state): (&TracedImage, &State)| ImageMemory {
            id: image.id().clone(),
            first_seen: state.first_seen,
            last_used: state.last_used,
            last_used_by: image.last_used_by.clone(),
        };
        let memory = Memory { images: past.map(memory_of).collect(), ..memory };
        let store = Some(Seen::Seen(self.store()));
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

    /// Returns a store of the runtime in which each image has one layer.
    fn store(&self) -> RuntimeStore {
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
        let images = || self.present().map(|(image, _)| image);
        let (parts, holders) = (images().map(layer).collect(), images().enumerate().map(holder).collect());
        RuntimeStore { parts, holders, ..RuntimeStore::default() }
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

/// Returns a container that uses an image.
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
