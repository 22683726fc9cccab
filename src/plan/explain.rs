//! Reasons for people: the rule as a sentence, the setting that decides, and what would change it.

use std::time::Duration;

use super::{KeepReason, RemoveReason};

/// What `why` says of a reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The rule, as a sentence about the object.
    pub rule: String,
    /// The setting that decides, if one does.
    pub setting: Option<&'static str>,
    /// What would change the decision.
    pub change: &'static str,
}

/// A cause, if there is one, as the end of a sentence.
fn after(cause: &str) -> String {
    if cause.is_empty() { String::new() } else { format!(": {cause}") }
}

fn says(rule: impl Into<String>, setting: Option<&'static str>, change: &'static str) -> Explanation {
    Explanation { rule: rule.into(), setting, change }
}

fn time(seconds: i64) -> String {
    humantime::format_duration(Duration::from_secs(seconds.unsigned_abs())).to_string()
}

// === impl RemoveReason ===

impl RemoveReason {
    /// The word in documents.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::PodGone {} => "pod_gone",
            Self::PodTerminal {} => "pod_terminal",
            Self::OverUnitLimit { .. } => "over_unit_limit",
            Self::OverTotalLimit { .. } => "over_total_limit",
            Self::Superseded {} => "superseded",
            Self::Dangling {} => "dangling",
            Self::Space { .. } => "space",
            Self::Age { .. } => "age",
            Self::Unused {} => "unused",
        }
    }

    /// The reason for people.
    pub fn explain(&self) -> Explanation {
        match self {
            Self::PodGone {} => says("its pod is gone", Some("guards.gone_after"), "the pod coming back"),
            Self::PodTerminal {} => says(
                "its pod finished, and finished pods are to be evicted",
                Some("containers.evict_terminated_pods"),
                "containers.evict_terminated_pods = false",
            ),
            Self::OverUnitLimit { limit } => says(
                format!("more than {limit} dead instances of this container, and this is one of the oldest"),
                Some("containers.max_per_pod_container"),
                "a higher containers.max_per_pod_container; a negative one is no limit",
            ),
            Self::OverTotalLimit { limit } => says(
                format!("more than {limit} dead containers on the node, and this is one of the oldest"),
                Some("containers.max_containers"),
                "a higher containers.max_containers; a negative one is no limit",
            ),
            Self::Superseded {} => {
                says("a dead sandbox of a pod that has a newer one", None, "nothing: the newest is the one that counts")
            }
            Self::Dangling {} => {
                says("the link leads nowhere, and its container ended or is gone", None, "the log file coming back")
            }
            Self::Space { high_threshold_percent, used_percent } => says(
                format!(
                    "the disk is {used_percent} % full, {high_threshold_percent} % or more, and it is next in line"
                ),
                Some("images.high_threshold_percent"),
                "more free space, a container that uses it, a pattern in images.keep, or a higher threshold",
            ),
            Self::Age { max_age_seconds, unused_seconds } => says(
                match unused_seconds {
                    Some(unused) => format!("unused for {}, longer than {}", time(*unused), time(*max_age_seconds)),
                    None => format!("never used since it is known, with a maximum age of {}", time(*max_age_seconds)),
                },
                Some("images.max_age"),
                "a container that uses it, a pattern in images.keep, or a longer images.max_age",
            ),
            Self::Unused {} => says(
                "nothing uses it, and everything unused was asked for",
                Some("images.all_unused"),
                "images.all_unused = false",
            ),
        }
    }
}

// === impl KeepReason ===

