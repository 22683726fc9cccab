//! Observes the node and plans a pass.

use jiff::Timestamp;

use crate::model::{Memory, Snapshot};
use crate::observe::{Needs, Observer};
use crate::plan::{AgeFrom, Confirmed, Guards, Kind, Plan, Policy, Pressure, Report, Scope, confirm, decide};
use crate::rules::Need;

/// What a pass removes.
#[derive(Clone, Debug)]
pub enum PassKind {
    /// What the policy in force says.
    Regular(Scope),
    /// What ends disk pressure. The plan and the history contain the disk pressure as the reason.
    Pressure(Pressure, Scope),
    /// What may end disk pressure that the passes before did not end: the logs of terminated pods.
    LastResort(Pressure),
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
            Self::LastResort(_) => Scope::Containers,
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
        let scope = kind.scope();
        let (pressure, policy) = match kind {
            PassKind::Regular(_) => (None, policy.clone()),
            PassKind::Pressure(pressure, _) => (Some(pressure.clone()), policy.under_pressure(pressure)),
            PassKind::LastResort(pressure) => (Some(pressure.clone()), policy.as_last_resort(pressure)),
            PassKind::Saved(saved) => {
                let snapshot = observer.snapshot(needs_of_saved(&saved, policy), taken_at, memory).await;
                let Confirmed { plan, denied } = confirm(*saved, &snapshot, policy);
                let refused = denied.into_iter().map(|(action, denial)| denial.report(action)).collect();
                return Self { scope: Scope::All, snapshot, plan, refused };
            }
        };
        let policy = &policy;
        let mut snapshot = observer.snapshot(needs(policy, scope).and(shown), taken_at, memory).await;
        let mut plan = decide(&snapshot, &without_workloads(policy), scope);
        // Most passes remove no image, and the others need what the lists of the CRI do not show.
        let missing = Needs {
            store: snapshot.store.is_none() && policy.guards.measure_space,
            workloads: snapshot.workloads.is_none() && policy.keeps_workload_images(),
            ..Needs::default()
        };
        if plan.removes(Kind::Image) && (missing.store || missing.workloads) {
            observer.fill(&mut snapshot, missing).await;
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
        leftover_logs: scope != Scope::Images && !policy.logs.leftover_max_age.is_zero(),
        image_volumes: has_images,
        image_names: has_images && policy.guards.keep_pod_images,
        // The sizes that the runtime reports are far from those on the disk.
        store: has_images && policy.images.has_total() && policy.guards.measure_space,
        ..Needs::default()
    }
    .and(needs_of_rules(policy, scope))
}

/// Returns what the facts need that the rules and the order of images use.
pub fn needs_of_rules(policy: &Policy, scope: Scope) -> Needs {
    let facts = policy.facts_in_use();
    facts.iter().map(|fact| needs_of_fact(fact.row().need, scope)).fold(Needs::default(), Needs::and)
}

/// Returns what a fact needs in a pass over these objects. The facts of an object are of no use in a pass over others.
fn needs_of_fact(need: Need, scope: Scope) -> Needs {
    let (has_images, has_containers) = (scope != Scope::Containers, scope != Scope::Images);
    let none = Needs::default();
    match need {
        Need::Lists | Need::ListedPod => none,
        Need::PodDetails => Needs { pod_details: has_containers, ..none },
        Need::NodeLabels => Needs { pod_details: true, ..none },
        Need::ImageDetails => Needs { image_details: has_images, ..none },
        Need::ImageLayers => Needs { store: has_images, ..none },
        Need::Workloads => Needs { workloads: has_images, ..none },
        Need::Status => Needs { ends: has_containers, ..none },
        Need::WritableLayers => Needs::account(has_containers),
        Need::LogSizes => Needs { log_sizes: has_containers, ..none },
    }
}

/// Returns the policy without the guard that only keeps more images: a plan that removes none does not need it.
fn without_workloads(policy: &Policy) -> Policy {
    let guards = Guards { keep_workload_images: false, ..policy.guards.clone() };
    Policy { guards, ..policy.clone() }
}

/// Returns what the recheck of a saved plan needs to observe.
fn needs_of_saved(plan: &Plan, policy: &Policy) -> Needs {
    let has_images = plan.removals().any(|action| action.target.kind() == Kind::Image);
    let workloads = has_images && policy.keeps_workload_images();
    let leftover_logs = plan.removes(Kind::LogFile);
    Needs { leftover_logs, image_volumes: has_images, image_names: has_images, workloads, ..Needs::default() }
        .and(needs_of_rules(policy, Scope::All))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ImageOrder;
    use crate::rules::{Rule, RuleFor, RuleText, Score, Then};

    fn policy(of: RuleFor, when: &str) -> Policy {
        let (name, note, when) = ("r".to_owned(), String::new(), when.to_owned());
        let rule = Rule::compile(RuleText { name, of, when, then: Then::Keep, until: None, note }).unwrap();
        Policy { rules: [rule].into_iter().collect(), ..Policy::default() }
    }

    /// What costs calls is read for a rule that uses it, in a pass over its objects.
    #[test]
    fn a_pass_reads_what_its_rules_use() {
        use RuleFor::{Container, Image, Log};
        let none = Needs::default();
        for (of, when, in_containers, in_images) in [
            (Image, "image.size_bytes > 5", none, none),
            (Image, "'a' in image.labels", none, Needs { image_details: true, ..none }),
            (Image, "image.tag_rank > 3", none, Needs { image_details: true, ..none }),
            (Image, "image.created < now", none, Needs { image_details: true, ..none }),
            (Image, "size(image.layers) > 3", none, Needs { image_details: true, ..none }),
            (Image, "size(image) > 0", none, Needs { image_details: true, store: true, workloads: true, ..none }),
            (Image, "size(image.workloads) > 0", none, Needs { workloads: true, ..none }),
            (Image, "image.own_bytes > 3", none, Needs { store: true, ..none }),
            (Container, "container.exit_code > 0", Needs { ends: true, ..none }, none),
            (Container, "container.finished < now", Needs { ends: true, ..none }, none),
            (Container, "container.log_bytes > 0", Needs { log_sizes: true, ..none }, none),
            (Container, "container.layer_bytes > 0", Needs { store: true, writable_layers: true, ..none }, none),
            (Container, "'a' in pod.labels", Needs { pod_details: true, ..none }, none),
            (Container, "'a' in pod.annotations", Needs { pod_details: true, ..none }, none),
            (Container, "pod.owner_kind == 'Job'", Needs { pod_details: true, ..none }, none),
            (Container, "pod.owner_name == 'a'", Needs { pod_details: true, ..none }, none),
            (Log, "log.bytes > 0", Needs { log_sizes: true, ..none }, none),
            (Image, "'a' in node.labels", Needs { pod_details: true, ..none }, Needs { pod_details: true, ..none }),
        ] {
            let policy = policy(of, when);
            let needs = [Scope::Containers, Scope::Images].map(|scope| needs_of_rules(&policy, scope));
            assert_eq!(needs, [in_containers, in_images], "{when}");
            assert_eq!(needs_of_rules(&policy, Scope::All), in_containers.and(in_images), "{when}");
        }
        let mut ordered = Policy::default();
        ordered.images.order = ImageOrder::Score(Score::compile("image.own_bytes").unwrap());
        assert!(needs_of_rules(&ordered, Scope::Images).store);
    }
}
