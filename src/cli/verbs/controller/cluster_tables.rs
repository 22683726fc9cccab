//! Formats plans and explanations of a cluster for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::cluster_groups::{GroupBy, groups};
use super::source::together;
use super::{ACTIONS, CHANGES, FINDINGS, WAITING};
use crate::cli::render::output::is_wide;
use crate::cli::render::{Paint, format};
use crate::controller::{ClusterOutcome, ClusterReport, ClusterResult, WaitingObject};
use crate::model::{Identity, ObjectDetails, cut_text};
use crate::owners::{
    ActionWord, ClusterAction, ClusterPlan, Finding, FindingKind, NamespaceContent, OwnerFinding, Propagation,
};

/// Predicted actions in a table, unless it is wide.
const PREDICTED: usize = 20;
/// Errors below a table, unless it is wide.
const ERRORS: usize = 5;
/// The most characters of a condition: it can name 100 resources.
const CONDITION: usize = 300;

/// Formats a plan as tables. `content` is what the API server deletes with the objects.
pub(super) fn plan(plan: &ClusterPlan, content: usize, by: Option<GroupBy>, paint: Paint) -> String {
    let mut text = format!("Cluster: {}\n\n", format::printable(&plan.server));
    text += &by.map_or_else(|| objects(plan, paint), |by| groups(plan, by, paint));
    let errors = together(&plan.errors);
    let shown = if is_wide() { errors.len() } else { errors.len().min(ERRORS) };
    for error in errors.get(..shown).unwrap_or_default() {
        let _ = writeln!(text, "{} {}", paint.red("Error:"), format::printable(error));
    }
    if shown < errors.len() {
        let _ = writeln!(text, "and {} more errors; -o wide shows all", errors.len() - shown);
    }
    text + &summary(plan, content)
}

fn objects(plan: &ClusterPlan, paint: Paint) -> String {
    let mut text = String::new();
    if !plan.actions.is_empty() {
        text += &actions(&plan.actions, |object| details(plan, object));
        text.push('\n');
    }
    if !plan.predicted.is_empty() {
        let shown = if is_wide() { plan.predicted.len() } else { plan.predicted.len().min(PREDICTED) };
        let _ = writeln!(text, "{}", paint.bold("Then (predicted):"));
        text += &actions(plan.predicted.get(..shown).unwrap_or_default(), |object| details(plan, object));
        if shown < plan.predicted.len() {
            let _ = writeln!(text, "and {} more; -o wide shows all", plan.predicted.len() - shown);
        }
        text.push('\n');
    }
    if !plan.findings.is_empty() {
        let _ = writeln!(text, "{}", paint.bold("Findings:"));
        text += &findings(plan);
        text.push('\n');
    }
    text
}

/// Formats actions. `details` returns the age, the last manager and the labels of an object, as far as they are known.
pub(super) fn actions(actions: &[ClusterAction], details: impl Fn(&Identity) -> [String; 3]) -> String {
    let rows = actions.iter().map(|action| {
        let [kind, namespace, name] = columns(&action.object);
        let [age, manager, labels] = details(&action.object);
        [action_text(action), kind, namespace, name, age, manager, labels, reason(action)]
    });
    ACTIONS.text(rows)
}

/// Returns the age, the last manager and the labels of an object. Columns without a value are not shown.
fn details(plan: &ClusterPlan, object: &Identity) -> [String; 3] {
    let Some(ObjectDetails { labels, created_at, last_manager }) = plan.details.get(&object.uid) else {
        return Default::default();
    };
    let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let age = created_at.map(|at| format::age(plan.taken_at.duration_since(at).as_secs()));
    [age.unwrap_or_default(), last_manager.clone().unwrap_or_default(), labels.join(",")]
}

pub(super) fn action_text(action: &ClusterAction) -> String {
    words(action.action, action.propagation)
}

fn words(action: ActionWord, propagation: Option<Propagation>) -> String {
    let text = match action {
        ActionWord::Delete => "delete",
        ActionWord::DropReferences => "drop references",
        ActionWord::EndForeground => "end foreground deletion",
        ActionWord::Orphan => "orphan dependents",
        ActionWord::EndNamespace => "end namespace deletion",
        ActionWord::Relink => "relink",
    };
    match propagation {
        None | Some(Propagation::Background) => text.to_owned(),
        Some(propagation) => format!("{text} ({})", propagation.to_string().to_lowercase()),
    }
}

