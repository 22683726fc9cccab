//! What `why` shows about an object besides the decision: ages, sizes, users, and the time until the decision changes.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::cli::input::lookup::Object;
use crate::cli::render::format;
use crate::cli::verbs::images::{User, users};
use crate::model::{Image, RemovedImage, Seen, Snapshot};
use crate::plan::{ImageUsers, KeepReason, Kept, Kind, OtherClients, known_time};
use crate::store::{Size, SnapshotIndex};

/// The containers that are named in a text.
const NAMED_USERS: usize = 5;

/// Facts about an object. What is unknown is left out.
#[derive(Debug, Default, Serialize)]
pub(super) struct Facts {
    /// The kubelet's restart number of a container.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    /// Seconds since a container or a sandbox was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    age_seconds: Option<i64>,
    /// When a container finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Timestamp>,
    /// The exit code of a container.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(flatten)]
    size: Size,
    /// The first pass that listed an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_seen: Option<Timestamp>,
    /// The last pass in which an image was in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used: Option<Timestamp>,
    /// A container that used an image in that pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_by: Option<String>,
    /// The last removal of an image that is here again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pulled_again: Option<RemovedImage>,
    /// The containers that use an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    users: Option<Vec<User>>,
    /// A container of another client of the runtime that uses an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    other_user: Option<OtherUser>,
}

/// A container of another client of the runtime.
#[derive(Debug, Serialize)]
struct OtherUser {
    id: String,
    /// Its namespace in the runtime.
    namespace: String,
}

// === impl Facts ===

impl Facts {
    pub(super) fn of(object: Object, snapshot: &Snapshot) -> Self {
        let age = |at: Timestamp| Some(snapshot.taken_at.duration_since(known_time(at)?).as_secs());
        match object {
            Object::Container(one) => Self {
                attempt: Some(one.attempt),
                age_seconds: age(one.created_at),
                finished_at: one.finished_at,
                exit_code: one.exit_code,
                size: one.log_bytes.into(),
                ..Self::default()
            },
            Object::Sandbox(one) => Self { age_seconds: age(one.created_at), ..Self::default() },
            Object::Image(image) => Self::of_image(image, snapshot),
            Object::LogDir(dir) => Self { size: dir.size_bytes.into(), ..Self::default() },
            Object::LogFile(log) => {
                Self { attempt: Some(log.attempt), size: Some(log.size_bytes).into(), ..Self::default() }
            }
            Object::LogLink(_) => Self::default(),
            Object::Leftover(leftover) => Self { size: Some(leftover.at.usage.bytes).into(), ..Self::default() },
        }
    }

    fn of_image(image: &Image, snapshot: &Snapshot) -> Self {
        let past = snapshot.memory.images.iter().find(|past| past.id == image.id);
        Self {
            size: SnapshotIndex::new(snapshot).size_of(image),
            first_seen: past.and_then(|past| past.first_seen),
            last_used: past.and_then(|past| past.last_used),
            last_used_by: past.and_then(|past| past.last_used_by.clone()),
            pulled_again: pulled_again(image, snapshot),
            users: Some(users(&ImageUsers::new(snapshot), image)),
            other_user: OtherClients::new(snapshot)
                .user(image)
                .map(|user| OtherUser { id: user.name.clone(), namespace: user.namespace.clone() }),
            ..Self::default()
        }
    }

    /// Formats the removal of an image that was pulled again.
    fn removal(&self, now: Timestamp) -> Option<String> {
        let RemovedImage { at, reason, rule, bytes, pulled_again_at, .. } = self.pulled_again.as_ref()?;
        let ago = format::age(now.duration_since(*at).as_secs());
        let rule = rule.as_ref().map(|rule| format!(" {rule:?}")).unwrap_or_default();
        let pulled_again = format::pulled_again(*at, (*pulled_again_at)?, Some(*bytes));
        Some(format!("removed {ago} ago ({}{rule}), {pulled_again}", reason.replace('_', " ")))
    }