impl KeepReason {
    /// The word in documents.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Running {} => "running",
            Self::YoungerThanMinAge { .. } => "younger_than_min_age",
            Self::WithinUnitLimit { .. } => "within_unit_limit",
            Self::NoLimit {} => "no_limit",
            Self::Ready {} => "ready",
            Self::HasContainers { .. } => "has_containers",
            Self::NewestSandbox {} => "newest_sandbox",
            Self::PodPresent { .. } => "pod_present",
            Self::PodsIncomplete { .. } => "pods_incomplete",
            Self::PodsNotSeen { .. } => "pods_not_seen",
            Self::TargetExists {} => "target_exists",
            Self::TargetUnknown {} => "target_unknown",
            Self::ContainerNotExited { .. } => "container_not_exited",
            Self::InUse { .. } => "in_use",
            Self::ImageVolume { .. } => "image_volume",
            Self::Pinned {} => "pinned",
            Self::BelowThreshold { .. } => "below_threshold",
            Self::WithinMaxAge { .. } => "within_max_age",
            Self::TargetReached {} => "target_reached",
            Self::ImageGcOff {} => "image_gc_off",
            Self::UsedMeanwhile {} => "used_meanwhile",
            Self::StepFailed {} => "step_failed",
            Self::ListIncomplete { .. } => "list_incomplete",
            Self::PossibleImageVolume { .. } => "possible_image_volume",
            Self::ImageVolumesUnknown { .. } => "image_volumes_unknown",
            Self::NewestOfUnit {} => "newest_of_unit",
            Self::MaybeStarting { .. } => "maybe_starting",
            Self::Foreign {} => "foreign",
            Self::NotYetGone { .. } => "not_yet_gone",
            Self::PodStillRuns {} => "pod_still_runs",
            Self::PodDirExists {} => "pod_dir_exists",
            Self::PodDirsNotSeen { .. } => "pod_dirs_not_seen",
            Self::PodNotConfirmable { .. } => "pod_not_confirmable",
            Self::YoungSandbox { .. } => "young_sandbox",
            Self::Unrecognized {} => "unrecognized",
            Self::PodInRuntime {} => "pod_in_runtime",
            Self::RuntimeNotSeen { .. } => "runtime_not_seen",
            Self::SandboxImage {} => "sandbox_image",
            Self::KeepPattern { .. } => "keep_pattern",
            Self::BeingPulled {} => "being_pulled",
            Self::NamedByPod { .. } => "named_by_pod",
            Self::RuntimeJustStarted { .. } => "runtime_just_started",
            Self::ListFell { .. } => "list_fell",
            Self::BackingOff { .. } => "backing_off",
        }
    }

    /// The reason for people.
    pub fn explain(&self) -> Explanation {
        if self.is_guard() { self.explain_guard() } else { self.explain_rule() }
    }

    /// The rules that the kubelet has too.
    fn explain_rule(&self) -> Explanation {
        match self {
            Self::Running {} => says("it runs", None, "its end"),
            Self::YoungerThanMinAge { min_age_seconds } => says(
                format!("younger than {}", time(*min_age_seconds)),
                Some("min_age"),
                "time, or a shorter containers.min_age or images.min_age",
            ),
            Self::WithinUnitLimit { limit } => says(
                format!("no more than {limit} dead instances of this container"),
                Some("containers.max_per_pod_container"),
                "its pod being gone, a newer instance, or a lower containers.max_per_pod_container",
            ),
            Self::NoLimit {} => says(
                "no limit is set that it could be over",
                Some("containers.max_per_pod_container"),
                "its pod being gone, or a limit",
            ),
            Self::Ready {} => says("the sandbox is ready", None, "the runtime stopping it"),
            Self::HasContainers { containers } => {
                says(format!("the sandbox still has {containers} containers"), None, "these containers going first")
            }
            Self::NewestSandbox {} => {
                says("the newest sandbox of a pod that is not known to be gone", None, "its pod being gone")
            }
            Self::PodPresent { source } => says(format!("its pod is here, says {source}"), None, "its pod being gone"),
            Self::PodsIncomplete { source, cause } => says(
                format!("the list of pods from {source} is not complete, so absence proves nothing{}", after(cause)),
                Some("pods.source"),
                "a complete list of pods",
            ),
            Self::PodsNotSeen { cause } => says(
                format!("no list of pods, so nothing counts as gone: {cause}"),
                Some("pods.source"),
                "a source of pods that answers",
            ),
            Self::TargetExists {} => says("the link leads to a log", None, "the log file going"),
            Self::TargetUnknown {} => says("it could not be told where the link leads", None, "access to its target"),
            Self::ContainerNotExited { .. } => says(
                "the link leads nowhere, but its container has not ended: its log may be in rotation",
                None,
                "the container's end",
            ),
            Self::InUse { container } => {
                says(format!("container {container} uses it"), None, "the last container that uses it going")
            }
            Self::ImageVolume { container } => {
                says(format!("container {container} has it mounted as a volume"), None, "that container going")
            }
            Self::Pinned {} => says("the runtime pinned it", None, "the runtime's own configuration"),
            other => other.explain_image_rule(),
        }
    }

    /// The rules about when images go.
    fn explain_image_rule(&self) -> Explanation {
        match self {
            Self::BelowThreshold { used_percent, high_threshold_percent } => says(
                format!("unused, but the disk is {used_percent} % full, below {high_threshold_percent} %"),
                Some("images.high_threshold_percent"),
                "a fuller disk, a lower threshold, or an images.max_age",
            ),
            Self::WithinMaxAge { max_age_seconds } => says(
                format!("unused for no longer than {}, and the disk is below the threshold", time(*max_age_seconds)),
                Some("images.max_age"),
                "time, a shorter images.max_age, or a fuller disk",
            ),
            Self::TargetReached {} => says(
                "unused, but what goes before it is said to be enough",
                Some("images.low_threshold_percent"),
                "a lower images.low_threshold_percent, or measured space that is still short",
            ),
            Self::ImageGcOff {} => says(
                "image collection is off",
                Some("images.high_threshold_percent"),
                "an images.high_threshold_percent below 100, or an images.max_age",
            ),
            Self::UsedMeanwhile {} => says("seen in use in this very pass", None, "the next pass"),
            Self::ListIncomplete { list } => says(
                format!("the runtime's list of {list} is incomplete, and more of its pod may be missing"),
                None,
                "fewer objects, or a larger max_send_message_size in the runtime's configuration",
            ),
            Self::PossibleImageVolume { container } => says(
                format!("container {container} may have it mounted: its status failed, and its pod names the image"),
                None,
                "a status of that container, or the removal of that container",
            ),
            Self::ImageVolumesUnknown { container } => says(
                format!("container {container} may have it mounted: its status failed, and its pod's spec is unknown"),
                Some("pods.source"),
                "a status of that container, its removal, or a pod source that knows pod specs",
            ),
            _ => says("the step could not run; the plan's errors say why", None, "mending that"),
        }
    }

    /// The rules that only we have.
    fn explain_guard(&self) -> Explanation {
        match self {
            Self::NewestOfUnit {} => says(
                "the newest instance of this container: without it the kubelet would run it again",
                Some("guards.keep_newest_of_unit"),
                "its pod being gone, or a newer instance",
            ),
            Self::MaybeStarting { created_grace_seconds } => says(
                format!("created less than {} ago and perhaps about to start", time(*created_grace_seconds)),
                Some("guards.created_grace"),
                "time",
            ),
            Self::Foreign {} => says(
                "it has no pod labels, so it is somebody else's",
                Some("guards.keep_foreign"),
                "guards.keep_foreign = false",
            ),
            Self::NotYetGone { absent_since, gone_after_seconds } => says(
                match absent_since {
                    Some(since) => {
                        format!("its pod is absent since {since}, not yet for {}", time(*gone_after_seconds))
                    }
                    None => {
                        format!("its pod was absent for the first time; it must be for {}", time(*gone_after_seconds))
                    }
                },
                Some("guards.gone_after"),
                "a look later that still does not find the pod",
            ),
            Self::PodStillRuns {} => says("something of its pod still runs", None, "the end of the pod's containers"),
            Self::PodDirExists {} => says(
                "the kubelet still has a directory of its pod",
                Some("kubelet_root"),
                "the kubelet finishing with the pod",
            ),
            Self::PodDirsNotSeen { cause } => says(
                format!("its pod is in no list, but the kubelet's directories could not be read: {cause}"),
                Some("kubelet_root"),
                "access to the kubelet's directories",
            ),
            Self::PodNotConfirmable { source } => says(
                format!("the pod is missing, but {source} looks pods up by namespace and name, and it has none"),
                Some("pods.source"),
                "removing it by hand, or pods.source = \"kubelet\", which confirms a deletion by uid",
            ),
            Self::YoungSandbox { sandbox_grace_seconds } => says(
                format!("a sandbox less than {} old may be one in the making", time(*sandbox_grace_seconds)),
                Some("guards.sandbox_grace"),
                "time",
            ),
            Self::Unrecognized {} => says(
                "no kubelet gave it this name, or it is not the kind of entry expected",
                Some("guards.keep_unrecognized_logs"),
                "nothing; remove it by hand if nobody needs it",
            ),
            Self::PodInRuntime {} => says("the runtime still has something of its pod", None, "that going first"),
            Self::RuntimeNotSeen { cause } => {
                says(format!("the runtime could not be asked: {cause}"), None, "a runtime that answers")
            }
            other => other.explain_image_guard(),
        }
    }

    /// The rules that only we have, for images and for the node as a whole.
    fn explain_image_guard(&self) -> Explanation {
        match self {
            Self::SandboxImage {} => {
                says("the runtime's sandboxes run it", Some("guards.keep_sandbox_image"), "another sandbox image")
            }
            Self::KeepPattern { pattern } => {
                says(format!("the pattern {pattern} keeps it"), Some("images.keep"), "taking the pattern out")
            }
            Self::BeingPulled {} => {
                says("the kubelet is pulling it", Some("guards.keep_pod_images"), "the end of the pull")
            }
            Self::NamedByPod { named_by, as_of: None } => {
                says(format!("the pod {named_by} names it"), Some("guards.keep_pod_images"), "that pod being gone")
            }
            Self::NamedByPod { named_by, as_of: Some(as_of) } => says(
                format!("the pod {named_by} named it in the last complete list of pods, which is of {as_of}"),
                Some("guards.keep_pod_images"),
                "a pod source that is available and complete",
            ),
            Self::RuntimeJustStarted { settle_seconds } => says(
                format!("the runtime started less than {} ago; its lists may not be whole", time(*settle_seconds)),
                Some("guards.settle"),
                "time",
            ),
            Self::ListFell { list, before, now, hold_seconds } => says(
                format!(
                    "the runtime lists {now} {list} after {before}; so sharp a fall is trusted once it has held for {}",
                    time(*hold_seconds)
                ),
                Some("guards.fall_percent"),
                "passes over guards.fall_hold that see the same, or a longer list",
            ),
            Self::BackingOff { retry_at, failures, error } => says(
                format!("its removal failed {failures} times ({error}); the next try is not before {retry_at}"),
                Some("guards.retry_after"),
                "time, or mending the cause",
            ),
            _ => says("a guard keeps it", None, "that guard's setting"),
        }
    }
}

#[cfg(test)]
mod tests;
