//! Formats pods and pod sources for display.

use jiff::Timestamp;
use serde::Serialize;

use super::format;
use crate::model::{Phase, Pod, PodRef, PodSourceReport, Seen};
use crate::plan::{Plan, PodKnowledge};

/// A pod of the list.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct PodAnswer {
    kind: &'static str,
    #[serde(flatten)]
    pod: PodRef,
    phase: Phase,
    deleting: bool,
    pods: Seen<PodKnowledge>,
}

// === impl PodAnswer ===

impl PodAnswer {
    fn new(pod: &Pod, plan: &Plan) -> Self {
        let Pod { uid, namespace, name, phase, deleting, .. } = pod.clone();
        let pod = PodRef { uid, namespace, name };
        Self { kind: "pod", pod, phase, deleting, pods: plan.pods.clone() }
    }

    pub(in crate::cli) fn text(&self) -> String {
        let deleting = if self.deleting { ", being deleted" } else { "" };
        let title = format!("pod {} ({}), {}{deleting}", self.pod, self.pod.uid, phase(self.phase));
        format!("{}\n", format::printable(&title))
    }
}

/// Returns the pods of the list that a word refers to: `namespace/name`, a name, or a uid.
pub(in crate::cli) fn answers<'a>(pods: impl Iterator<Item = &'a Pod>, word: &str, plan: &Plan) -> Vec<PodAnswer> {
    let is_meant = |pod: &&Pod| {
        let full = format!("{}/{}", pod.namespace, pod.name);
        !word.is_empty() && [full.as_str(), &pod.name, pod.uid.as_str()].contains(&word)
    };
    pods.filter(is_meant).map(|pod| PodAnswer::new(pod, plan)).collect()
}

/// Formats the pod sources of a plan and the age of their lists, in one line.
pub(in crate::cli) fn sources_of(plan: &Plan) -> String {
    match plan.pods.result() {
        // The cause of `auto` says it itself.
        Err(cause) if cause.starts_with("no pod source available") => cause.to_owned(),
        Err(cause) => format!("no pod list available: {cause}"),
        Ok(known) => {
            let dirs = known.dirs_unavailable.as_ref();
            let dirs = dirs.map(|cause| format!("the kubelet's pod directories are unavailable: {cause}"));
            [Some(sources(known, plan.taken_at)), dirs].into_iter().flatten().collect::<Vec<_>>().join("; ")
        }
    }
}

fn sources(known: &PodKnowledge, now: Timestamp) -> String {
    if known.sources.is_empty() {
        let missing = if known.complete { "" } else { ", not complete" };
        let pods = format::count(known.pods, "pod");
        return format!("{} ({pods}{missing})", known.source);
    }
    known.sources.iter().map(|source| report(source, now)).collect::<Vec<_>>().join(", ")
}

/// Formats one source: `kube-api (48 pods, 3s old, in-cluster account)`.
fn report(source: &PodSourceReport, now: Timestamp) -> String {
    let PodSourceReport { name, chosen_by, pods, as_of, missing } = source;
    let age = as_of.map(|as_of| format!("{} old", format::age(now.duration_since(as_of).as_secs())));
    let pods = as_of.map(|_| format::count(*pods, "pod"));
    let chosen = Some(chosen_by.clone()).filter(|chosen| !chosen.is_empty());
    let missing = missing.as_ref().map(|cause| format!("not complete: {cause}"));
    let facts: Vec<_> = [pods, age, chosen, missing].into_iter().flatten().collect();
    if facts.is_empty() { name.clone() } else { format!("{name} ({})", facts.join(", ")) }
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "pending",
        Phase::Running => "running",
        Phase::Succeeded => "succeeded",
        Phase::Failed => "failed",
        Phase::Unknown => "unknown phase",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(pods: &serde_json::Value) -> Plan {
        serde_json::from_value(serde_json::json!({
            "kind": "Plan", "version": 1, "taken_at": "2026-11-21T12:00:03Z", "profile": "safe", "actions": [], "pods": pods,
        }))
        .unwrap()
    }

    #[test]
    fn pod_sources_are_one_line() {
        let source = |name: &str, more: serde_json::Value| {
            let mut source = serde_json::json!({ "name": name });
            source.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            source
        };
        let api = source(
            "kube-api",
            serde_json::json!({ "pods": 48, "as_of": "2026-11-21T12:00:00Z", "chosen_by": "in-cluster account" }),
        );
        let cut = source("kubelet", serde_json::json!({ "missing": "it has just started" }));
        let plain = source("runtime", serde_json::json!({}));
        let seen = |sources: &[&serde_json::Value]| {
            plan(&serde_json::json!({ "seen": { "source": "auto", "complete": true, "pods": 48, "sources": sources } }))
        };
        assert_eq!(sources_of(&seen(&[&api, &plain])), "kube-api (48 pods, 3s old, in-cluster account), runtime");
        assert_eq!(sources_of(&seen(&[&cut])), "kubelet (not complete: it has just started)");
        assert_eq!(sources_of(&seen(&[])), "auto (48 pods)");
        let known =
            serde_json::json!({ "source": "auto", "complete": true, "pods": 1, "dirs_unavailable": "no answer" });
        let expected = "auto (1 pod); the kubelet's pod directories are unavailable: no answer";
        assert_eq!(sources_of(&plan(&serde_json::json!({ "seen": known }))), expected);
        assert_eq!(
            sources_of(&plan(&serde_json::json!({ "not_seen": "no answer" }))),
            "no pod list available: no answer"
        );
    }
}
