//! Reasons in a few words, for the tables. `why` says more.
//!
//! What is kept is counted by these words, so those for [`kept`] name settings and never one object.

use super::format;
use crate::config::duration_text;
use crate::model::ListReceipt;
use crate::plan::{KeepReason, Kind, ListNote, PlanError, Pressure, RemoveReason};

/// The widest a name may be in a narrow table.
const NAME_WIDTH: usize = 40;

/// Why something goes.
pub(super) fn removed(reason: &RemoveReason) -> String {
    match reason {
        RemoveReason::PodGone {} => "its pod is gone".to_owned(),
        RemoveReason::PodTerminal {} => "its pod finished, and containers.evict_terminated_pods is on".to_owned(),
        RemoveReason::OverUnitLimit { limit } => {
            format!("over containers.max_per_pod_container = {limit}")
        }
        RemoveReason::OverTotalLimit { limit } => {
            format!("over containers.max_containers = {limit}")
        }
        RemoveReason::Superseded {} => "its pod has a newer sandbox".to_owned(),
        RemoveReason::Dangling {} => "it leads nowhere".to_owned(),
        RemoveReason::Space { high_threshold_percent, used_percent } => {
            format!("disk {used_percent} % used, images.high_threshold_percent = {high_threshold_percent}")
        }
        RemoveReason::Age { max_age_seconds, unused_seconds: Some(unused) } => {
            format!("unused for {}, images.max_age = {}", format::age(*unused), seconds(*max_age_seconds))
        }
        RemoveReason::Age { max_age_seconds, unused_seconds: None } => {
            format!("never used, images.max_age = {}", seconds(*max_age_seconds))
        }
        RemoveReason::Unused {} => "unused, and images.all_unused is on".to_owned(),
    }
}

/// Why something stays.
pub(super) fn kept(kind: Kind, reason: &KeepReason) -> String {
    use KeepReason as Keep;
    match reason {
        Keep::YoungerThanMinAge { min_age_seconds } => {
            let section = if kind == Kind::Image { "images" } else { "containers" };
            format!("younger than {section}.min_age = {}", seconds(*min_age_seconds))
        }
        Keep::WithinUnitLimit { limit } => format!("within containers.max_per_pod_container = {limit}"),
        Keep::BelowThreshold { used_percent, high_threshold_percent } => {
            format!("disk {used_percent} % used, below images.high_threshold_percent = {high_threshold_percent}")
        }
        Keep::WithinMaxAge { max_age_seconds } => format!("within images.max_age = {}", seconds(*max_age_seconds)),
        Keep::MaybeStarting { created_grace_seconds } => {
            format!("perhaps about to start, guards.created_grace = {}", seconds(*created_grace_seconds))
        }
        Keep::NotYetGone { gone_after_seconds, .. } => {
            format!("its pod is missing, but not for guards.gone_after = {} yet", seconds(*gone_after_seconds))
        }
        Keep::YoungSandbox { sandbox_grace_seconds } => {
            format!("perhaps in the making, guards.sandbox_grace = {}", seconds(*sandbox_grace_seconds))
        }
        Keep::RuntimeJustStarted { settle_seconds } => {
            format!("the runtime started just now, guards.settle = {}", seconds(*settle_seconds))
        }
        Keep::KeepPattern { pattern } => format!("matches images.keep, {}", format::printable(pattern)),
        Keep::PodPresent { source } => format!("its pod is in the list from {source}"),
        Keep::PodsIncomplete { source, .. } => format!("the list of pods from {source} is not complete"),
        Keep::ContainerNotExited { .. } => "its container has not ended".to_owned(),
        Keep::ListFell { list, before, now, .. } => format!("{list} fell from {before} to {now} (guards.fall_percent)"),
        plain => plain_words(plain).to_owned(),
    }
}

/// Reasons without a value that all their objects share.
fn plain_words(reason: &KeepReason) -> &'static str {
    use KeepReason as Keep;
    match reason {
        Keep::Running {} => "running",
        Keep::NoLimit {} => "no limit is set",
        Keep::Ready {} => "ready",
        Keep::HasContainers { .. } => "still has containers",
        Keep::NewestSandbox {} => "the newest of its pod",
        Keep::PodsNotSeen { .. } => "no list of pods",
        Keep::TargetExists {} => "leads somewhere",
        Keep::TargetUnknown {} => "not known where it leads",
        Keep::InUse { .. } => "used by a container",
        Keep::ImageVolume { .. } => "mounted as a volume",
        Keep::Pinned {} => "pinned by the runtime",
        Keep::TargetReached {} => "what goes before it is enough",
        Keep::ImageGcOff {} => "image collection is off",
        Keep::UsedMeanwhile {} => "used just now",
        Keep::StepFailed {} => "the step failed",
        Keep::ListIncomplete { .. } => "runtime list incomplete",
        Keep::PossibleImageVolume { .. } => "possibly mounted as an image volume",
        Keep::ImageVolumesUnknown { .. } => "image volumes of a container unknown",
        Keep::NewestOfUnit {} => "the newest instance; it may be run again (guards.keep_newest_of_unit)",
        Keep::Foreign {} => "not a pod's (guards.keep_foreign)",
        Keep::PodStillRuns {} => "something of its pod runs",
        Keep::PodDirsNotSeen { .. } => "no list of the kubelet's directories",
        Keep::PodNotConfirmable { .. } => "pod deletion cannot be confirmed",
        Keep::PodDirExists {} => "the kubelet has a directory for its pod",
        Keep::Unrecognized {} => "not a kubelet's name or entry (guards.keep_unrecognized_logs)",
        Keep::PodInRuntime {} => "its pod is in the runtime",
        Keep::RuntimeNotSeen { .. } => "no list of containers",
        Keep::SandboxImage {} => "the image of sandboxes (guards.keep_sandbox_image)",
        Keep::BeingPulled {} => "being pulled (guards.keep_pod_images)",
        Keep::NamedByPod { .. } => "named by a pod (guards.keep_pod_images)",
        Keep::BackingOff { .. } => "failed lately, waits (guards.retry_after)",
        _ => "",
    }
}

