//! Which events a pass causes, and their messages.

use crate::model::{cut_text, size_text};
use crate::plan::{ImageTrigger, Kind, Pass, Plan, PlanError, Scope, kept_images_text};

/// The longest message of an event, in characters: what the API permits in its newer form.
const LONGEST: usize = 1000;

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
    /// Log files have more bytes than `logs.limits` permits, and the pass removed what it may. The kubelet has no such event.
    LogsOverLimit,
    /// Images were removed. The kubelet has no such event.
    ImagesRemoved,
    /// Passes remove nothing from now on, because of a pause or quiet hours. The kubelet has no such event.
    RemovalsSuspended,
    /// Passes remove objects again.
    RemovalsResumed,
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

/// State between passes: failures of the image pass are reported from the second in a row on, and a suspension when it changes.
#[derive(Debug, Default)]
pub struct Notices {
    image_failures: u32,
    suspended: Option<String>,
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
            Self::LogsOverLimit => "LogsOverLimit",
            Self::ImagesRemoved => "ImagesRemoved",
            Self::RemovalsSuspended => "RemovalsSuspended",
            Self::RemovalsResumed => "RemovalsResumed",
        }
    }

    /// Returns whether the event is a Warning rather than Normal.
    pub fn is_warning(self) -> bool {
        !matches!(self, Self::ImagesRemoved | Self::RemovalsSuspended | Self::RemovalsResumed)
    }
}

// === impl Notices ===

impl Notices {
    /// Returns the notices of a pass, at most one per reason.
    pub fn of(&mut self, pass: &Pass) -> Vec<Notice> {
        let suspension = self.suspension(pass);
        let mut notices = match pass.scope {
            Scope::Images => self.of_images(pass),
            Scope::Containers | Scope::All => {
                containers_failed(pass).into_iter().chain(logs_over_limit(&pass.plan)).collect()
            }
        };
        notices.extend(suspension);
        notices
    }

    /// Returns a notice if a pass is suspended for another cause than the one before, or if it is the first that is not. A pass that
    /// frees space ends no quiet hours.
    fn suspension(&mut self, pass: &Pass) -> Option<Notice> {
        let frees_space = pass.plan.pressure.is_some() || pass.plan.needs_space();
        let now = pass.summary.suspended.clone();
        if now == self.suspended || (now.is_none() && frees_space) {
            return None;
        }
        let notice = match &now {
            Some(cause) => Notice::new(Reason::RemovalsSuspended, "", &format!("Passes remove nothing: {cause}.")),
            None => Notice::new(Reason::RemovalsResumed, "", "Passes remove objects again."),
        };
        self.suspended = now;
        Some(notice)
    }

    fn of_images(&mut self, pass: &Pass) -> Vec<Notice> {
        let mut notices: Vec<_> = [disk_without_capacity(&pass.plan), too_little_freed(pass), images_removed(pass)]
            .into_iter()
            .flatten()
            .collect();
        match failure_of_images(pass) {
            Some((class, message)) => notices.extend(self.images_failed(class, &message)),
            // A stopped pass without a failure does not reset the count.
            None if pass.summary.is_stopped => {}
            None => self.image_failures = 0,
        }
        notices
    }

    fn images_failed(&mut self, class: &str, message: &str) -> Option<Notice> {
        self.image_failures = self.image_failures.saturating_add(1);
        (self.image_failures > 1).then(|| Notice::new(Reason::ImageGcFailed, class, message))
    }
}

// === impl Notice ===

impl Notice {
    fn new(reason: Reason, class: &str, message: &str) -> Self {
        Self { reason, class: class.to_owned(), message: cut_text(message, LONGEST).into_owned() }
    }
}

