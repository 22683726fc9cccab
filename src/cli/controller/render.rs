//! Formats plans and explanations of a cluster for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::why::Answer;
use crate::cli::format;
use crate::cli::render::{Grid, Paint};
use crate::controller::{ClusterOutcome, ClusterReport, WaitingObject};
use crate::model::Identity;
use crate::owners::{
    ActionWord, ClusterAction, ClusterPlan, DependentNode, Finding, FindingKind, OwnerFinding, OwnerNode, Propagation,
};

/// Predicted actions in a table, unless it is wide.
const PREDICTED: usize = 20;
/// Errors below a table, unless it is wide.
const ERRORS: usize = 5;

/// Formats a plan as tables.
pub(super) fn plan(plan: &ClusterPlan, wide: bool, paint: Paint) -> String {
    let mut text = String::new();
    if !plan.actions.is_empty() {
        text += &actions(&plan.actions, wide);
        text.push('\n');
    }
    if !plan.predicted.is_empty() {
        let shown = if wide { plan.predicted.len() } else { plan.predicted.len().min(PREDICTED) };
        let _ = writeln!(text, "{}", paint.bold("Then (predicted):"));
        text += &actions(plan.predicted.get(..shown).unwrap_or_default(), wide);
        if shown < plan.predicted.len() {
            let _ = writeln!(text, "and {} more; -o wide shows all", plan.predicted.len() - shown);
        }
        text.push('\n');
    }
    if !plan.findings.is_empty() {
        let _ = writeln!(text, "{}", paint.bold("Findings:"));
        text += &findings(&plan.findings, wide);
        text.push('\n');
    }
    let shown = if wide { plan.errors.len() } else { plan.errors.len().min(ERRORS) };
    for error in plan.errors.get(..shown).unwrap_or_default() {
        let _ = writeln!(text, "{} {}", paint.red("Error:"), format::printable(error));
    }
    if shown < plan.errors.len() {
        let _ = writeln!(text, "and {} more errors; -o wide shows all", plan.errors.len() - shown);
    }
    text + &summary(plan)
}

fn actions(actions: &[ClusterAction], wide: bool) -> String {
    let mut grid = Grid::new(&["ACTION", "KIND", "NAMESPACE", "NAME", "WHY"]);
    for action in actions {
        let object = &action.object;
        grid.row([
            action_text(action),
            kind(object, wide),
            object.namespace.to_string(),
            object.name.to_string(),
            reason(action),
        ]);
    }
    grid.text()
}

fn action_text(action: &ClusterAction) -> String {
    words(action.action, action.propagation)
}

fn words(action: ActionWord, propagation: Option<Propagation>) -> String {
    let text = match action {
        ActionWord::Delete => "delete",
        ActionWord::DropReferences => "drop references",
        ActionWord::EndForeground => "end foreground deletion",
        ActionWord::Orphan => "orphan dependents",
    };
    match propagation {
        None | Some(Propagation::Background) => text.to_owned(),
        Some(propagation) => format!("{text} ({})", propagation.to_string().to_lowercase()),
    }
}

/// Names the owners that decide: those that do not exist any more, or wait.
fn reason(action: &ClusterAction) -> String {
    let decides = |owner: &&OwnerFinding| owner.state != "exists";
    let owners: Vec<_> = action.owners.iter().filter(decides).map(owner_text).collect();
    match action.action {
        ActionWord::Delete | ActionWord::DropReferences => format::list(&owners),
        ActionWord::EndForeground => "no blocking dependents left".to_owned(),
        ActionWord::Orphan => "deleted with the policy orphan".to_owned(),
    }
}

fn owner_text(owner: &OwnerFinding) -> String {
    format!("owner {}/{} {}", owner.reference.kind.kind, owner.reference.name, state(&owner.state))
}

/// Formats the word of an owner's state.
fn state(word: &str) -> &str {
    match word {
        "exists" => "exists",
        "waits_for_dependents" => "waits for its dependents",
        "absent" => "absent",
        "kind_not_served" => "of a kind that is not served",
        "namespaced" => "namespaced",
        _ => "unverified",
    }
}

