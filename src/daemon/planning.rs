//! Observes the node and plans a pass.

use jiff::Timestamp;

use crate::config::Settings;
use crate::model::{Memory, PodSourceName, Snapshot};
use crate::observe::{Observer, StatusFor};
use crate::plan::{AgeFrom, Kind, Plan, Policy, Pressure, Report, Revalidated, Scope, decide, revalidate};

/// What a pass removes.
#[derive(Clone, Debug)]
pub enum PassKind {
    /// What the policy in force says.
    Regular(Scope),
    /// Everything unused. The plan and the history contain the disk pressure as the reason.
    Pressure(Pressure, Scope),
    /// What a saved plan contains, except for objects that changed since.
    Saved(Box<Plan>),
}

/// A plan before its execution, with the snapshot that it is based on.
pub(super) struct Planned {
    pub scope: Scope,
    pub snapshot: Snapshot,
    pub plan: Plan,
    /// Actions of a saved plan that are not carried out.
    pub refused: Vec<Report>,
}

// === impl PassKind ===

impl PassKind {
    /// Returns the kinds of objects.
    pub fn scope(&self) -> Scope {
        match self {
            Self::Regular(scope) | Self::Pressure(_, scope) => *scope,
            Self::Saved(_) => Scope::All,
        }
    }
}

// === impl Planned ===

impl Planned {
    /// Observes the node and plans a pass of this kind.
    pub async fn of(kind: PassKind, observer: &Observer, policy: &Policy, taken_at: Timestamp, memory: Memory) -> Self {
        match kind {
            PassKind::Regular(scope) => {
                let (snapshot, plan) = look_and_plan(observer, policy, scope, taken_at, memory).await;
                Self { scope, snapshot, plan, refused: Vec::new() }
            }
            PassKind::Pressure(pressure, scope) => {
                let policy = policy.under_pressure();
                let (snapshot, plan) = look_and_plan(observer, &policy, scope, taken_at, memory).await;
                let plan = Plan { pressure: Some(pressure), ..plan };
                Self { scope, snapshot, plan, refused: Vec::new() }
            }
            PassKind::Saved(saved) => {
                let snapshot = look_for(&saved, observer, taken_at, memory).await;
                let Revalidated { plan, refused } = revalidate(*saved, &snapshot, policy);
                Self { scope: Scope::All, snapshot, plan, refused }
            }
        }
    }
}

/// Observes what the recheck of a saved plan needs.
async fn look_for(saved: &Plan, observer: &Observer, taken_at: Timestamp, memory: Memory) -> Snapshot {
    let mut snapshot = observer.observe(taken_at, memory).await;
    if saved.actions.iter().chain(&saved.images.reserve).any(|action| action.target.kind() == Kind::Image) {
        observer.resolve_image_names(&mut snapshot).await;
        observer.fill_statuses(&mut snapshot, StatusFor::ImageVolumes).await;
    }
    snapshot
}

/// Returns the memory for a pass. If the pod source is `none`, no new pod list replaces the remembered one, so the
/// images that its pods named are removed from the memory.
pub fn recalled(memory: Memory, settings: &Settings) -> Memory {
    if settings.pods.sources.contains(&PodSourceName::None) {
        return Memory { named_images: None, ..memory };
    }
    memory
}

/// Observes the node and plans. A pass over images reads the image volumes of each container that is new to the
/// observer, even if no image is to be removed: the memory counts an image that is mounted now as used now.
pub async fn look_and_plan(
    observer: &Observer,
    policy: &Policy,
    scope: Scope,
    taken_at: Timestamp,
    memory: Memory,
) -> (Snapshot, Plan) {
    let mut snapshot = observer.observe(taken_at, memory).await;
    if policy.containers.age_from == AgeFrom::Finished {
        observer.fill_statuses(&mut snapshot, StatusFor::Ends).await;
    }
    if scope != Scope::Containers {
        observer.fill_statuses(&mut snapshot, StatusFor::ImageVolumes).await;
    }
    if scope != Scope::Containers && policy.guards.keep_pod_images {
        observer.resolve_image_names(&mut snapshot).await;
    }
    let plan = decide(&snapshot, policy, scope);
    (snapshot, plan)
}