fn containers_failed(pass: &Pass) -> Option<Notice> {
    if let Some(halt) = pass.summary.halts.iter().find(|halt| halt.kind.is_none()) {
        return Some(Notice::new(Reason::ContainerGcFailed, "runtime hangs", &halt.to_string()));
    }
    let (mut sources, mut messages) = (Vec::new(), Vec::new());
    for error in &pass.plan.errors {
        if let PlanError::NotSeen { source, .. } = error {
            sources.push(source.as_str());
            messages.push(error.to_string());
        }
    }
    (!sources.is_empty()).then(|| Notice::new(Reason::ContainerGcFailed, &sources.join(","), &messages.join("; ")))
}

/// Returns a notice with the limits that a plan does not meet.
fn logs_over_limit(plan: &Plan) -> Option<Notice> {
    let over: Vec<_> = plan.log_limits.iter().map(ToString::to_string).collect();
    (!over.is_empty()).then(|| Notice::new(Reason::LogsOverLimit, "", &over.join("; ")))
}

/// Returns why an image pass failed: the class and the message. One failed removal is enough, as in the kubelet.
fn failure_of_images(pass: &Pass) -> Option<(&'static str, String)> {
    if let Some(error) = pass.plan.errors.iter().find(|error| !matches!(error, PlanError::FreeDiskSpaceFailed { .. })) {
        return Some(("not seen", error.to_string()));
    }
    let failed = pass.summary.of(Kind::Image).failed;
    if failed > 0 {
        return Some(("not removed", format!("{failed} images could not be removed")));
    }
    too_little_freed(pass).map(|notice| ("not enough", notice.message))
}

fn disk_without_capacity(plan: &Plan) -> Option<Notice> {
    let error = plan.errors.iter().find(|error| matches!(error, PlanError::InvalidDiskCapacity { .. }))?;
    Some(Notice::new(Reason::InvalidDiskCapacity, "", &error.to_string()))
}

/// Returns a notice if the disk pressure remains: by measurement or, if nothing was measured, by the reclaimed bytes.
fn too_little_freed(pass: &Pass) -> Option<Notice> {
    let planned_short = pass.plan.errors.iter().any(|error| matches!(error, PlanError::FreeDiskSpaceFailed { .. }));
    let (target, freed) = (pass.plan.images.target_bytes, freed_by_images(pass));
    let is_short = pass.summary.shortfall_bytes > 0 || (planned_short && freed < target);
    if !is_short || pass.summary.is_stopped {
        return None;
    }
    let images = &pass.plan.images;
    let used = || format!("{} % of the image filesystem was used", images.used_percent.unwrap_or_default());
    let why = images.began_by.clone().unwrap_or_else(used);
    let kept = kept_images_text(&pass.plan);
    let (freed, target) = (size_text(freed), size_text(target));
    let is_dry = pass.summary.of(Kind::Image).would_remove > 0;
    let freed = if is_dry {
        "nothing was removed, because kubegc only observes".to_owned()
    } else {
        format!("{freed} were reclaimed")
    };
    let kept = if kept.is_empty() { "No image is kept.".to_owned() } else { format!("Kept: {kept}.") };
    // Of a total of all images, no other data is the rest.
    let is_of_images = images.triggered_by == Some(ImageTrigger::TotalBytes);
    let rest = if is_of_images { "" } else { " The rest is other data: logs, volumes, files that containers wrote." };
    let message = format!(
        "Failed to free sufficient space by deleting unused images: {why}, {target} were to be freed, {freed}. {kept}{rest}"
    );
    Some(Notice::new(Reason::FreeDiskSpaceFailed, "", &message))
}

fn images_removed(pass: &Pass) -> Option<Notice> {
    let (removed, freed) = (pass.summary.of(Kind::Image).removed, freed_by_images(pass));
    let images = if removed == 1 { "image" } else { "images" };
    let message = format!("Removed {removed} unused {images}; {} reclaimed.", size_text(freed));
    (removed > 0).then(|| Notice::new(Reason::ImagesRemoved, "", &message))
}

fn freed_by_images(pass: &Pass) -> u64 {
    pass.summary.measured_bytes.get(&Kind::Image).copied().unwrap_or_default()
}
