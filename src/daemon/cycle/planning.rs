//! Observes the node and plans a pass.

use jiff::Timestamp;

use crate::fleet::NodePolicies;
use crate::model::{LeftoverKind, Memory, Snapshot};
use crate::observe::{Needs, Observer, Part, wanted};
use crate::plan::{
    AgeFrom, Confirmed, Guards, Kind, Plan, Policy, Pressure, Report, Scope, confirm, decide, is_over_goal,
};
use crate::rules::{Need, Rule};

#[derive(Clone, Debug)]
pub enum PassKind {
    /// What the policy in force says.
    Regular(Scope),
    /// The same at its time in the schedule of the service: quiet hours suspend it.
    Scheduled(Scope),
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
    /// The policies of the cluster by which it was planned.
    pub policies: NodePolicies,
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
            Self::Regular(scope) | Self::Scheduled(scope) | Self::Pressure(_, scope) => *scope,
            Self::LastResort(_) => Scope::Containers,
            Self::Saved(_) => Scope::All,
        }
    }

    /// Returns whether quiet hours suspend the pass: one that a command requests or that disk pressure makes goes on.
    pub(super) fn heeds_quiet_hours(&self) -> bool {
        matches!(self, Self::Scheduled(_))
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
            PassKind::Regular(_) | PassKind::Scheduled(_) => (None, policy.clone()),
            PassKind::Pressure(pressure, _) => (Some(pressure.clone()), policy.under_pressure(pressure)),
            PassKind::LastResort(pressure) => (Some(pressure.clone()), policy.as_last_resort(pressure)),
            PassKind::Saved(saved) => {
                let snapshot = observer.snapshot(&needs_of_saved(&saved, policy), taken_at, memory).await;
                let Confirmed { plan, denied } = confirm(*saved, &snapshot, policy);
                let refused = denied.into_iter().map(|(action, denial)| denial.report(action)).collect();
                let policies = NodePolicies::default();
                return Self { scope: Scope::All, snapshot, plan, refused, policies };
            }
        };
        let policy = &policy;
        let mut snapshot = observer.snapshot(&(&needs(policy, scope) | &shown), taken_at, memory).await;
        let mut plan = decide(&snapshot, &without_workloads(policy), scope);
        // Most passes remove no image, and the others need what the lists of the CRI do not show.
        let missing = wanted([
            (Part::Store, snapshot.store.is_not_read() && policy.guards.measure_space),
            (Part::Workloads, snapshot.workloads.is_not_read() && policy.keeps_workload_images()),
        ]);
        if plan.removes(Kind::Image) && !missing.is_empty() {
            observer.fill(&mut snapshot, &missing).await;
            plan = decide(&snapshot, policy, scope);
        }
        let plan = Plan { pressure, ..plan };
        Self { scope, snapshot, plan, refused: Vec::new(), policies: NodePolicies::default() }
    }

    /// Returns whether the images have more of their disk than the settings permit.
    pub fn must_free_space(&self, policy: &Policy) -> bool {
        let listed = self.snapshot.images.as_ref().into_iter().flatten();
        let all_images = listed.map(|image| image.size_bytes).fold(0, u64::saturating_add);
        self.snapshot.image_filesystem.as_ref().is_some_and(|disk| is_over_goal(policy, disk, all_images))
    }
}

/// Returns what a pass needs to observe. A pass over images reads the image volumes of each container that is new to the
/// observer, even if no image is to be removed: the memory counts an image that is mounted now as used now.
fn needs(policy: &Policy, scope: Scope) -> Needs {
    let has_images = scope != Scope::Containers;
    let has_archive = scope != Scope::Images && !policy.logs.archive.is_empty();
    let own = wanted([
        (Part::Ends, policy.containers.age_from == AgeFrom::Finished || has_archive),
        (Part::LeftoverLogs, scope != Scope::Images && !policy.logs.leftover_max_age.is_zero()),
        (Part::ContainerLogs, scope != Scope::Images && !policy.logs.limits.is_empty()),
        (Part::ArchivedLogs, has_archive),
        (Part::ArchivedPods, has_archive && policy.rules.iter().any(Rule::asks_pods_of_logs)),
        (Part::Leftovers, scope != Scope::Images),
        (Part::ImageVolumes, has_images),
        (Part::ImageNames, has_images && policy.guards.keep_pod_images),
        // The sizes that the runtime reports are far from those on the disk.
        (Part::Store, has_images && policy.has_image_total() && policy.guards.measure_space),
        (Part::Store, has_images && !policy.images.undo.is_zero() && policy.guards.measure_space),
        (Part::Store, has_images && policy.leftovers.0.contains(&LeftoverKind::Unreferenced)),
    ]);
    &own | &needs_of_rules(policy, scope)
}

/// Returns what the facts need that the rules and the order of images use.
pub fn needs_of_rules(policy: &Policy, scope: Scope) -> Needs {
    policy.facts_in_use().iter().flat_map(|fact| needs_of_fact(fact.row().need, scope)).copied().collect()
}

