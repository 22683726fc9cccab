//! Combines several pod sources into one.
//!
//! All sources are read at the same time. A pod exists if any source names it, and the combined list is only as
//! complete as its least complete part. If a source fails, the pods of the others still count and their images are
//! kept, but no pod counts as deleted (I2, I11).

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;

use super::PodSource;
use crate::kubernetes::Clock;
use crate::model::{Container, Phase, Pod, PodList, PodRef, PodSourceReport, PodUid, Sandbox, Seen};
use crate::observe::Answer;

/// Several pod sources that are read together.
pub struct CombinedPods {
    name: String,
    parts: Vec<SourceEntry>,
    clock: Clock,
}

/// One of several sources.
pub struct SourceEntry {
    /// The source.
    pub source: Arc<dyn PodSource>,
    /// The setting that selected it, such as `auto` or `pods.source`.
    pub wanted_by: &'static str,
    /// Why it was selected, as text for users; empty = nothing to add. A reason from the source itself has precedence.
    pub why: String,
}

// === impl CombinedPods ===

impl CombinedPods {
    /// Combines these sources.
    pub fn new(parts: Vec<SourceEntry>, clock: Clock) -> Self {
        let name = parts.iter().map(|part| part.source.name()).collect::<Vec<_>>().join("+");
        Self { name, parts, clock }
    }

    /// Logs which sources are in use, and why.
    pub fn log_sources(&self) {
        for part in &self.parts {
            tracing::info!(source = part.source.name(), chosen_by = part.chosen_by(""), "pods are learnt from");
        }
    }

    /// Merges the lists.
    fn unite(&self, answers: Vec<Seen<PodList>>) -> Seen<PodList> {
        let mut union = PodList { source: self.name.clone(), complete: true, ..PodList::default() };
        let (mut pods, mut is_seen) = (BTreeMap::new(), false);
        for (part, answer) in self.parts.iter().zip(answers) {
            union.complete &= answer.as_ref().is_some_and(|list| list.complete);
            union.sources.extend(part.reports(&answer, self.clock));
            if let Seen::Seen(list) = answer {
                is_seen = true;
                union.confirms = union.confirms.and(list.confirms);
                list.pods.into_iter().for_each(|pod| add(&mut pods, pod));
            }
        }
        if !is_seen {
            return Seen::NotSeen(self.causes(union.sources));
        }
        union.pods = pods.into_values().collect();
        Seen::Seen(union)
    }

    /// Returns why no source is available. A single source needs no name before its cause.
    fn causes(&self, reports: Vec<PodSourceReport>) -> String {
        let is_one = self.parts.len() == 1;
        let cause = |report: PodSourceReport| match report.missing {
            Some(cause) if is_one => cause,
            cause => format!("{}: {}", report.name, cause.unwrap_or_default()),
        };
        reports.into_iter().map(cause).collect::<Vec<_>>().join("; ")
    }

    /// Returns whether a pod still exists, from the answers of all sources.
    fn judge(&self, answers: &[Seen<bool>]) -> Seen<bool> {
        if answers.iter().any(|answer| answer == &Seen::Seen(true)) {
            return Seen::Seen(true);
        }
        let of_parts = self.parts.iter().zip(answers);
        let causes = of_parts.filter_map(|(part, answer)| Some(format!("{}: {}", part.source.name(), answer.cause()?)));
        let causes: Vec<_> = causes.collect();
        if causes.is_empty() { Seen::Seen(false) } else { Seen::NotSeen(causes.join("; ")) }
    }
}

impl PodSource for CombinedPods {
    fn name(&self) -> &str {
        &self.name
    }

    fn list<'a>(
        &'a self,
        containers: &'a Seen<Vec<Container>>,
        sandboxes: &'a Seen<Vec<Sandbox>>,
    ) -> Answer<'a, Seen<PodList>> {
        let asked = self.parts.iter().map(|part| part.source.list(containers, sandboxes));
        Box::pin(async move { self.unite(join_all(asked).await) })
    }

    fn has_kubelet(&self) -> bool {
        self.parts.iter().any(|part| part.source.has_kubelet())
    }

    fn cached_pods(&self) -> Answer<'_, Vec<Pod>> {
        let asked = self.parts.iter().map(|part| part.source.cached_pods());
        Box::pin(async move { join_all(asked).await.concat() })
    }

    fn still_exists<'a>(&'a self, pod: &'a PodRef) -> Answer<'a, Seen<bool>> {
        let asked = self.parts.iter().map(|part| part.source.still_exists(pod));
        Box::pin(async move { self.judge(&join_all(asked).await) })
    }
}

// === impl SourceEntry ===

impl SourceEntry {
    fn chosen_by(&self, by_source: &str) -> String {
        let why = if by_source.is_empty() { &self.why } else { by_source };
        if why.is_empty() { self.wanted_by.to_owned() } else { format!("{}: {why}", self.wanted_by) }
    }

    /// Returns the reports of this source. A source without reports gets one.
    fn reports(&self, answer: &Seen<PodList>, clock: Clock) -> Vec<PodSourceReport> {
        let blank = PodSourceReport { name: self.source.name().to_owned(), ..PodSourceReport::default() };
        let list = match answer {
            Seen::Seen(list) => list,
            Seen::NotSeen(cause) => {
                let (chosen_by, missing) = (self.chosen_by(""), Some(cause.clone()));
                return vec![PodSourceReport { chosen_by, missing, ..blank }];
            }
        };
        let pods = list.pods.len() as u64;
        let mut reports =
            if list.sources.is_empty() { vec![PodSourceReport { pods, ..blank }] } else { list.sources.clone() };
        for report in &mut reports {
            report.chosen_by = self.chosen_by(&report.chosen_by);
            report.as_of = report.as_of.or_else(|| Some(clock()));
        }
        let is_told = reports.iter().any(|report| report.missing.is_some());
        if let Some(report) = reports.first_mut().filter(|_| !list.complete && !is_told) {
            report.missing = Some("it does not say that this is all".to_owned());
        }
        reports
    }
}

/// Merges the pod of one more source.
fn add(pods: &mut BTreeMap<PodUid, Pod>, pod: Pod) {
    let Some(known) = pods.get_mut(&pod.uid) else {
        pods.insert(pod.uid.clone(), pod);
        return;
    };
    if known.name.is_empty() {
        (known.namespace, known.name) = (pod.namespace, pod.name);
    }
    known.phase = phase(known.phase, pod.phase);
    known.deleting |= pod.deleting;
    known.images.extend(pod.images);
    known.images.sort_unstable();
    known.images.dedup();
}

/// Returns the phase of a pod in two sources. A pod is terminated only if every source with a known phase says so. One
/// of them may be late, and a terminated pod may lose its containers (`containers.evict_terminated_pods`).
fn phase(one: Phase, other: Phase) -> Phase {
    match (one, other) {
        (Phase::Unknown, known) => known,
        (terminal, other) if terminal.is_terminal() && other != Phase::Unknown => other,
        (known, _) => known,
    }
}

#[cfg(test)]
mod tests;