fn findings(findings: &[Finding], wide: bool) -> String {
    let mut grid = Grid::new(&["FINDING", "KIND", "NAMESPACE", "NAME", "DETAIL"]);
    for finding in findings {
        let object = &finding.object;
        grid.row([
            finding_text(finding.kind).to_owned(),
            kind(object, wide),
            object.namespace.to_string(),
            object.name.to_string(),
            detail(finding),
        ]);
    }
    grid.text()
}

fn finding_text(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::KindNotServed => "owner kind not served",
        FindingKind::WrongNamespace => "owner in another namespace",
        FindingKind::WrongOwner => "owner is another object",
        FindingKind::NamespacedOwner => "namespaced owner",
        FindingKind::OwnerUnverified => "owner unverified",
        FindingKind::SharedUid => "shares one uid",
        FindingKind::BeingDeleted => "being deleted",
    }
}

fn detail(finding: &Finding) -> String {
    if finding.kind == FindingKind::BeingDeleted {
        let since = finding.since.map(|since| format!("since {since}"));
        let finalizers =
            (!finding.finalizers.is_empty()).then(|| format!("finalizers {}", finding.finalizers.join(", ")));
        let waits = match finding.waits_for.as_slice() {
            [] => None,
            [one] => Some(format!("waits for {one}")),
            [first, others @ ..] => Some(format!("waits for {first} and {} more", others.len())),
        };
        return [since, finalizers, waits].into_iter().flatten().collect::<Vec<_>>().join("; ");
    }
    if let (FindingKind::SharedUid, Some(first)) = (finding.kind, &finding.found) {
        return format!("with {first}");
    }
    let owner = finding.owner.as_ref().map(|owner| format!("owner {}/{}", owner.kind, owner.name)).unwrap_or_default();
    match &finding.found {
        Some(found) => format!("{owner}; its uid is that of {found}"),
        None => owner,
    }
}

fn summary(plan: &ClusterPlan) -> String {
    let of = |actions: &[ClusterAction], word| actions.iter().filter(|action| action.action == word).count();
    let deletes = of(&plan.actions, ActionWord::Delete);
    let follow = of(&plan.predicted, ActionWord::Delete);
    let mut reasons = BTreeMap::<_, usize>::new();
    for kept in &plan.kept {
        *reasons.entry(kept.reason.replace('_', " ")).or_default() += 1;
    }
    let reasons: Vec<_> = reasons.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    let head = match (deletes, follow) {
        (0, 0) if !plan.errors.is_empty() => "Nothing to delete among what could be read".to_owned(),
        (0, 0) => "Nothing to delete".to_owned(),
        (deletes, 0) => format!("{} to delete", format::count(deletes, "object")),
        (deletes, follow) => format!("{} to delete, then {follow} more", format::count(deletes, "object")),
    };
    let kept = if reasons.is_empty() { String::new() } else { format!("; kept: {}", reasons.join(", ")) };
    format!("{head}{kept}.\n")
}

/// Formats a report: one line for each change, then what is left, then the totals.
pub(super) fn report(report: &ClusterReport, dry_run: bool, wide: bool, paint: Paint) -> String {
    let mut text = String::new();
    if !report.outcomes.is_empty() {
        text += &outcomes(&report.outcomes, wide);
        text.push('\n');
    }
    if !report.waiting.is_empty() {
        let _ = writeln!(text, "{}", paint.bold("Being deleted:"));
        text += &waiting(&report.waiting, wide);
        text.push('\n');
    }
    let of = |action| report.outcomes.iter().filter(|outcome| outcome.action == action).count();
    let verb = if dry_run { "would be deleted" } else { "deleted" };
    let changed = report.outcomes.len() - of(ActionWord::Delete);
    let _ = writeln!(text, "{} {verb}, {changed} changed.", format::count(of(ActionWord::Delete), "object"));
    text
}

fn outcomes(outcomes: &[ClusterOutcome], wide: bool) -> String {
    let mut grid = Grid::new(&["ACTION", "KIND", "NAMESPACE", "NAME", "RESULT", "WHY"]);
    for outcome in outcomes {
        let object = &outcome.object;
        grid.row([
            words(outcome.action, outcome.propagation),
            kind(object, wide),
            object.namespace.to_string(),
            object.name.to_string(),
            outcome.result.to_string().replace('_', " "),
            outcome.reason.replace('_', " "),
        ]);
    }
    grid.text()
}