/// Returns what a fact needs in a pass over these objects. The facts of an object are of no use in a pass over others.
fn needs_of_fact(need: Need, scope: Scope) -> &'static [Part] {
    let (has_images, has_containers) = (scope != Scope::Containers, scope != Scope::Images);
    let (is_of_use, parts): (bool, &[Part]) = match need {
        Need::Lists | Need::ListedPod | Need::ClusterList => (true, &[]),
        Need::PodDetails => (has_containers, &[Part::PodDetails]),
        Need::NodeLabels => (true, &[Part::PodDetails]),
        Need::ImageDetails => (has_images, &[Part::ImageDetails]),
        Need::ImageLayers => (has_images, &[Part::Store]),
        Need::Workloads => (has_images, &[Part::Workloads]),
        Need::Status => (has_containers, &[Part::Ends]),
        Need::WritableLayers => (has_containers, &Part::ACCOUNT),
        Need::LogSizes => (has_containers, &[Part::LogSizes]),
    };
    if is_of_use { parts } else { &[] }
}

/// Returns the policy without the guard that only keeps more images: a plan that removes none does not need it.
fn without_workloads(policy: &Policy) -> Policy {
    let guards = Guards { keep_workload_images: false, ..policy.guards.clone() };
    Policy { guards, ..policy.clone() }
}

/// Returns what the recheck of a saved plan needs to observe.
fn needs_of_saved(plan: &Plan, policy: &Policy) -> Needs {
    let has_images = plan.removals().any(|action| action.target.kind() == Kind::Image);
    let own = wanted([
        (Part::LeftoverLogs, plan.removes(Kind::LogFile)),
        (Part::ContainerLogs, plan.removes(Kind::LogFile)),
        (Part::ArchivedLogs, plan.removes(Kind::LogFile)),
        (Part::ArchivedPods, plan.removes(Kind::LogFile)),
        (Part::Leftovers, plan.removes(Kind::Leftover)),
        (Part::Store, plan.removes(Kind::Leftover)),
        (Part::ImageVolumes, has_images),
        (Part::ImageNames, has_images),
        (Part::Workloads, has_images && policy.keeps_workload_images()),
    ]);
    &own | &needs_of_rules(policy, Scope::All)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ImageOrder;
    use crate::rules::{Rule, RuleSubject, RuleText, Score, Then};

    fn policy(of: RuleSubject, when: &str) -> Policy {
        let (name, note, when) = ("r".to_owned(), String::new(), when.to_owned());
        let rule = Rule::compile(RuleText {
            name,
            subject: of,
            when,
            then: Then::Keep,
            until: None,
            resource: String::new(),
            note,
        })
        .unwrap();
        Policy { rules: [rule].into_iter().collect(), ..Policy::default() }
    }

    /// What costs calls is read for a rule that uses it, in a pass over its objects.
    #[test]
    fn a_pass_reads_what_its_rules_use() {
        use Part::{Ends, ImageDetails, LogSizes, PodDetails, Store, Workloads};
        use RuleSubject::{Container, Image, Log};
        let rows: [(_, _, &[Part], &[Part]); 18] = [
            (Image, "image.size_bytes > 5", &[], &[]),
            (Image, "'a' in image.labels", &[], &[ImageDetails]),
            (Image, "image.tag_rank > 3", &[], &[ImageDetails]),
            (Image, "image.created < now", &[], &[ImageDetails]),
            (Image, "size(image.layers) > 3", &[], &[ImageDetails]),
            (Image, "size(image) > 0", &[], &[ImageDetails, Store, Workloads]),
            (Image, "size(image.workloads) > 0", &[], &[Workloads]),
            (Image, "image.own_bytes > 3", &[], &[Store]),
            (Container, "container.exit_code > 0", &[Ends], &[]),
            (Container, "container.finished < now", &[Ends], &[]),
            (Container, "container.log_bytes > 0", &[LogSizes], &[]),
            (Container, "container.layer_bytes > 0", &Part::ACCOUNT, &[]),
            (Container, "'a' in pod.labels", &[PodDetails], &[]),
            (Container, "'a' in pod.annotations", &[PodDetails], &[]),
            (Container, "pod.owner_kind == 'Job'", &[PodDetails], &[]),
            (Container, "pod.owner_name == 'a'", &[PodDetails], &[]),
            (Log, "log.bytes > 0", &[LogSizes], &[]),
            (Image, "'a' in node.labels", &[PodDetails], &[PodDetails]),
        ];
        for (of, when, in_containers, in_images) in rows {
            let policy = policy(of, when);
            let needs = [Scope::Containers, Scope::Images].map(|scope| needs_of_rules(&policy, scope));
            let expected = [in_containers, in_images].map(|parts| parts.iter().copied().collect::<Needs>());
            assert_eq!(needs, expected, "{when}");
            assert_eq!(needs_of_rules(&policy, Scope::All), &expected[0] | &expected[1], "{when}");
        }
        let mut ordered = Policy::default();
        ordered.images.order = ImageOrder::Score(Score::compile("image.own_bytes").unwrap());
        assert!(needs_of_rules(&ordered, Scope::Images).contains(&Store));
    }
}
