//! The table of reasons: for each its texts, the setting that decides, and whether it is a guard.
//!
//! A reason is declared in `reason.rs` and described here, or in `explain/keep.rs`, and nowhere else. Its word in documents
//! is its name in snake case. A reason without a description does not compile.

mod keep;

use std::borrow::Cow;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::reason::{RemoveReason, RuleReason};
use crate::model::{count_text, duration_text, size_text};
use crate::plan::document::Kept;
use crate::plan::document::reason::KeepReason;
use crate::plan::policy::log_limit::LogLimit;
use crate::store::Category;

/// When a reason that disk pressure alone causes changes.
const NO_PRESSURE: &str = "there is no disk pressure, and no --pressure";

/// What people read about a reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// A noun phrase for tables. All objects of a kind with this reason share it, so it names no single object.
    pub phrase: Cow<'static, str>,
    /// What the phrase leaves out: the one container, pod or cause.
    pub detail: Option<String>,
    /// The rule as a clause about the object, for `why`.
    pub rule: Cow<'static, str>,
    /// The setting that decides, if there is one. `min_age` is that of the object's kind.
    pub setting: Option<&'static str>,
    /// When the decision changes, as a clause that follows "when".
    pub change: &'static str,
    /// Whether the reason is a guard: a rule of kubegc that keeps what the kubelet would remove.
    pub is_guard: bool,
    /// Where an image that is kept counts in the account of the disk.
    pub category: Category,
}

/// A rule that the kubelet has too.
fn rule(phrase: impl Into<Cow<'static, str>>, rule: impl Into<Cow<'static, str>>, change: &'static str) -> Explanation {
    let (phrase, rule, category) = (phrase.into(), rule.into(), Category::ImagesKept);
    Explanation { phrase, detail: None, rule, setting: None, change, is_guard: false, category }
}

/// A rule of kubegc alone.
fn guard(
    phrase: impl Into<Cow<'static, str>>,
    text: impl Into<Cow<'static, str>>,
    change: &'static str,
) -> Explanation {
    Explanation { is_guard: true, ..rule(phrase, text, change) }
}

fn time(seconds: i64) -> String {
    duration_text(Duration::from_secs(seconds.unsigned_abs()))
}

// === impl Explanation ===

impl Explanation {
    fn set_by(self, setting: &'static str) -> Self {
        Self { setting: Some(setting), ..self }
    }

    fn in_use(self) -> Self {
        Self { category: Category::ImagesInUse, ..self }
    }

    /// The image is unused, and goes when space is needed or with time.
    fn removable(self) -> Self {
        Self { category: Category::ImagesRemovable, ..self }
    }

    fn detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()).filter(|detail| !detail.is_empty()), ..self }
    }
}

// === impl RemoveReason ===

impl RemoveReason {
    /// Returns whether an image is removed to reclaim space, so that it is kept if there is enough.
    pub fn is_for_space(&self) -> bool {
        matches!(self, Self::Space { .. } | Self::Target { .. } | Self::Unused { pressure: true })
    }

    /// Returns whether nothing needs the space of an image that is removed for this reason, so that its content may stay for a while.
    pub fn can_be_undone(&self) -> bool {
        matches!(
            self,
            Self::Age { .. } | Self::Rule(_) | Self::Listed {} | Self::Named {} | Self::Unused { pressure: false }
        )
    }

    /// Returns the texts about this reason.
    pub fn explain(&self) -> Explanation {
        match self {
            Self::PodDeleted {} => {
                rule("pod deleted", "its pod is deleted", "the pod exists again").set_by("guards.gone_after")
            }
            Self::PodTerminal { pressure: true } => rule(
                "pod terminated (disk pressure)",
                "its pod is terminated, and objects of terminated pods are removed under disk pressure",
                NO_PRESSURE,
            ),
            Self::PodTerminal { pressure: false } => rule(
                "pod terminated (containers.evict_terminated_pods)",
                "its pod is terminated, and objects of terminated pods are removed",
                "containers.evict_terminated_pods is false",
            )
            .set_by("containers.evict_terminated_pods"),
            Self::OverMaxPerPodContainer { limit } => rule(
                format!("over containers.max_per_pod_container ({limit})"),
                match limit {
                    0 => "kubegc keeps no dead container of this name in its pod".to_owned(),
                    1 => "kubegc keeps only the newest dead container of this name in its pod, and this one is older"
                        .to_owned(),
                    limit => format!(
                        "kubegc keeps only the newest {} of this name in its pod, and this one is older",
                        dead(*limit)
                    ),
                },
                "containers.max_per_pod_container is higher; a negative value is no limit",
            )
            .set_by("containers.max_per_pod_container"),
            Self::OverTotalLimit { limit } => rule(
                format!("over containers.max_containers ({limit})"),
                format!("the node has more than {}, and this is one of the oldest", dead(*limit)),
                "containers.max_containers is higher; a negative value is no limit",
            )
            .set_by("containers.max_containers"),
            Self::OverLogLimit(limit) => over_log_limit(*limit),
            Self::OverArchiveLimit { limit } => over_archive_limit(limit.as_deref()),
            Self::Superseded {} => rule("pod has a newer sandbox", "its pod has a newer sandbox", "never"),
            Self::Dangling {} => rule(
                "dangling symlink",
                "its target does not exist, and its container exited or is removed",
                "the log file exists again",
            ),
            Self::Space { high_threshold_percent, used_percent } => rule(
                format!("disk usage {used_percent}% >= {high_threshold_percent}%"),
                format!(
                    "disk usage is {used_percent}%, the high threshold is {high_threshold_percent}%, \
                     and this image is among the first by images.order"
                ),
                "disk usage is lower, a container uses it, images.keep matches it, or the threshold is higher",
            )
            .set_by("images.high_threshold_percent"),
            Self::Rule(reason) => by_rule(reason),
            Self::Target { target, value } => rule(
                format!("{} (images.targets: {target})", target.state(*value)),
                format!("the disk has {}, and this image is among the first by images.order", target.state(*value)),
                "the disk has more space, a container uses it, images.keep matches it, or images.targets has other values",
            )
            .set_by("images.targets"),
            Self::Age { max_age_seconds, unused_seconds: Some(unused) } => rule(
                format!("unused for {} (images.max_age = {})", time(*unused), time(*max_age_seconds)),
                format!("it is unused for {}, longer than {}", time(*unused), time(*max_age_seconds)),
                "a container uses it, images.keep matches it, or images.max_age is longer",
            )
            .set_by("images.max_age"),
            Self::Age { max_age_seconds, unused_seconds: None } => rule(
                format!("never used (images.max_age = {})", time(*max_age_seconds)),
                format!("no use of it is recorded, and images.max_age is {}", time(*max_age_seconds)),
                "a container uses it, images.keep matches it, or images.max_age is longer",
            )
            .set_by("images.max_age"),
            Self::Unused { pressure: true } => rule(
                "unused (disk pressure)",
                "it is unused, and unused images are removed until the disk has no pressure",
                NO_PRESSURE,
            ),
            Self::Unused { pressure: false } => rule(
                "unused (images.all_unused)",
                "it is unused, and all unused images are to be removed",
                "images.all_unused is false",
            )
            .set_by("images.all_unused"),
            Self::InstanceGone {} => {
                left_over("container gone", "the runtime has newer instances of its container, and not this one")
            }
            Self::Unreferenced {} => left_over(
                "unreferenced",
                "nothing in the store of containerd refers to it, and containerd collects it when asked",
            ),
            Self::Listed {} => named("removed by list (--remove-list)", "the list of the command"),
            Self::Named {} => named("named in the command", "the command"),
        }
    }
}

