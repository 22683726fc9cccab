//! The texts of the reasons to keep an object.

use super::{Explanation, dead, guard, rule, time};
use crate::model::{count_text, short_id, size_text};
use crate::plan::document::reason::{KeepReason, RuleReason};

// === impl KeepReason ===

impl KeepReason {
    /// Returns the word in documents.
    pub fn kind(&self) -> &'static str {
        self.into()
    }

    /// Returns whether this is a guard of kubegc, which only keeps what the kubelet would remove.
    pub fn is_guard(&self) -> bool {
        self.explain().is_guard
    }

    /// Returns the texts about this reason.
    #[expect(clippy::too_many_lines, reason = "a table: one arm for each reason")]
    pub fn explain(&self) -> Explanation {
        match self {
            // --- containers ---
            Self::Running {} => rule("running", "it is running", "it exits"),
            Self::YoungerThanMinAge { min_age_seconds } => rule(
                format!("younger than min_age ({})", time(*min_age_seconds)),
                format!("it is younger than {}", time(*min_age_seconds)),
                "it is older, or min_age is shorter",
            )
            .set_by("min_age")
            .removable(),
            Self::WithinMaxPerPodContainer { limit } => rule(
                format!("within containers.max_per_pod_container ({limit})"),
                match limit {
                    1 => "kubegc keeps the newest dead container of this name in its pod, and this is it".to_owned(),
                    limit => format!(
                        "kubegc keeps the newest {} of this name in its pod, and this is one of them",
                        dead(*limit)
                    ),
                },
                "its pod is deleted, a newer instance exits, or containers.max_per_pod_container is lower",
            )
            .set_by("containers.max_per_pod_container"),
            Self::NoLimit {} => {
                rule("no limit set", "no limit on dead containers is set", "its pod is deleted, or a limit is set")
                    .set_by("containers.max_per_pod_container")
            }

            // --- leftovers ---
            Self::NotSelected { leftover } => {
                let kind: &str = leftover.into();
                rule(
                    format!("shown only (leftovers.remove without \"{kind}\")"),
                    format!("leftovers.remove does not have \"{kind}\""),
                    "leftovers.remove has it",
                )
                .set_by("leftovers.remove")
            }
            Self::ForeignPath { cause } => rule(
                "has more than the kubelet creates",
                "a removal could reach data that is mounted there, or that something else keeps there",
                "that is unmounted or removed",
            )
            .detail(cause.clone()),
            Self::ShownOnly {} => rule(
                "shown only",
                "kubegc shows it and never removes it: only the program that made it can do so safely",
                "that program removes it (docs/disk.md)",
            ),
            Self::NoRule {} => rule(
                "no rule for checkpoints",
                "a person asked for it, and no rule removes it",
                "a rule for \"checkpoint\" removes it",
            ),
            Self::ProtectsImage {} => rule(
                "record protects an image",
                "without this record any pod could use the image if it returns, so kubegc never removes it",
                "the kubelet removes it, or a person does and restarts the kubelet while the image is absent (docs/disk.md)",
            ),

            // --- sandboxes ---
            Self::Ready {} => rule("sandbox ready", "the sandbox is ready", "the runtime stops the sandbox"),
            Self::HasContainers { containers } => rule(
                "sandbox has containers",
                format!("the sandbox has {}", count_text(*containers as u64, "container")),
                "its containers are removed",
            )
            .detail(count_text(*containers as u64, "container")),
            Self::NewestSandbox {} => rule(
                "newest sandbox of its pod",
                "it is the newest sandbox of its pod, and the pod is not proven to be deleted",
                "its pod is deleted",
            ),

            // --- pods ---
            Self::PodPresent { source } => rule(
                format!("pod exists ({source})"),
                format!("its pod exists in the list from {source}"),
                "its pod is deleted",
            ),
            Self::PodsIncomplete { source, cause } => rule(
                format!("pod list from {source} incomplete"),
                format!("the pod list from {source} is not complete, so a missing pod may exist"),
                "the pod list is complete",
            )
            .set_by("pods.source")
            .detail(cause.clone()),
            Self::PodsNotSeen { cause } => rule(
                "no pod list available",
                "no pod list is available, so every pod may exist",
                "a pod source is available",
            )
            .set_by("pods.source")
            .detail(cause.clone()),

            // --- logs ---
            Self::TargetExists {} => rule("symlink target exists", "its target exists", "the log file is deleted"),
            Self::TargetUnknown {} => {
                rule("symlink target unknown", "its target cannot be determined", "its target can be read")
            }
            Self::ContainerNotExited { .. } => rule(
                "container not exited",
                "its target does not exist, but its container has not exited: the log may be in rotation",
                "the container exits",
            ),

            // --- images ---
            Self::InUse { container } => {
                rule("in use by a container", format!("container {container} uses it"), "no container uses it")
                    .detail(short_id(container))
                .in_use()
            }
            Self::ImageVolume { container } => rule(
                "mounted as an image volume",
                format!("container {container} mounts it as an image volume"),
                "that container is removed",
            )
            .detail(short_id(container))
            .in_use(),
            Self::Pinned {} => {
                rule("pinned by the runtime", "the runtime has pinned it", "the runtime's configuration unpins it")
            }
            Self::BelowThreshold { used_percent, high_threshold_percent } => rule(
                format!("disk usage {used_percent}% < {high_threshold_percent}%"),
                format!("it is unused, but disk usage is {used_percent}%, below {high_threshold_percent}%"),
                "disk usage reaches the high threshold, the threshold is lower, or images.max_age is set",
            )
            .set_by("images.high_threshold_percent")
            .removable(),
            Self::WithinLeftoverMaxAge { max_age_seconds } => rule(
                format!("within logs.leftover_max_age ({})", time(*max_age_seconds)),
                format!("its instance is not in the runtime, and it is not older than {}", time(*max_age_seconds)),
                "it is older, or logs.leftover_max_age is shorter",
            )
            .set_by("logs.leftover_max_age"),
            Self::WithinMaxAge { max_age_seconds } => rule(
                format!("within images.max_age ({})", time(*max_age_seconds)),
                format!(
                    "it is unused for at most {}, and disk usage is below the high threshold",
                    time(*max_age_seconds)
                ),
                "it is unused for longer, images.max_age is shorter, or disk usage reaches the high threshold",
            )
            .set_by("images.max_age")
            .removable(),
            Self::TargetReached {} => rule(
                "not needed to reach low threshold",
                "it is unused, but the images before it are enough to reach the low threshold",
                "images.low_threshold_percent is lower, or the removals reclaim less than estimated",
            )
            .set_by("images.low_threshold_percent")
            .removable(),
            Self::BeyondPace { images, bytes } => {
                let images = images.map(|images| format!("{images} images"));
                let limits: Vec<_> = images.into_iter().chain(bytes.map(size_text)).collect();
                rule(
                    format!("over the limit of a pass (images.pace: {})", limits.join(", ")),
                    format!("it is unused, but one pass removes at most {}", limits.join(" and ")),
                    "the images before it are removed, images.pace has higher limits, or the disk has less than 5% free",
                )
                .set_by("images.pace")
                .removable()
            }
            Self::FreesNothing {} => rule(
                "its removal reclaims nothing",
                "it is unused, but other images or containers hold all of its layers",
                "those are removed",
            )
            .removable(),
            Self::UsedByOtherClient { namespace, container } => guard(
                "in use by another client of the runtime",
                format!("container {container} in the namespace {namespace} of the runtime uses it"),
                "that container is removed",
            )
            .detail(format!("{namespace}/{}", short_id(container)))
            .in_use(),
            Self::ImageGcOff {} => rule(
                "image removal disabled",
                "image removal is disabled",
                "images.high_threshold_percent is below 100, or images.max_age is set",
            )
            .set_by("images.high_threshold_percent")
            .removable(),
            Self::UsedMeanwhile {} => {
                rule("used in this pass", "it was in use at the start of this pass", "the next pass runs")
            }
            Self::PossiblyInUse { container } => rule(
                "possibly in use by a container",
                format!("it has no name, and the runtime lists no image with the name that container {container} uses"),
                "the runtime lists that image, or that container is removed",
            )
            .detail(short_id(container))
            .in_use(),
            Self::PossibleImageVolume { container } => rule(
                "possibly mounted as image volume",
                format!("container {container} may mount it: its status failed, and its pod names the image"),
                "the status of that container is available, or that container is removed",
            )
            .detail(short_id(container)),
            Self::ImageVolumesUnknown { container } => rule(
                "image volumes of a container unknown",
                format!("container {container} may mount it: its status failed, and its pod spec is unavailable"),
                "that status is available, that container is removed, or a pod source provides pod specs",
            )
            .set_by("pods.source")
            .detail(short_id(container)),

            // --- observation ---
            Self::StepFailed {} => {
                rule("step failed", "the step failed; the plan lists the error", "the error is fixed")
            }
            Self::ListIncomplete { list } => rule(
                format!("runtime list of {list} incomplete"),
                format!("the runtime's list of {list} is incomplete, so more objects of its pod may exist"),
                "the node has fewer objects, or max_send_message_size of the runtime is larger",
            ),

            // --- guards ---
            Self::NewestInstance {} => guard(
                "newest instance of its container",
                "it is the newest instance of this container; the kubelet would run the container again without it",
                "its pod is deleted, or a newer instance exists",
            )
            .set_by("profile"),
            Self::MaybeRunning {} => guard(
                "possibly running",
                "its state is unknown and its sandbox may be ready, so it may be running",
                "its sandbox stops, or the runtime reports its state",
            )
            .set_by("profile"),
            Self::MaybeStarting { created_grace_seconds } => guard(
                format!("possibly starting (guards.created_grace = {})", time(*created_grace_seconds)),
                format!("it was created less than {} ago and may be about to start", time(*created_grace_seconds)),
                "it is older",
            )
            .set_by("guards.created_grace"),
            Self::Unmanaged {} => guard(
                "not managed by the kubelet (guards.keep_foreign)",
                "it has no pod labels, so the kubelet does not manage it",
                "guards.keep_foreign is false",
            )
            .set_by("guards.keep_foreign"),
            Self::PodMissing { absent_since, gone_after_seconds } => {
                let after = time(*gone_after_seconds);
                guard(
                    format!("pod missing for less than guards.gone_after ({after})"),
                    match absent_since {
                        Some(since) => format!("its pod is missing since {since}, for less than {after}"),
                        None => format!("its pod is missing for the first time; it is removed after {after}"),
                    },
                    "a later pass does not find the pod either",
                )
                .set_by("guards.gone_after")
            }
            Self::PodStillRuns {} => guard(
                "running container or ready sandbox",
                "its pod still has a running container or a ready sandbox",
                "all containers of the pod exit and its sandboxes stop",
            ),
            Self::PodDirExists {} => guard(
                "pod directory exists",
                "the kubelet still has a directory for its pod",
                "the kubelet deletes the directory",
            )
            .set_by("kubelet_root"),
            Self::PodDirsNotSeen { cause } => guard(
                "pod directories unavailable",
                format!("its pod is in no list, but the kubelet's pod directories are unavailable: {cause}"),
                "the kubelet's pod directories are readable",
            )
            .set_by("kubelet_root")
            .detail(cause.clone()),
            Self::PodNotConfirmable { source } => guard(
                "pod deletion cannot be confirmed",
                format!("its pod is missing, and {source} cannot confirm that without its namespace and name"),
                "pods.source is \"kubelet\", which looks up pods by uid, or it is removed by hand",
            )
            .set_by("pods.source"),
            Self::YoungSandbox { sandbox_grace_seconds } => guard(
                format!("possibly being created (guards.sandbox_grace = {})", time(*sandbox_grace_seconds)),
                format!("the sandbox is younger than {} and may still be in creation", time(*sandbox_grace_seconds)),
                "it is older",
            )
            .set_by("guards.sandbox_grace"),
            Self::Unrecognized {} => guard(
                "unrecognized name",
                "the kubelet creates no entry with this name or type",
                "it is removed by hand",
            )
            .set_by("profile"),
            Self::PodInRuntime {} => guard(
                "pod has objects in the runtime",
                "the runtime still has a container or sandbox of its pod",
                "these are removed",
            ),
            Self::RuntimeNotSeen { cause } => guard(
                "container list unavailable",
                format!("the runtime's list of containers is unavailable: {cause}"),
                "the runtime is available",
            )
            .detail(cause.clone()),
            Self::SandboxImage {} => guard(
                "sandbox image",
                "it is the sandbox image of the runtime",
                "the runtime uses another sandbox image",
            )
            .set_by("profile"),
            Self::Rule(RuleReason { rule: name, limit: Some(limit), note, .. }) => rule(
                format!("rule {name:?} ({limit})"),
                format!("it is within a limit of the rule {name:?}: {limit}{}", super::with_note(note)),
                "it is over the limit, or the rule no longer matches",
            )
            .set_by("rule"),
            Self::Rule(RuleReason { rule: name, error: Some(error), note, .. }) => rule(
                format!("rule {name:?} (not evaluated)"),
                format!("the rule {name:?} cannot be evaluated, which keeps it: {error}{}", super::with_note(note)),
                "its condition can be evaluated and does not hold; has(…) tests whether a fact exists",
            )
            .set_by("rule"),
            Self::Rule(RuleReason { rule: name, limit: None, note, .. }) => rule(
                format!("rule {name:?}"),
                format!("the rule {name:?} keeps it{}", super::with_note(note)),
                "the rule no longer matches, it expires, or a rule before it decides",
            )
            .set_by("rule"),
            Self::NamedByWorkload { workload } => guard(
                "named by a workload (guards.keep_workload_images)",
                format!("{workload} names it, and may create a pod with it on this node"),
                "the workload no longer names it, a disk has pressure, or guards.keep_workload_images is false",
            )
            .set_by("guards.keep_workload_images"),
            Self::KeepPattern { pattern } => guard(
                format!("matches images.keep ({pattern})"),
                format!("the pattern {pattern} in images.keep matches it"),
                "the pattern is deleted from images.keep",
            )
            .set_by("images.keep"),
            Self::PulledAgain { removed_at, unused_seconds } => guard(
                format!("pulled again after its removal (for {})", time(*unused_seconds)),
                format!(
                    "it was pulled again after its removal at {removed_at:.0} for the same reason, so it stays until it is unused for {}",
                    time(*unused_seconds)
                ),
                "it is unused for that long, or its space is needed",
            )
            .set_by("profile"),
            Self::BeingPulled {} => {
                guard("being pulled (guards.keep_pod_images)", "the kubelet is pulling it", "the pull ends")
                    .set_by("guards.keep_pod_images")
            }
            Self::NamedByPod { named_by, as_of: None } => guard(
                "named in a pod spec (guards.keep_pod_images)",
                format!("the spec of pod {named_by} names it"),
                "that pod is deleted",
            )
            .set_by("guards.keep_pod_images")
            .detail(named_by.clone()),
            Self::NamedByPod { named_by, as_of: Some(as_of) } => guard(
                "named in a pod spec (guards.keep_pod_images)",
                format!("the spec of pod {named_by} named it in the last complete pod list, of {as_of}"),
                "a pod source is available and complete",
            )
            .set_by("guards.keep_pod_images")
            .detail(format!("{named_by}, in the pod list of {as_of}")),
            Self::RuntimeJustStarted { settle_seconds } => guard(
                format!("runtime just started (guards.settle = {})", time(*settle_seconds)),
                format!("the runtime started less than {} ago; its lists may be incomplete", time(*settle_seconds)),
                "the runtime has run for longer",
            )
            .set_by("guards.settle"),
            Self::ListFell { list, before, now, hold_seconds } => guard(
                format!("list of {list} fell from {before} to {now} (guards.fall_hold)"),
                format!(
                    "the runtime lists {now} {list} after {before}; kubegc trusts so few only after {}",
                    time(*hold_seconds)
                ),
                "the list stays as short for guards.fall_hold, or grows again",
            )
            .set_by("guards.fall_hold"),
            Self::BaselineLost { hold_seconds } => guard(
                "store was replaced (guards.fall_hold)".to_owned(),
                format!("a damaged store was replaced, so kubegc trusts no list for {}", time(*hold_seconds)),
                "guards.fall_hold has passed since then",
            )
            .set_by("guards.fall_hold"),
            Self::BackingOff { retry_at, failures, error } => guard(
                "back-off after a failure",
                format!("its removal failed {}: {error}; the next attempt is at {retry_at}", times(*failures)),
                "the time has passed",
            )
            .set_by("profile")
            .detail(format!("{}: {error}", count_text(u64::from(*failures), "failure"))),
        }
    }
}

fn times(number: u32) -> String {
    if number == 1 { "once".to_owned() } else { format!("{number} times") }
}
