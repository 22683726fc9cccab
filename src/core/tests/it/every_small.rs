//! Every small node and every small cluster: what a plan does is what a second, naive statement of the rules says, and the invariants hold.
//!
//! The statements (`node_rules`, `cluster_rules`) share nothing with `plan` and `owners`. The cases are in families: each is a product of
//! choices. A run plays a part of each, at a fixed stride, which meets every value of a choice; with `KUBEGC_CASES=all` it plays all.

mod cluster_rules;
mod clusters;
mod node_rules;
mod nodes;

use std::fmt::Debug;
use std::sync::LazyLock;

use jiff::{SignedDuration, Timestamp};
use kubegc_core::model::{Container, Seen, Snapshot};
use kubegc_core::plan::{Guards, Policy, Profile, Scope, decide};
use serde::Serialize;
use serde_json::json;

use crate::properties::{hold, now};
use node_rules::Node;

/// About so many cases of a family are a part.
const PART: u64 = 2_500;

/// The choices of one case. Its number has them as digits, each in a base of its own.
struct Choices {
    left: u64,
    /// How many cases there are with the choices so far.
    cases: u64,
}

// === impl Choices ===

impl Choices {
    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        let count = values.len() as u64;
        let at = self.left % count;
        (self.left, self.cases) = (self.left / count, self.cases * count);
        values[at as usize]
    }

    fn is(&mut self) -> bool {
        self.of(&[true, false])
    }
}

/// Plays a family, or a part of it. `check` compares one case, and returns whether something is removed in it.
fn play(family: &str, check: impl Fn(&mut Choices) -> Result<bool, String>) {
    let play = |number| {
        let mut choices = Choices { left: number, cases: 1 };
        let removes = check(&mut choices).unwrap_or_else(|fault| panic!("{family}, case {number}: {fault}"));
        (choices.cases, removes)
    };
    let (cases, _) = play(0);
    let plays_all = std::env::var("KUBEGC_CASES").is_ok_and(|cases| cases == "all");
    let stride = if plays_all { 1 } else { stride(cases) };
    let removing = (0..cases).step_by(stride as usize).filter(|number| play(*number).1).count();
    let played = cases.div_ceil(stride);
    println!("{family}: {played} of {cases} cases, {removing} with removals");
    assert!(removing as u64 * 20 > played, "a family in which little is removed shows little");
}

/// Returns the distance of the cases of a part. It has no divisor in common with the number of values of any choice.
fn stride(cases: u64) -> u64 {
    let has_common_divisor =
        |stride: &u64| (2..=*stride).any(|it| stride.is_multiple_of(it) && cases.is_multiple_of(it));
    (cases / PART + 1..=cases + 1).find(|stride| !has_common_divisor(stride)).unwrap()
}

/// Compares the plan of a node with the rules, and looks at the invariants.
fn check_node(node: &Snapshot, policy: &Policy, scope: Scope) -> Result<bool, String> {
    let plan = decide(node, policy, scope);
    let mut planned: Vec<_> = plan.actions.iter().map(|it| (it.target.id(), it.reason.kind())).collect();
    let rules = Node { seen: node, policy, is_safe: policy.profile == Profile::Safe };
    let mut rules = if scope == Scope::Images { rules.removed_images() } else { rules.removed_objects() };
    if scope == Scope::Containers {
        rules.sort_unstable();
        planned.sort_unstable();
    }
    compare(&rules, &planned, node, &(&policy.containers, &policy.images))?;
    hold(node, &plan, policy).map_err(|fault| fault.to_string())?;
    Ok(!planned.is_empty())
}

/// A difference has the document, so that `kubegc plan --snapshot` shows more.
fn compare<T: Debug + PartialEq>(rules: &T, plan: &T, of: &impl Serialize, under: &impl Debug) -> Result<(), String> {
    if rules == plan {
        return Ok(());
    }
    let document = serde_json::to_string(of).map_err(|error| error.to_string())?;
    Err(format!("by the rules {rules:?}, by the plan {plan:?}\n{under:?}\n{document}"))
}

/// The settings of a profile.
fn policy(is_safe: bool) -> Policy {
    let profile = if is_safe { Profile::Safe } else { Profile::Kubelet };
    Policy { profile, guards: Guards::of(profile), ..Policy::default() }
}

/// A node whose sources were all read, and had nothing.
fn node() -> Snapshot {
    static NODE: LazyLock<Snapshot> = LazyLock::new(|| {
        let lists =
            ["containers", "sandboxes", "images", "log_dirs", "log_links"].map(|list| (list, json!({ "seen": [] })));
        serde_json::from_value(lists.into_iter().chain([("taken_at", json!(now()))]).collect()).unwrap()
    });
    NODE.clone()
}

/// A container that exited, and was created an hour ago.
fn container() -> Container {
    static CONTAINER: LazyLock<Container> = LazyLock::new(|| {
        serde_json::from_value(json!({ "id": "", "state": "exited", "created_at": ago(3600) })).unwrap()
    });
    CONTAINER.clone()
}

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

fn seen<T>(value: Option<T>) -> Seen<T> {
    value.map_or(Seen::NotSeen("no answer".to_owned()), Seen::Seen)
}
