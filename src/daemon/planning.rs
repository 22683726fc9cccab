//! Observes the node and plans a pass.

use jiff::Timestamp;

use crate::model::{Memory, Snapshot};
use crate::observe::{Needs, Observer};
use crate::plan::{AgeFrom, Confirmed, Kind, Plan, Policy, Pressure, Report, Scope, confirm, decide};
use crate::rules::Rules;

/// What a pass removes.
#[derive(Clone, Debug)]
pub enum PassKind {
    /// What the policy in force says.
    Regular(Scope),
    /// What ends disk pressure. The plan and the history contain the disk pressure as the reason.
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
    /// Returns the kind of the next pass over these objects.
    pub fn of(pressure: Option<Pressure>, scope: Scope) -> Self {
        pressure.map_or(Self::Regular(scope), |pressure| Self::Pressure(pressure, scope))
    }

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
    /// Observes the node and plans a pass of this kind. `shown` has more parts of the snapshot, for display.
    pub async fn of(
        kind: PassKind,
        shown: Needs,
        observer: &Observer,
        policy: &Policy,
        taken_at: Timestamp,
        memory: Memory,
    ) -> Self {
        let (pressure, scope) = match kind {
            PassKind::Regular(scope) => (None, scope),
            PassKind::Pressure(pressure, scope) => (Some(pressure), scope),
            PassKind::Saved(saved) => {
                let snapshot = observer.snapshot(needs_of_saved(&saved, policy), taken_at, memory).await;
                let Confirmed { plan, denied } = confirm(*saved, &snapshot, policy);
                let refused = denied.into_iter().map(|(action, denial)| denial.report(action)).collect();
                return Self { scope: Scope::All, snapshot, plan, refused };
            }
        };
        let policy = &pressure.clone().map_or_else(|| policy.clone(), |pressure| policy.under_pressure(pressure));
        let mut snapshot = observer.snapshot(needs(policy, scope).and(shown), taken_at, memory).await;
        let mut plan = decide(&snapshot, policy, scope);
        // Most passes remove no image, and the others need what the lists of the CRI do not show.
        if snapshot.store.is_none() && removes_images(&plan) && policy.guards.measure_space {
            observer.fill(&mut snapshot, Needs { store: true, ..Needs::default() }).await;
            plan = decide(&snapshot, policy, scope);
        }
        let plan = Plan { pressure, ..plan };
        Self { scope, snapshot, plan, refused: Vec::new() }
    }
}

/// Returns what a pass needs to observe. A pass over images reads the image volumes of each container that is new to the
/// observer, even if no image is to be removed: the memory counts an image that is mounted now as used now.
fn needs(policy: &Policy, scope: Scope) -> Needs {
    let has_images = scope != Scope::Containers;
    Needs {
        ends: policy.containers.age_from == AgeFrom::Finished,
        image_volumes: has_images,
        image_names: has_images && policy.guards.keep_pod_images,
        // The sizes that the runtime reports are far from those on the disk.
        store: has_images && policy.images.has_total() && policy.guards.measure_space,
        ..Needs::default()
    }
    .and(needs_of_rules(&policy.rules, scope))
}

/// Returns what the facts need that the rules use.
fn needs_of_rules(rules: &Rules, scope: Scope) -> Needs {
    let has_images = scope != Scope::Containers;
    Needs {
        image_details: has_images && rules.use_any("image", &["created", "labels", "layers", "tag_rank"]),
        store: has_images && rules.use_any("image", &["own_bytes"]),
        log_sizes: scope != Scope::Images && rules.use_any("log", &["bytes"]),
        ..Needs::default()
    }
}

fn removes_images(plan: &Plan) -> bool {
    plan.actions.iter().any(|action| action.target.kind() == Kind::Image)
}

/// Returns what the recheck of a saved plan needs to observe.
fn needs_of_saved(plan: &Plan, policy: &Policy) -> Needs {
    let mut actions = plan.actions.iter().chain(&plan.images.reserve);
    let has_images = actions.any(|action| action.target.kind() == Kind::Image);
    Needs { image_volumes: has_images, image_names: has_images, ..Needs::default() }
        .and(needs_of_rules(&policy.rules, Scope::All))
}