/// The one thing that kept this object, where there is one.
pub(super) fn detail(reason: &KeepReason) -> Option<String> {
    use KeepReason as Keep;
    Some(match reason {
        Keep::InUse { container }
        | Keep::ImageVolume { container }
        | Keep::PossibleImageVolume { container }
        | Keep::ImageVolumesUnknown { container } => format::short_id(container).to_owned(),
        Keep::HasContainers { containers } => format::count(*containers, "container"),
        Keep::NamedByPod { named_by, as_of: None } => named_by.clone(),
        Keep::NamedByPod { named_by, as_of: Some(as_of) } => format!("{named_by}, in the pod list of {as_of}"),
        Keep::NotYetGone { absent_since: Some(since), .. } => format!("missing since {since}"),
        Keep::PodsNotSeen { cause } | Keep::RuntimeNotSeen { cause } | Keep::PodDirsNotSeen { cause } => cause.clone(),
        Keep::BackingOff { retry_at, failures, error } => {
            format!("{}, next try at {retry_at}: {error}", format::count(*failures as usize, "failure"))
        }
        _ => return None,
    })
}

/// Why everything goes that nothing needs.
pub(super) fn pressure(pressure: &Pressure) -> String {
    match pressure {
        Pressure::Asked {} => "everything goes that nothing needs, as was asked for".to_owned(),
        Pressure::FreeBytes { mountpoint, free_bytes, limit_bytes } => {
            let (free, limit) = (format::size(*free_bytes), format::size(*limit_bytes));
            format!("{} has {free} free, pressure.free_bytes = {limit}", mountpoint.display())
        }
        other => other.to_string(),
    }
}

/// How a list was received that does not fit into one message.
pub(super) fn list_note(note: &ListNote) -> String {
    let ListNote { list, parts, bytes, complete, cause } = note;
    let incomplete = if *complete { "" } else { "; parts are missing" };
    let parts = format::count(usize::try_from(*parts).unwrap_or(usize::MAX), "part");
    format!("{list} received in {parts} of {} together{incomplete}: {cause}", format::size(*bytes))
}

/// A list that soon does not fit into one message, or does not fit any more.
pub(super) fn large_list(list: &str, receipt: &ListReceipt, limit: u64) -> String {
    let size = format!(
        "list of {list} is {}, usual limit on one message is {}",
        format::size(receipt.bytes),
        format::size(limit)
    );
    let hint = "hint: lower containers.max_containers, or raise max_send_message_size in the runtime's configuration";
    match &receipt.refused {
        Some(cause) => format!("{size}; received in parts: {cause}; {hint}"),
        None => format!("{size}; the kubelet fails above it; {hint}"),
    }
}

/// Why a step could not do its work.
pub(super) fn plan_error(error: &PlanError) -> String {
    match error {
        PlanError::FreeDiskSpaceFailed { target_bytes, estimated_bytes, used_percent } => format!(
            "the image disk is {used_percent} % used: {} are to be freed, and all images that may go have {}",
            format::size(*target_bytes),
            format::size(*estimated_bytes)
        ),
        other => other.to_string(),
    }
}

/// An object's id in a table. A log has no id but its path, and that is its name.
pub(super) fn object_id(kind: Kind, id: &str, wide: bool) -> String {
    match kind {
        Kind::LogDir | Kind::LogLink => String::new(),
        _ if wide => id.to_owned(),
        _ => format::short_id(id).to_owned(),
    }
}

/// An object's name in a table: of a log the last part of its path, in a wide table all of it.
pub(super) fn object_name(kind: Kind, id: &str, name: Option<&str>, wide: bool) -> String {
    match (kind, name.filter(|name| !name.is_empty())) {
        (Kind::LogDir | Kind::LogLink, _) if wide => id.to_owned(),
        (Kind::LogDir | Kind::LogLink, _) => fit(id.rsplit('/').next().unwrap_or(id), wide),
        (Kind::Image, None) => "<none>".to_owned(),
        (_, name) => fit(name.unwrap_or_default(), wide),
    }
}

/// A name that is not too wide for the narrow table.
pub(super) fn fit(text: &str, wide: bool) -> String {
    if wide { text.to_owned() } else { format::middle(text, NAME_WIDTH) }
}

/// What kind of object it is.
pub(super) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Container => "container",
        Kind::Sandbox => "sandbox",
        Kind::LogDir => "log directory",
        Kind::LogLink => "log link",
        Kind::Image => "image",
    }
}

fn seconds(seconds: i64) -> String {
    duration_text(std::time::Duration::from_secs(seconds.unsigned_abs()))
}