fn waiting(waiting: &[WaitingObject], wide: bool) -> String {
    let mut grid = Grid::new(&["KIND", "NAMESPACE", "NAME", "WAITS FOR"]);
    for WaitingObject { object, finalizers, grace_seconds } in waiting {
        let grace = grace_seconds.map(|seconds| format!("its grace period of {seconds} s"));
        let finalizers = finalizers.iter().map(|finalizer| format!("finalizer {finalizer}"));
        let is_namespace = grace_seconds.is_none() && *object.kind.kind == *"Namespace";
        let content = is_namespace.then(|| "its content".to_owned());
        let causes: Vec<_> = grace.into_iter().chain(finalizers).chain(content).collect();
        grid.row([kind(object, wide), object.namespace.to_string(), object.name.to_string(), format::list(&causes)]);
    }
    grid.text()
}

/// Formats an answer as a tree: the owners above, the object, the dependents below.
pub(super) fn why(answer: &Answer, paint: Paint) -> String {
    let found = &answer.explanation;
    let decision = format!("{}, {}", found.decision.replace('_', " "), found.reason.replace('_', " "));
    let mut text = format!("{}: {decision}\n", paint.bold(&format::printable(&found.object.to_string())));
    if let Some(deletion) = &found.deletion {
        let _ = writeln!(text, "Being deleted: {}", format::printable(&detail(deletion)));
    }
    if !found.owners.is_empty() {
        text += "Owners:\n";
        owner_tree(&mut text, &found.owners, "");
    }
    if !found.dependents.is_empty() {
        text += "Dependents:\n";
        dependent_tree(&mut text, &found.dependents, &found.object, "");
    }
    if let Some(actions_then) = &answer.if_deleted {
        text += match actions_then.as_slice() {
            [] => "If it were deleted: nothing else would change\n",
            _ => "If it were deleted (predicted):\n",
        };
        if !actions_then.is_empty() {
            text += &actions(actions_then, true);
        }
    }
    text
}

fn owner_tree(text: &mut String, owners: &[OwnerNode], indent: &str) {
    branches(
        text,
        owners,
        indent,
        |node| {
            let OwnerFinding { reference, state: word, evidence } = &node.owner;
            format!("{}/{}: {}, {evidence}", reference.kind, reference.name, state(word))
        },
        |text, node, indent| owner_tree(text, &node.owners, indent),
    );
}

fn dependent_tree(text: &mut String, dependents: &[DependentNode], owner: &Identity, indent: &str) {
    branches(
        text,
        dependents,
        indent,
        |node| {
            let place = if node.object.namespace == owner.namespace {
                format!("{}/{}", node.object.kind, node.object.name)
            } else {
                node.object.to_string()
            };
            if node.blocking { format!("{place} (blocks its deletion)") } else { place }
        },
        |text, node, indent| dependent_tree(text, &node.dependents, &node.object, indent),
    );
}

/// Writes one line for each node, with the lines of a tree, and below it those of its own nodes.
fn branches<N>(
    text: &mut String,
    nodes: &[N],
    indent: &str,
    line: impl Fn(&N) -> String,
    mut below: impl FnMut(&mut String, &N, &str),
) {
    for (at, node) in nodes.iter().enumerate() {
        let is_last = at + 1 == nodes.len();
        let (branch, rest) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let _ = writeln!(text, "{indent}{branch}{}", format::printable(&line(node)));
        below(text, node, &format!("{indent}{rest}"));
    }
}

/// Returns the name of an object as `kubectl get -o name` prints it: `configmap/web`, `deployment.apps/web`.
pub(super) fn name(object: &Identity) -> String {
    let (kind, group) = (object.kind.kind.to_lowercase(), object.kind.group());
    if group.is_empty() { format!("{kind}/{}", object.name) } else { format!("{kind}.{group}/{}", object.name) }
}

fn kind(object: &Identity, wide: bool) -> String {
    if wide { object.kind.to_string() } else { object.kind.kind.to_string() }
}