/// Names the owners that decide: those that do not exist any more, or wait.
pub(super) fn reason(action: &ClusterAction) -> String {
    let decides = |owner: &&OwnerFinding| owner.state != "exists";
    let owners: Vec<_> = action.owners.iter().filter(decides).map(owner_text).collect();
    match action.action {
        ActionWord::Delete => {
            let mut text = if action.is_by_owners() { format::list(&owners) } else { action.reason.clone() };
            if !action.held_by.is_empty() {
                let _ = write!(text, "; held by {}", counted("finalizer", &action.held_by));
            }
            if let Some(content) = action.content {
                let _ = write!(text, "; and its content: {}", format::count(content, "object"));
            }
            text
        }
        ActionWord::DropReferences => format::list(&owners),
        ActionWord::EndForeground => "no blocking dependents left".to_owned(),
        ActionWord::Orphan => "deleted with the policy orphan".to_owned(),
        ActionWord::EndNamespace => "no content left".to_owned(),
        ActionWord::Relink => action.reason.clone(),
    }
}

fn owner_text(owner: &OwnerFinding) -> String {
    format!("owner {}/{} {}", owner.reference.kind.kind, owner.reference.name, owner_state(owner))
}

/// Formats the state of an owner. Of an absent one it names the object that the reference may mean.
pub(super) fn owner_state(owner: &OwnerFinding) -> String {
    let named = &owner.reference;
    match &owner.found {
        None => state(&owner.state).to_owned(),
        Some(_) if owner.is_stale() => "has another uid".to_owned(),
        Some(found) if (&found.kind, &found.name) == (&named.kind, &named.name) && !found.namespace.is_empty() => {
            format!("is in namespace {}", found.namespace)
        }
        Some(found) => format!("is absent, and {found} has its uid"),
    }
}

/// Formats some names: `finalizer a.example/x`, `finalizers a, b`.
pub(super) fn counted(what: &str, names: &[String]) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    format!("{what}{plural} {}", names.join(", "))
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

fn findings(plan: &ClusterPlan) -> String {
    let rows = plan.findings.iter().map(|finding| {
        let [kind, namespace, name] = columns(&finding.object);
        let [age, manager, labels] = details(plan, &finding.object);
        [finding_text(finding.kind).to_owned(), kind, namespace, name, age, manager, labels, detail(finding)]
    });
    FINDINGS.text(rows)
}

pub(super) fn finding_text(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::KindNotServed => "owner kind not served",
        FindingKind::WrongNamespace => "owner in another namespace",
        FindingKind::WrongOwner => "owner is another object",
        FindingKind::NamespacedOwner => "namespaced owner",
        FindingKind::OwnerUnverified => "owner unverified",
        FindingKind::SharedUid => "shares one uid",
        FindingKind::BeingDeleted => "being deleted",
        FindingKind::OwnerCycle => "owners in a cycle",
    }
}