/// Returns the texts about an object that a rule removes.
fn by_rule(RuleReason { rule: name, limit, note, .. }: &RuleReason) -> Explanation {
    let note = with_note(note);
    let explanation = match limit {
        None => rule(
            format!("rule {name:?}"),
            format!("the rule {name:?} removes it{note}, and no guard keeps it"),
            "it is in use, a guard keeps it, or the rule no longer matches",
        ),
        Some(limit) => rule(
            format!("rule {name:?} ({limit})"),
            format!("it is over a limit of the rule {name:?}: {limit}{note}"),
            "the rule has a higher limit, or no longer matches",
        ),
    };
    explanation.set_by("rule")
}

/// Returns the texts about an unused image that a command names.
fn named(phrase: &'static str, by: &str) -> Explanation {
    rule(phrase, format!("it is unused, and {by} names it"), "it is in use, or a guard keeps it")
}

/// Returns the texts about a log file that is removed for a limit.
fn over_log_limit(limit: LogLimit) -> Explanation {
    let (of, bytes) = (<&str>::from(limit.limit_of), size_text(limit.limit_bytes));
    let text =
        format!("the log files of its {of} have more than {bytes}, and this is one of the oldest of the largest pod");
    rule(format!("over logs.limits ({limit})"), text, "logs.limits permits more").set_by("logs.limits")
}

/// Returns the texts about a log file that only the archive has.
fn over_archive_limit(limit: Option<&str>) -> Explanation {
    let Some(limit) = limit else {
        return rule(
            "archived (disk pressure)",
            "only the archive has it, and the disk of the logs has pressure",
            NO_PRESSURE,
        );
    };
    let text = format!("only the archive has it, and it is over the limit {limit}");
    rule(format!("over logs.archive ({limit})"), text, "logs.archive permits more").set_by("logs.archive")
}

/// Returns the texts about a file that is left over.
fn left_over(phrase: &'static str, text: &'static str) -> Explanation {
    rule(phrase, text, "leftovers.remove does not have its kind").set_by("leftovers.remove")
}

fn dead(limit: u64) -> String {
    count_text(limit, "dead container")
}

/// Formats the note of a rule behind a clause.
fn with_note(note: &str) -> String {
    if note.is_empty() { String::new() } else { format!(" ({note})") }
}

// === impl Kept ===

impl Kept {
    /// Returns the seconds after `taken_at`, the time of the plan, at which the reason ends by itself. `None` = it does
    /// not, or the plan does not show when.
    pub fn seconds_to_go(&self, taken_at: Timestamp) -> Option<i64> {
        let until = |end: Timestamp| end.duration_since(taken_at).as_secs();
        let after =
            |since: Timestamp, seconds| since.saturating_add(SignedDuration::from_secs(seconds)).ok().map(until);
        let seconds = match &self.reason {
            KeepReason::YoungerThanMinAge { min_age_seconds } => min_age_seconds - self.age_seconds.unwrap_or_default(),
            KeepReason::MaybeStarting { created_grace_seconds } => created_grace_seconds - self.age_seconds?,
            KeepReason::YoungSandbox { sandbox_grace_seconds } => sandbox_grace_seconds - self.age_seconds?,
            KeepReason::PodMissing { absent_since, gone_after_seconds } => {
                after(absent_since.unwrap_or(taken_at), *gone_after_seconds)?
            }
            KeepReason::BackingOff { retry_at, .. } => until(*retry_at),
            _ => return None,
        };
        Some(seconds).filter(|seconds| *seconds > 0)
    }
}

#[cfg(test)]
mod tests;
