//! Which events a pass causes, and their messages.

use crate::plan::{Kind, Plan, PlanError, Scope, Summary};
use crate::record::{StoreError, Tallies};

/// The reason of an event. The first four names are the kubelet's.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Reason {
    /// A list that the container pass needs was unavailable, or the runtime hung in the pass. Failed removals are in
    /// the log only, as in the kubelet.
    ContainerGcFailed,
    /// The image pass failed, and so did the one before.
    ImageGcFailed,
    /// Removing everything that can be removed did not free enough space.
    FreeDiskSpaceFailed,
    /// The runtime reports an image file system with a capacity of 0 bytes.
    InvalidDiskCapacity,
    /// Images were removed. The kubelet has no such event.
    ImagesRemoved,
}

/// One notice for an event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Notice {
    /// The reason of the event.
    pub reason: Reason,
    /// Notices with the same reason and class count as the same, even if the numbers and causes in their messages
    /// differ.
    pub class: String,
    /// One or two sentences.
    pub message: String,
}

/// The result of a pass, as far as events need it.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The counted outcomes.
    pub tallies: &'a Tallies,
    /// The space that is still missing.
    pub summary: &'a Summary,
}

/// State between passes: failures of the image pass are reported from the second in a row on.
#[derive(Debug, Default)]
pub struct Notices {
    image_failures: u32,
}

// === impl Reason ===

impl Reason {
    /// Returns the reason as it is in the event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ContainerGcFailed => "ContainerGCFailed",
            Self::ImageGcFailed => "ImageGCFailed",
            Self::FreeDiskSpaceFailed => "FreeDiskSpaceFailed",
            Self::InvalidDiskCapacity => "InvalidDiskCapacity",
            Self::ImagesRemoved => "ImagesRemoved",
        }
    }

    /// Returns whether the event is a Warning rather than Normal.
    pub fn is_warning(self) -> bool {
        self != Self::ImagesRemoved
    }
}

// === impl Notices ===

impl Notices {
    /// Returns the notices of a pass, at most one per reason.
    pub fn of(&mut self, scope: Scope, pass: Result<Ended<'_>, &StoreError>) -> Vec<Notice> {
        match (scope, pass) {
            (Scope::Images, Err(error)) => self.images_failed("store", error.to_string()).into_iter().collect(),
            (_, Err(error)) => vec![Notice::new(Reason::ContainerGcFailed, "store", error.to_string())],
            (Scope::Images, Ok(ended)) => self.of_images(&ended),
            (_, Ok(ended)) => containers_failed(&ended).into_iter().collect(),
        }
    }

    fn of_images(&mut self, ended: &Ended<'_>) -> Vec<Notice> {
        let mut notices: Vec<_> = [disk_without_capacity(ended.plan), too_little_freed(ended), images_removed(ended)]
            .into_iter()
            .flatten()
            .collect();
        match failure_of_images(ended) {
            Some((class, message)) => notices.extend(self.images_failed(class, message)),
            // A stopped pass without a failure does not reset the count.
            None if ended.summary.is_stopped => {}
            None => self.image_failures = 0,
        }
        notices
    }

    fn images_failed(&mut self, class: &str, message: String) -> Option<Notice> {
        self.image_failures = self.image_failures.saturating_add(1);
        (self.image_failures > 1).then(|| Notice::new(Reason::ImageGcFailed, class, message))
    }
}

// === impl Notice ===

impl Notice {
    fn new(reason: Reason, class: &str, message: String) -> Self {
        Self { reason, class: class.to_owned(), message }
    }
}

fn containers_failed(ended: &Ended<'_>) -> Option<Notice> {
    if let Some(halt) = ended.summary.halts.iter().find(|halt| halt.kind.is_none()) {
        return Some(Notice::new(Reason::ContainerGcFailed, "runtime hangs", halt.to_string()));
    }
    let (mut sources, mut messages) = (Vec::new(), Vec::new());
    for error in &ended.plan.errors {
        if let PlanError::NotSeen { source, .. } = error {
            sources.push(source.as_str());
            messages.push(error.to_string());
        }
    }
    (!sources.is_empty()).then(|| Notice::new(Reason::ContainerGcFailed, &sources.join(","), messages.join("; ")))
}

/// Returns why an image pass failed: the class and the message. One failed removal is enough, as in the kubelet.
fn failure_of_images(ended: &Ended<'_>) -> Option<(&'static str, String)> {
    if let Some(error) = ended.plan.errors.iter().find(|error| !matches!(error, PlanError::FreeDiskSpaceFailed { .. }))
    {
        return Some(("not seen", error.to_string()));
    }
    let failed = ended.tallies.of(Kind::Image).failed;
    if failed > 0 {
        return Some(("not removed", format!("{failed} images could not be removed")));
    }
    too_little_freed(ended).map(|notice| ("not enough", notice.message))
}

fn disk_without_capacity(plan: &Plan) -> Option<Notice> {
    let error = plan.errors.iter().find(|error| matches!(error, PlanError::InvalidDiskCapacity { .. }))?;
    Some(Notice::new(Reason::InvalidDiskCapacity, "", error.to_string()))
}

/// Returns a notice if the disk pressure remains: by measurement or, if nothing was measured, by the reclaimed bytes.
fn too_little_freed(ended: &Ended<'_>) -> Option<Notice> {
    let planned_short = ended.plan.errors.iter().any(|error| matches!(error, PlanError::FreeDiskSpaceFailed { .. }));
    let (target, freed) = (ended.plan.images.target_bytes, ended.tallies.of(Kind::Image).freed_bytes);
    let is_short = ended.summary.shortfall_bytes > 0 || (planned_short && freed < target);
    if !is_short || ended.summary.is_stopped {
        return None;
    }
    let used = ended.plan.images.used_percent.unwrap_or_default();
    let message = format!(
        "Failed to free sufficient space by deleting unused images: {used} % of the image filesystem was used, {target} \
         bytes were to be freed, {freed} bytes came back. What fills the disk is something else: images in use, logs, \
         volumes, or files that containers wrote."
    );
    Some(Notice::new(Reason::FreeDiskSpaceFailed, "", message))
}

fn images_removed(ended: &Ended<'_>) -> Option<Notice> {
    let tally = ended.tallies.of(Kind::Image);
    let images = if tally.removed == 1 { "image" } else { "images" };
    let message = format!("Removed {} unused {images}; {} bytes came back.", tally.removed, tally.freed_bytes);
    (tally.removed > 0).then(|| Notice::new(Reason::ImagesRemoved, "", message))
}