pub(super) fn detail(finding: &Finding) -> String {
    if finding.kind == FindingKind::BeingDeleted {
        return holds(finding).join("; ");
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

/// Lists since when the deletion of an object is in progress, and what holds it.
pub(super) fn holds(finding: &Finding) -> Vec<String> {
    let waits = match finding.waits_for.as_slice() {
        [] => None,
        [one] => Some(format!("waits for {one}")),
        [first, others @ ..] => Some(format!("waits for {first} and {} more", others.len())),
    };
    let lists = finding.waits_for_lists.join(", ");
    let lists = (!lists.is_empty()).then(|| {
        let is_namespace = finding.object.kind.is_namespace();
        let dependents = || format!("waits for the list of {lists}, which may have dependents");
        if is_namespace { format!("cannot list in it: {lists}") } else { dependents() }
    });
    let content: Vec<_> = finding.content.iter().map(content_text).collect();
    let content = (!content.is_empty()).then(|| format!("waits for its content: {}", content.join(", ")));
    let finalizers = (!finding.finalizers.is_empty()).then(|| counted("finalizer", &finding.finalizers));
    let since = finding.since.map(|since| format!("since {since}"));
    let groups = finding.unavailable.iter().map(|group| format!("APIService {}", group.service()));
    let all = [since, finalizers, content, waits, lists].into_iter().flatten().chain(groups);
    all.chain(finding.conditions.iter().map(|it| cut_text(it, CONDITION).into_owned())).collect()
}

/// Formats what is in a namespace: `10 ConfigMap.v1 (in 3 of 10 objects the finalizer example.com/hold)`.
fn content_text(content: &NamespaceContent) -> String {
    let NamespaceContent { kind, objects, held, .. } = content;
    let held =
        held.iter().map(|(finalizer, count)| format!("in {count} of {objects} objects the finalizer {finalizer}"));
    let held = held.collect::<Vec<_>>().join(", ");
    if held.is_empty() { format!("{objects} {kind}") } else { format!("{objects} {kind} ({held})") }
}

fn summary(plan: &ClusterPlan, content: usize) -> String {
    let of = |actions: &[ClusterAction], word| actions.iter().filter(|action| action.action == word).count();
    let held = plan.actions.iter().filter(|action| !action.held_by.is_empty()).count();
    let deletes = of(&plan.actions, ActionWord::Delete) - held;
    let follow = of(&plan.predicted, ActionWord::Delete);
    let head = match (deletes, follow) {
        (0, 0) if !plan.errors.is_empty() => "Nothing to delete among what could be read".to_owned(),
        (0, 0) => "Nothing to delete".to_owned(),
        (deletes, 0) => format!("{} to delete", format::count(deletes, "object")),
        (deletes, follow) => format!("{} to delete, then {follow} more", format::count(deletes, "object")),
    };
    let content =
        if content == 0 { String::new() } else { format!(", and {} with them", format::count(content, "object")) };
    let held = if held == 0 { String::new() } else { format!("; finalizers hold {held} more") };
    let kept = kept(plan.kept.iter().map(|kept| &kept.reason), |reason| reason.replace('_', " "));
    format!("{head}{content}{held}{kept}.\n")
}

/// Formats a report: one line for each change, then what is left, then the totals.
pub(super) fn report(report: &ClusterReport, dry_run: bool, paint: Paint) -> String {
    let mut text = String::new();
    if !report.outcomes.is_empty() {
        text += &outcomes(&report.outcomes);
        text.push('\n');
    }
    if !report.waiting.is_empty() {
        let _ = writeln!(text, "{}", paint.bold("Being deleted:"));
        text += &waiting(&report.waiting);
        text.push('\n');
    }
    let of = |action| report.outcomes.iter().filter(|outcome| outcome.action == action).count();
    let verb = if dry_run { "would be deleted" } else { "deleted" };
    let left = report.outcomes.iter().filter(|outcome| outcome.result == ClusterResult::Accepted).count();
    let (deleted, changed) = (of(ActionWord::Delete) - left, report.outcomes.len() - of(ActionWord::Delete));
    let _ = writeln!(text, "{} {verb}{}, {changed} changed.", format::count(deleted, "object"), in_deletion(left));
    text
}

/// Formats how many objects still exist, as `, 36 still in deletion`.
pub(super) fn in_deletion(count: usize) -> String {
    if count == 0 { String::new() } else { format!(", {count} still in deletion") }
}

fn outcomes(outcomes: &[ClusterOutcome]) -> String {
    let rows = outcomes.iter().map(|outcome| {
        let [kind, namespace, name] = columns(&outcome.object);
        let (action, result) = (words(outcome.action, outcome.propagation), outcome.result.to_string());
        [action, kind, namespace, name, result.replace('_', " "), reason_text(&outcome.reason)]
    });
    CHANGES.text(rows)
}

fn waiting(waiting: &[WaitingObject]) -> String {
    let rows = waiting.iter().map(|WaitingObject { object, finalizers, grace_seconds }| {
        let grace = grace_seconds.map(|seconds| format!("its grace period of {seconds} s"));
        let finalizers = finalizers.iter().map(|finalizer| format!("finalizer {finalizer}"));
        let is_namespace = grace_seconds.is_none() && *object.kind.kind == *"Namespace";
        let content = is_namespace.then(|| "its content".to_owned());
        let causes: Vec<_> = grace.into_iter().chain(finalizers).chain(content).collect();
        let [kind, namespace, name] = columns(object);
        [kind, namespace, name, format::list(&causes)]
    });
    WAITING.text(rows)
}

/// Formats a reason: a word, or the rule that selects an object.
pub(super) fn reason_text(reason: &str) -> String {
    let is_word = reason.bytes().all(|it| it.is_ascii_lowercase() || it == b'_');
    if is_word { reason.replace('_', " ") } else { reason.to_owned() }
}

/// Returns the name of an object as `kubectl get -o name` prints it: `configmap/web`, `deployment.apps/web`.
pub(super) fn name(object: &Identity) -> String {
    let (kind, group) = (object.kind.kind.to_lowercase(), object.kind.group());
    if group.is_empty() { format!("{kind}/{}", object.name) } else { format!("{kind}.{group}/{}", object.name) }
}

/// Returns the kind, the namespace and the name. Only a wide table shows the group and the version of the kind.
pub(super) fn columns(object: &Identity) -> [String; 3] {
    let kind = if is_wide() { object.kind.to_string() } else { object.kind.kind.to_string() };
    [kind, object.namespace.to_string(), object.name.to_string()]
}

/// Formats how many objects are kept for each reason, as `; kept: 2 owner exists`; empty = none is kept.
pub(super) fn kept<K: Ord>(reasons: impl Iterator<Item = K>, text: impl Fn(K) -> String) -> String {
    let mut counts = BTreeMap::<_, usize>::new();
    reasons.for_each(|reason| *counts.entry(reason).or_default() += 1);
    let counts: Vec<_> = counts.into_iter().map(|(reason, count)| format!("{count} {}", text(reason))).collect();
    if counts.is_empty() { String::new() } else { format!("; kept: {}", counts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ApiKind, Uid};
    use crate::owners::UnavailableGroup;

    #[test]
    fn what_still_exists_is_not_counted_as_deleted() {
        let outcome = |name: &str, result| ClusterOutcome {
            action: ActionWord::Delete,
            object: Identity {
                kind: ApiKind::new("v1", "Pod"),
                namespace: "a".into(),
                name: name.into(),
                uid: Uid::new("u"),
            },
            propagation: None,
            owners: Vec::new(),
            reason: "owners_absent".to_owned(),
            result,
        };
        let last_line = |outcomes: Vec<ClusterOutcome>| {
            let report = ClusterReport { outcomes, ..ClusterReport::default() };
            super::report(&report, false, Paint { on: false }).lines().last().unwrap().to_owned()
        };
        let removed = || outcome("a", ClusterResult::Removed);
        assert_eq!(last_line(vec![removed()]), "1 object deleted, 0 changed.");
        let both = vec![removed(), outcome("b", ClusterResult::Accepted), outcome("c", ClusterResult::Accepted)];
        assert_eq!(last_line(both), "1 object deleted, 2 still in deletion, 0 changed.");
    }

    #[test]
    fn what_holds_a_namespace_is_named() {
        let kind = ApiKind::new("v1", "Namespace");
        let object = Identity { kind, namespace: "".into(), name: "shop".into(), uid: Uid::new("u") };
        let content = |kind: &str, objects, held: &[(&str, usize)]| {
            let held = held.iter().map(|(finalizer, count)| ((*finalizer).to_owned(), *count)).collect();
            NamespaceContent { kind: kind.to_owned(), objects, finalizers: Vec::new(), held }
        };
        let group =
            UnavailableGroup { api_version: "metrics.k8s.io/v1beta1".to_owned(), cause: "it is stale".to_owned() };
        let finding = Finding {
            kind: FindingKind::BeingDeleted,
            object,
            owner: None,
            found: None,
            since: Some(jiff::Timestamp::UNIX_EPOCH),
            finalizers: Vec::new(),
            waits_for: Vec::new(),
            waits_for_lists: vec!["widgets.example.com".to_owned()],
            content: vec![content("ConfigMap.v1", 10, &[("example.com/hold", 3)]), content("Pod.v1", 2, &[])],
            unavailable: vec![group],
            conditions: vec!["NamespaceDeletionDiscoveryFailure: one".to_owned()],
        };
        assert_eq!(
            holds(&finding),
            [
                "since 1970-01-01T00:00:00Z",
                "waits for its content: 10 ConfigMap.v1 (in 3 of 10 objects the finalizer example.com/hold), 2 Pod.v1",
                "cannot list in it: widgets.example.com",
                "APIService v1beta1.metrics.k8s.io is unavailable: it is stale",
                "NamespaceDeletionDiscoveryFailure: one",
            ]
        );
    }
}
