//! Which objects the guards of the profile `safe` keep, as the plan and the log of `run` name them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::comparison::Difference;
use crate::on_node::owner_forests::forest::{Forest, KINDS};
use crate::rig::{Daemon, NodeRig};

/// The objects that a guard kept at any time, by forest and id. What was once kept may differ from then on.
#[derive(Default)]
pub struct Guarded {
    by_brake: BTreeSet<(String, String)>,
    /// The owners that were deleted with the policy orphan. A dependent that is checked later loses the reference and lives
    /// (`orphan_wait`); kube-controller-manager deletes it.
    orphaning: BTreeSet<(String, String)>,
    /// How many plans were made.
    plans: usize,
}

// === impl Guarded ===

impl Guarded {
    /// Adds the objects that guards keep now.
    pub fn look(&mut self, node: &NodeRig, run: &Daemon, args: &[&str]) {
        let kubeconfig = node.kubeconfig("admin").display().to_string();
        let plan = [&["controller", "plan", "-o", "json", "--kubeconfig", &kubeconfig], args].concat();
        let plan = node.kubegc(&plan).json();
        self.plans += 1;
        // The brake is a state of `run`: it names the resource in its log, and the plan says what it would delete.
        let log = run.log();
        self.orphaning.extend(log.lines().filter(|line| line.contains("action=orphan ")).filter_map(orphaned));
        let is_paused = |object: &Value| {
            let (api_version, _, plural, _) = KINDS.iter().find(|(_, kind, ..)| object["kind"] == *kind).unwrap();
            let group = api_version.split_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
            log.lines().any(|line| line.contains("paused") && line.contains(&format!("resource=\"{plural}{group}\"")))
        };
        let paused = plan["actions"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|action| action["action"] == "delete" && action["reason"] == "owners_absent");
        self.by_brake
            .extend(paused.filter(|action| is_paused(&action["object"])).filter_map(|action| place(&action["object"])));
    }

    /// Returns whether a guard explains a difference: it keeps the object, an owner of it, or a dependent for which the
    /// deletion of the object waits; or the object has lost a reference instead of being deleted, or depends on one that has.
    pub fn explains(&self, forests: &[Forest], difference: &Difference) -> bool {
        let forest = forests.iter().find(|forest| forest.name == difference.forest).unwrap();
        let above = reachable(&difference.id, |id| owners(forest, id));
        let below = reachable(&difference.id, |id| dependents(forest, id));
        let is_kept = |id: &String| self.by_brake.contains(&(forest.name.clone(), id.clone()));
        let orphans = |id: &String| self.orphaning.contains(&(forest.name.clone(), id.clone()));
        let is_late = difference.ours.is_some() && above.iter().any(|id| *id != difference.id && orphans(id));
        is_late || above.iter().any(is_kept) || difference.is_terminating() && below.iter().any(is_kept)
    }

    /// Fails if the brake kept nothing, because then this test shows nothing about it.
    pub fn assert_the_brake_acted(&self) {
        println!("kept by guards.brake_count: {}, in {} plans", self.by_brake.len(), self.plans);
        assert!(!self.by_brake.is_empty());
    }
}

/// Returns the forest and the id of an object.
fn place(object: &Value) -> Option<(String, String)> {
    place_of(object["name"].as_str()?)
}

fn place_of(name: &str) -> Option<(String, String)> {
    let (forest, id) = name.strip_prefix("p-")?.split_once('-')?;
    Some((forest.to_owned(), id.to_owned()))
}

/// Returns the object of a line of the log.
fn orphaned(line: &str) -> Option<(String, String)> {
    let name = line.split("object=\"").nth(1)?.split_once('/')?.1;
    place_of(name.split([' ', '"']).next()?)
}

fn owners(forest: &Forest, id: &str) -> Vec<String> {
    let object = forest.object(id);
    object.owners.iter().chain(&object.late_owners).filter_map(|owner| owner.to.clone()).collect()
}

fn dependents(forest: &Forest, id: &str) -> Vec<String> {
    let all = forest.objects.iter().map(|object| object.id.clone());
    all.filter(|dependent| owners(forest, dependent).iter().any(|owner| owner == id)).collect()
}

/// Returns an id and all that follow from it.
fn reachable(id: &str, next: impl Fn(&str) -> Vec<String>) -> BTreeSet<String> {
    let (mut found, mut open) = (BTreeSet::new(), vec![id.to_owned()]);
    while let Some(id) = open.pop() {
        if found.insert(id.clone()) {
            open.extend(next(&id));
        }
    }
    found
}
