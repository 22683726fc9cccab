//! Formats a plan as CSV (RFC 4180), for a spreadsheet that goes to those whose objects they are.

use super::cluster_tables::{action_text, detail, finding_text, reason};
use super::pod_tables as pod;
use crate::cli::render::format;
use crate::controller::pod_identity;
use crate::model::Identity;
use crate::owners::ClusterPlan;
use crate::pod_gc::PodPlan;

/// The columns before those of the labels.
const COLUMNS: [&str; 11] =
    ["part", "what", "api_version", "kind", "namespace", "name", "uid", "created_at", "last_manager", "held_by", "why"];

/// Formats the actions, the predicted actions, the findings and the pods, with a column for each of these labels.
pub(super) fn csv(plan: &ClusterPlan, pods: Option<&PodPlan>, labels: &[String]) -> String {
    let titles = COLUMNS.iter().map(|title| (*title).to_owned());
    let titles: Vec<_> = titles.chain(labels.iter().map(|label| format!("label {label}"))).collect();
    let mut text = line(&titles);
    let parts = [("action", &plan.actions), ("predicted", &plan.predicted)];
    for (part, action) in parts.into_iter().flat_map(|(part, actions)| actions.iter().map(move |it| (part, it))) {
        let held_by = action.held_by.join(" ");
        text += &row(plan, labels, part, action_text(action), &action.object, held_by, reason(action));
    }
    for finding in &plan.findings {
        let (what, held_by) = (finding_text(finding.kind).to_owned(), finding.finalizers.join(" "));
        text += &row(plan, labels, "finding", what, &finding.object, held_by, detail(finding));
    }
    for action in pods.into_iter().flat_map(|pods| &pods.actions) {
        let (what, object) = (pod::action_text(action), pod_identity(&action.namespace, &action.name, &action.uid));
        text += &row(plan, labels, "pod", what.to_owned(), &object, String::new(), pod::reason(action));
    }
    text
}

fn row(
    plan: &ClusterPlan,
    labels: &[String],
    part: &str,
    what: String,
    object: &Identity,
    held_by: String,
    why: String,
) -> String {
    let details = plan.details.get(&object.uid);
    let Identity { kind, namespace, name, uid } = object;
    let created_at = details.and_then(|details| details.created_at).map(|at| at.to_string()).unwrap_or_default();
    let manager = details.and_then(|details| details.last_manager.clone()).unwrap_or_default();
    let of_object = [part.to_owned(), what, kind.api_version.to_string(), kind.kind.to_string(), namespace.to_string()];
    let mut cells: Vec<_> =
        of_object.into_iter().chain([name.to_string(), uid.to_string(), created_at, manager]).collect();
    cells.extend([held_by, why]);
    let value = |label: &String| details.and_then(|details| details.labels.get(label)).cloned().unwrap_or_default();
    cells.extend(labels.iter().map(value));
    line(&cells)
}

fn line(cells: &[String]) -> String {
    let cells: Vec<_> = cells.iter().map(|cell| quoted(cell)).collect();
    format!("{}\r\n", cells.join(","))
}

/// A spreadsheet carries out a cell that begins as a formula, and tenants choose names and owners (G5).
fn quoted(cell: &str) -> String {
    let cell = &*format::printable(cell);
    let guard = if cell.starts_with(['=', '+', '-', '@']) { "'" } else { "" };
    if guard.is_empty() && !cell.contains([',', '"']) {
        return cell.to_owned();
    }
    format!("\"{guard}{}\"", cell.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_text() {
        for (cell, expected) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"x\"\n", "\"say \"\"x\"\"\\n\""),
            ("\u{1b}[1m\u{202e}x", "\\u{1b}[1m\\u{202e}x"),
            ("\t=1", "\\t=1"),
            ("=cmd|' /C calc'!A0", "\"'=cmd|' /C calc'!A0\""),
            ("-1", "\"'-1\""),
            ("@x", "\"'@x\""),
        ] {
            assert_eq!(quoted(cell), expected);
        }
    }
}
