//! Formats plans for pods for people.

use std::fmt::Write as _;

use super::cluster_tables as render;
use super::{DELETED_PODS, KEPT_PODS, PODS};
use crate::cli::render::output::is_wide;
use crate::cli::render::{Paint, format};
use crate::controller::{PodOutcome, PodReport, PodResult};
use crate::pod_gc::{PodAction, PodKeepReason, PodKept, PodPlan, PodReason};

/// Formats a plan as a table.
pub(super) fn plan(plan: &PodPlan, paint: Paint) -> String {
    format!("Cluster: {}\n\n", format::printable(&plan.server)) + &body(plan, paint)
}

/// Formats a plan as the last part of a plan of a cluster; empty = it has nothing.
pub(super) fn part(plan: &PodPlan, paint: Paint) -> String {
    if plan.actions.is_empty() && plan.kept.is_empty() && plan.errors.is_empty() {
        return String::new();
    }
    format!("\n{}\n{}", paint.bold("Orphaned, unscheduled and surplus terminated pods:"), body(plan, paint))
}

fn body(plan: &PodPlan, paint: Paint) -> String {
    let mut text = String::new();
    if !plan.actions.is_empty() {
        text += &actions(&plan.actions);
        text.push('\n');
    }
    if is_wide() && !plan.kept.is_empty() {
        let _ = writeln!(text, "{}", paint.bold("Kept:"));
        text += &kept(&plan.kept);
        text.push('\n');
    }
    for error in &plan.errors {
        let _ = writeln!(text, "{} {}", paint.red("Error:"), format::printable(error));
    }
    text + &summary(plan)
}

/// Formats a report: one line for each pod, then the total.
pub(super) fn report(report: &PodReport) -> String {
    let rows = report.outcomes.iter().map(|PodOutcome { action, result }| {
        let [namespace, name, node] = columns(action);
        [namespace, name, node, result.to_string().replace('_', " "), reason(action)]
    });
    let table = if report.outcomes.is_empty() { String::new() } else { DELETED_PODS.text(rows) + "\n" };
    let of = |result| report.outcomes.iter().filter(|outcome| outcome.result == result).count();
    let left = render::in_deletion(of(PodResult::Accepted));
    format!("{table}{} deleted{left}.\n", format::count(of(PodResult::Removed), "pod"))
}

/// Returns the name of a pod as `kubectl get -o name` prints it.
pub(super) fn name(action: &PodAction) -> String {
    format!("pod/{}", action.name)
}

fn actions(actions: &[PodAction]) -> String {
    let rows = actions.iter().map(|action| {
        let [namespace, name, node] = columns(action);
        [action_text(action).to_owned(), namespace, name, node, reason(action)]
    });
    PODS.text(rows)
}

pub(super) fn action_text(action: &PodAction) -> &'static str {
    if action.mark.is_some() { "mark failed, delete" } else { "delete" }
}

fn columns(action: &PodAction) -> [String; 3] {
    [&action.namespace, &action.name, &action.node].map(Clone::clone)
}

pub(super) fn reason(action: &PodAction) -> String {
    match (action.reason, action.limit) {
        (PodReason::Terminated, Some(limit)) => format!("over {limit}"),
        (PodReason::Terminated, None) => "terminated".to_owned(),
        (PodReason::OutOfService, _) => "node out of service".to_owned(),
        (PodReason::Orphaned, _) => "node deleted".to_owned(),
        (PodReason::Unscheduled, _) => "deleted, without a node".to_owned(),
    }
}

fn kept(kept: &[PodKept]) -> String {
    let rows = kept.iter().map(|pod| {
        let since = pod.since.map(|since| format!(" since {since}")).unwrap_or_default();
        let why = format!("{}{since}", keep_reason(pod.reason));
        [pod.namespace.clone(), pod.name.clone(), pod.node.clone(), why]
    });
    KEPT_PODS.text(rows)
}

fn keep_reason(reason: PodKeepReason) -> &'static str {
    match reason {
        PodKeepReason::HeldByFinalizers => "deleted, held by finalizers",
        PodKeepReason::NodeInQuarantine => "node missing, in quarantine",
        PodKeepReason::NodeExists => "node exists",
        PodKeepReason::NodeUnverified => "node unverified",
        PodKeepReason::NodeReady => "node ready",
        PodKeepReason::TaintRemoved => "out-of-service taint removed",
        PodKeepReason::NodeDeleted => "node deleted meanwhile",
    }
}

fn summary(plan: &PodPlan) -> String {
    let head = match plan.actions.len() {
        0 => "No pod to delete".to_owned(),
        pods => format!("{} to delete", format::count(pods, "pod")),
    };
    let kept = render::kept(plan.kept.iter().map(|kept| kept.reason), |reason| keep_reason(reason).to_owned());
    format!("{head}{kept}.\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::render::Screen;
    use crate::pod_gc::PodMark;

    fn action(name: &str, node: &str, reason: PodReason) -> PodAction {
        let [namespace, name, uid, node] = ["default", name, "u", node].map(str::to_owned);
        PodAction { namespace, name, uid, node, reason, limit: None, mark: None }
    }

    #[test]
    fn a_pod_plan_table_has_reasons_and_summary() {
        let mut over = action("old", "n1", PodReason::Terminated);
        over.limit = Some(crate::pod_gc::PodLimit::PerNamespace);
        let orphaned = PodAction { mark: Some(PodMark::default()), ..action("web", "gone", PodReason::Orphaned) };
        let kept = PodKept {
            since: Some("2026-01-02T03:04:05Z".parse().unwrap()),
            ..action("db", "n3", PodReason::Orphaned).kept(PodKeepReason::NodeInQuarantine)
        };
        let plan = PodPlan {
            taken_at: jiff::Timestamp::UNIX_EPOCH,
            server: "https://api.example".to_owned(),
            actions: vec![over, orphaned],
            kept: vec![kept],
            errors: vec!["cannot read node \"n4\": down".to_owned()],
        };
        let table = "Cluster: https://api.example\n\nACTION               NAMESPACE  NAME  NODE  WHY\n\
            delete               default    old   n1    over per_namespace\n\
            mark failed, delete  default    web   gone  node deleted\n\n";
        let rest = "Error: cannot read node \"n4\": down\n2 pods to delete; kept: 1 node missing, in quarantine.\n";
        assert_eq!(super::plan(&plan, Paint { on: false }), format!("{table}{rest}"));
        let kept = "Kept:\nNAMESPACE  NAME  NODE  WHY\n\
            default    db    n3    node missing, in quarantine since 2026-01-02T03:04:05Z\n\n";
        Screen { wide: true, ..Screen::default() }.set();
        assert_eq!(super::plan(&plan, Paint { on: false }), format!("{table}{kept}{rest}"));
        Screen::default().set();
        let part = format!(
            "\nOrphaned, unscheduled and surplus terminated pods:\n{}{rest}",
            &table["Cluster: https://api.example\n\n".len()..]
        );
        assert_eq!(super::part(&plan, Paint { on: false }), part);
        let empty = PodPlan { actions: vec![], kept: vec![], errors: vec![], ..plan };
        assert_eq!(super::plan(&empty, Paint { on: false }), "Cluster: https://api.example\n\nNo pod to delete.\n");
        assert_eq!(super::part(&empty, Paint { on: false }), "");
    }
}
