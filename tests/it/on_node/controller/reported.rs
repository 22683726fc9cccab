//! Inputs after reports of people who operate clusters (`tests/data/cases/t5`), on a real API server.

use std::process::Command;

use super::controller;
use crate::manifests::kubectl;
use crate::rig::{NodeRig, run};

const NEW: &str = "jsonpath={.metadata.ownerReferences[0].uid}";

fn kubectl_on(node: &NodeRig, args: &[&str]) -> String {
    let mut command = Command::new(kubectl());
    run(command.env_clear().env("HOME", node.dir()).arg("--kubeconfig").arg(node.kubeconfig("admin")).args(args))
}

fn create(node: &NodeRig, name: &str) {
    let file = format!("{}/tests/data/cases/t5/{name}", env!("CARGO_MANIFEST_DIR"));
    kubectl_on(node, &["create", "-f", &file]);
}

/// Splits CSV (RFC 4180) into rows of fields.
fn rows(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut field, mut is_quoted) = (vec![Vec::new()], String::new(), false);
    for char in text.chars() {
        match char {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => rows.last_mut().unwrap().push(std::mem::take(&mut field)),
            '\n' if !is_quoted => {
                rows.last_mut().unwrap().push(std::mem::take(&mut field));
                rows.push(Vec::new());
            }
            char => field.push(char),
        }
    }
    rows.retain(|row| !row.is_empty());
    rows
}

pub async fn names_of_any_kind_give_rows_of_equal_length(node: &NodeRig) {
    create(node, "csv.yaml");
    let text = controller(node, &["plan", "-n", "csv", "-o", "csv", "-L", "app"]).ok().stdout;
    let rows = rows(&text);
    assert_eq!(rows.len(), 3, "the head and two objects: {text}");
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{rows:#?}");
}

pub async fn owners_of_every_group_get_their_dependents_again(node: &NodeRig) {
    create(node, "relink.yaml");
    let uid = |what: &str| kubectl_on(node, &["-n", "rl", "get", what, "-o", "jsonpath={.metadata.uid}"]);
    let owner_of = |what: &str| kubectl_on(node, &["-n", "rl", "get", what, "-o", NEW]);
    let (of_node, set) = (uid("node/n1"), uid("statefulset/loki"));
    let dependents = ["csinode/n1", "pvc/data-loki-0", "cm/twoowners", "cm/lower", "cm/oldversion"];
    let before = dependents.map(owner_of);
    controller(node, &["relink", "--dry-run"]).ok();
    assert_eq!(dependents.map(owner_of), before);
    controller(node, &["relink"]).ok();
    let old = before[4].clone();
    assert_eq!(
        dependents.map(owner_of),
        [of_node, set.clone(), set.clone(), set, old],
        "the last has a version that is not served"
    );
}
