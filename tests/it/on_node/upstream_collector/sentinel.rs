//! Forests that show that both collectors have worked: otherwise two collectors that do nothing would agree.

use std::collections::BTreeMap;

use crate::on_node::owner_forests::forest::{Forest, ForestObject, Reference, State, Step};

/// Returns the forest of which `step`, from 0, deletes the owner.
pub fn forest(step: usize) -> Forest {
    let object = |id: &str, kind: &str, owners: Vec<Reference>| ForestObject {
        id: id.to_owned(),
        kind: kind.to_owned(),
        ns: Some(0),
        owners,
        late_owners: Vec::new(),
        finalizers: Vec::new(),
    };
    let owner = || Reference { to: Some("owner".to_owned()), ..Reference::default() };
    let missing = Reference {
        api_version: Some("v1".to_owned()),
        kind: Some("ConfigMap".to_owned()),
        name: Some("missing".to_owned()),
        uid: Some(format!("00000000-0000-4000-8000-{step:012}")),
        ..Reference::default()
    };
    let dependents = [object("one", "Secret", vec![owner()]), object("two", "ConfigMap", vec![owner(), missing])];
    let objects = [object("owner", "ConfigMap", vec![])].into_iter().chain(dependents).collect();
    let delete = Step::Delete { delete: "owner".to_owned(), policy: "Background".to_owned() };
    // It has no finalizer, so a release changes nothing.
    let mut steps = vec![Step::Release { release: "owner".to_owned() }; step];
    steps.push(delete);
    Forest { name: name(step), objects, steps, states: Vec::new() }
}

/// Returns a forest of which no step deletes the owner.
pub fn without_steps(number: usize) -> Forest {
    // Its absent owner is its own.
    let objects = forest(1000 + number).objects;
    Forest { name: format!("{PREFIX}withoutsteps{number}"), objects, steps: Vec::new(), states: Vec::new() }
}

/// Lists the namespaces in deletion whose conditions do not show yet what is in them, or with which nothing was done yet.
pub fn waits_in_namespaces(forests: &[Forest], states: &BTreeMap<String, State>, collector: &str) -> Vec<String> {
    let namespaces = forests.iter().flat_map(|forest| [(forest, 0, "a"), (forest, 1, "b")]);
    let waits = |(forest, ns, id): (&Forest, u8, &str)| {
        let state = states.get(&forest.name)?;
        let namespace = state.get(id)?;
        let objects = forest.objects.iter().filter(|object| object.ns == Some(ns));
        let left: Vec<_> = objects.filter_map(|object| Some((&*object.kind, state.get(&object.id)?))).collect();
        let pods = left.iter().filter(|(kind, _)| *kind == "Pod").count();
        let are_deleted = left.iter().all(|(kind, left)| left.terminating || pods > 0 && *kind != "Pod");
        let shown = namespace.owners.iter().find(|(kind, ..)| kind == "NamespaceContentRemaining");
        let numbers =
            shown.iter().flat_map(|(_, text, _)| text.split_whitespace()).filter_map(|it| it.parse::<usize>().ok());
        // kube-controller-manager shows no pods.
        let expected = if pods > 0 { [0, pods] } else { [left.len(); 2] };
        let is_shown = shown.is_some() && expected.contains(&numbers.sum());
        let is_done = !left.is_empty() && are_deleted && is_shown;
        (!is_done)
            .then(|| format!("{collector} is not done with namespace {id} of {}: {namespace:?}, {left:?}", forest.name))
    };
    namespaces.filter_map(waits).collect()
}

/// Lists what a collector has still to do after `steps` steps: it drops the missing owner at the start, and deletes both
/// dependents when their owner is deleted.
pub fn waits(steps: usize, states: &BTreeMap<String, State>, collector: &str) -> Vec<String> {
    let mut waits = Vec::new();
    for (forest, state) in states.iter().filter(|(forest, _)| forest.starts_with(PREFIX)) {
        let is_deleted = (0..steps).any(|step| name(step) == *forest);
        if is_deleted || state.get("two").is_none_or(|left| left.owners.len() != 1) {
            waits.push(format!("{collector} has not collected {forest} after step {steps}: {state:?}"));
        }
    }
    waits
}

const PREFIX: &str = "sentinel";

fn name(step: usize) -> String {
    format!("{PREFIX}{step}")
}