    /// Names the last user of an image that is unused now; the users of another image have their own line.
    fn last_user(&self) -> String {
        let is_used = self.other_user.is_some() || self.users.as_ref().is_some_and(|users| !users.is_empty());
        self.last_used_by.as_ref().filter(|_| !is_used).map(|name| format!(" by {name}")).unwrap_or_default()
    }

    /// Formats the facts in one line, and the users of an image in another.
    pub(super) fn lines(&self, kind: Kind, now: Timestamp) -> Vec<String> {
        let ago = |at: Timestamp| format!("{} ago", format::age(now.duration_since(at).as_secs()));
        let size = match kind {
            Kind::Container => "logs",
            _ => "size",
        };
        let facts = [
            self.attempt.map(|attempt| format!("attempt {attempt}")),
            self.age_seconds.map(|age| format!("created {} ago", format::age(age))),
            self.exit_code.map(|code| format!("exit code {code}")),
            self.finished_at.map(|at| format!("finished {}", ago(at))),
            self.size.known().map(|bytes| format!("{size} {}", format::size(bytes))),
            self.first_seen.map(|at| format!("first seen {}", ago(at))),
            self.last_used.map(|at| format!("last used {}{}", ago(at), self.last_user())),
        ];
        let facts: Vec<_> = facts.into_iter().flatten().collect();
        let facts = Some(facts.join(", ")).filter(|facts| !facts.is_empty());
        let other = self.other_user.as_ref().map(|OtherUser { id, namespace }| {
            format!("used by: container {id} of another client of the runtime, in its namespace {namespace}")
        });
        facts.into_iter().chain(self.removal(now)).chain(self.users.as_deref().and_then(used_by)).chain(other).collect()
    }
}

/// Returns the removal of an image that is here again, also if no pass has noted that yet.
fn pulled_again(image: &Image, snapshot: &Snapshot) -> Option<RemovedImage> {
    let removed = snapshot.memory.removal_of(image).filter(|removed| removed.at < snapshot.taken_at)?;
    let pulled_again_at = removed.pulled_again_at.or(Some(snapshot.taken_at));
    Some(RemovedImage { pulled_again_at, ..removed.clone() })
}

fn used_by(users: &[User]) -> Option<String> {
    let mut names: Vec<_> = users.iter().map(|user| user.name.clone()).collect();
    names.dedup();
    let more = names.len().saturating_sub(NAMED_USERS);
    names.truncate(NAMED_USERS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!names.is_empty()).then(|| format!("used by: {}{more}", names.join(", ")))
}

/// Returns the seconds until the decision about a kept object changes by itself, if it does.
pub(super) fn seconds_to_go(kept: &Kept, snapshot: &Snapshot) -> Option<i64> {
    let now = snapshot.taken_at;
    let after = |since: Timestamp, seconds: i64| {
        let end = since.saturating_add(SignedDuration::from_secs(seconds)).ok()?;
        Some(end.duration_since(now).as_secs())
    };
    // The plan does not have the times that these count from.
    let seconds = match &kept.reason {
        KeepReason::WithinMaxAge { max_age_seconds: unused_seconds }
        | KeepReason::PulledAgain { unused_seconds, .. } => {
            let past = snapshot.memory.images.iter().find(|past| past.id.as_str() == kept.id)?;
            // An image that returned is first seen then, and may have been used before.
            after(past.last_used.max(past.first_seen)?, *unused_seconds)?
        }
        KeepReason::ListFell { hold_seconds, .. } => {
            after(snapshot.memory.fall.as_ref().map_or(now, |fall| fall.since), *hold_seconds)?
        }
        KeepReason::BaselineLost { hold_seconds } => {
            let loss = snapshot.memory.baseline_lost.unwrap_or_default();
            after(loss.since.unwrap_or(now), *hold_seconds)?
        }
        KeepReason::RuntimeJustStarted { settle_seconds } => match snapshot.listening_since {
            Seen::Seen(Some(since)) => after(since, *settle_seconds)?,
            _ => return None,
        },
        _ => return kept.seconds_to_go(now),
    };
    Some(seconds).filter(|seconds| *seconds > 0)
}
