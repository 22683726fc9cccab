//! Combines several pod sources into one.
//!
//! All sources are read at the same time. A pod exists if any source names it, and the combined list is only as
//! complete as its least complete part. If a source fails, the pods of the others still count and their images are
//! kept, but no pod counts as deleted (I2, I11).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Once, OnceLock};

use async_trait::async_trait;
use futures::future::join_all;

use super::{PodSource, PodSourceOptions};
use crate::host_path::BoundedCalls;
use crate::kubernetes::Clock;
use crate::model::{Container, Phase, Pod, PodList, PodRef, PodSourceReport, PodUid, Sandbox, Seen, Workload};

/// Several pod sources that are read together.
pub struct CombinedPods {
    chosen: OnceLock<Chosen>,
    search: Option<Search>,
    clock: Clock,
}

struct Chosen {
    /// Their names, as `kube-api+kubelet`.
    name: String,
    entries: Vec<SourceEntry>,
}

/// The search for sources (`pods.source = "auto"`). An agent may start before its node has joined a cluster. So the search
/// is repeated at each request until it finds some, which are then kept.
struct Search {
    options: Arc<PodSourceOptions>,
    calls: BoundedCalls,
    /// That there is none is in the log.
    is_logged: Once,
}

pub struct SourceEntry {
    pub source: Arc<dyn PodSource>,
    /// The setting that selected it, such as `auto` or `pods.source`.
    pub wanted_by: &'static str,
    /// Why it was selected, as text for users; empty = nothing to add. A reason from the source itself has precedence.
    pub why: String,
}

// === impl CombinedPods ===

impl CombinedPods {
    /// Combines these sources.
    pub fn new(entries: Vec<SourceEntry>, clock: Clock) -> Self {
        Self { chosen: Chosen::new(entries).into(), search: None, clock }
    }

    /// Combines the sources that a search finds. Searches for nothing yet.
    pub fn searching(options: PodSourceOptions) -> Self {
        let (clock, options) = (options.clock, Arc::new(options));
        let search = Search { options, calls: BoundedCalls::default(), is_logged: Once::new() };
        Self { chosen: OnceLock::new(), search: Some(search), clock }
    }

    /// Logs which sources are in use, and why.
    pub fn log_sources(&self) {
        self.chosen.get().into_iter().for_each(Chosen::log);
    }

    /// Returns the sources, and searches for them if there are none yet. The search runs within a limit, because a file
    /// system may not respond.
    async fn chosen(&self) -> Result<&Chosen, String> {
        if let Some(chosen) = self.chosen.get() {
            return Ok(chosen);
        }
        let search = self.search.as_ref().ok_or("no pod source")?;
        let options = Arc::clone(&search.options);
        let found = search.calls.run(Path::new("credentials"), move || options.search()).await;
        let entries = found.map_err(|error| error.to_string()).flatten().inspect_err(|cause| {
            search.is_logged.call_once(|| tracing::info!(cause, "no pod counts as deleted"));
        })?;
        Ok(self.chosen.get_or_init(|| {
            let chosen = Chosen::new(entries);
            chosen.log();
            chosen
        }))
    }
}

// === impl Chosen ===

impl Chosen {
    fn new(entries: Vec<SourceEntry>) -> Self {
        let name = entries.iter().map(|entry| entry.source.name()).collect::<Vec<_>>().join("+");
        Self { name, entries }
    }

    fn log(&self) {
        for entry in &self.entries {
            tracing::info!(source = entry.source.name(), chosen_by = entry.chosen_by(""), "pod source");
        }
    }

    fn unite(&self, answers: Vec<Seen<PodList>>, clock: Clock) -> Seen<PodList> {
        let mut union = PodList { source: self.name.clone(), complete: true, ..PodList::default() };
        let (mut pods, mut is_seen) = (BTreeMap::new(), false);
        for (entry, answer) in self.entries.iter().zip(answers) {
            union.complete &= answer.as_ref().is_some_and(|list| list.complete);
            union.sources.extend(entry.reports(&answer, clock));
            if let Seen::Seen(list) = answer {
                is_seen = true;
                union.node_labels = union.node_labels.or(list.node_labels);
                union.confirms = union.confirms.and(list.confirms);
                list.pods.into_iter().for_each(|pod| add(&mut pods, pod));
            }
        }
        if !is_seen {
            return Seen::NotSeen(self.causes(union.sources));
        }
        union.pods = pods.into_values().flatten().collect();
        Seen::Seen(union)
    }

    /// Returns why no source is available. A single source needs no name before its cause.
    fn causes(&self, reports: Vec<PodSourceReport>) -> String {
        let is_one = self.entries.len() == 1;
        let cause = |report: PodSourceReport| match report.missing {
            Some(cause) if is_one => cause,
            cause => format!("{}: {}", report.name, cause.unwrap_or_default()),
        };
        reports.into_iter().map(cause).collect::<Vec<_>>().join("; ")
    }

    /// Returns whether a pod still exists, from the answers of all sources.
    fn merge_lookups(&self, answers: &[Seen<bool>]) -> Seen<bool> {
        if answers.iter().any(|answer| answer == &Seen::Seen(true)) {
            return Seen::Seen(true);
        }
        let with_entries = self.entries.iter().zip(answers);
        let causes =
            with_entries.filter_map(|(entry, answer)| Some(format!("{}: {}", entry.source.name(), answer.cause()?)));
        let causes: Vec<_> = causes.collect();
        if causes.is_empty() { Seen::Seen(false) } else { Seen::NotSeen(causes.join("; ")) }
    }
}

#[async_trait]
impl PodSource for CombinedPods {
    fn name(&self) -> &str {
        self.chosen.get().map_or("auto", |chosen| &chosen.name)
    }

    async fn list(&self, containers: &Seen<Vec<Container>>, sandboxes: &Seen<Vec<Sandbox>>) -> Seen<PodList> {
        match self.chosen().await {
            Err(cause) => Seen::NotSeen(cause),
            Ok(chosen) => {
                let lists = chosen.entries.iter().map(|entry| entry.source.list(containers, sandboxes));
                chosen.unite(join_all(lists).await, self.clock)
            }
        }
    }

    /// A host without a kubelet has no source to find, and then no pod counts as deleted.
    fn has_kubelet(&self) -> bool {
        self.chosen.get().is_none_or(|chosen| chosen.entries.iter().any(|entry| entry.source.has_kubelet()))
    }

    async fn cached_pods(&self) -> Vec<Pod> {
        let entries = self.chosen.get().map_or(&[][..], |chosen| &chosen.entries);
        join_all(entries.iter().map(|entry| entry.source.cached_pods())).await.concat()
    }

    /// One source is enough: all read the same cluster.
    async fn workloads(&self) -> Seen<Vec<Workload>> {
        let chosen = match self.chosen().await {
            Err(cause) => return Seen::NotSeen(cause),
            Ok(chosen) => chosen,
        };
        let mut causes = Vec::new();
        for entry in &chosen.entries {
            let workloads = entry.source.workloads().await;
            match workloads.cause() {
                Some(cause) => causes.push(cause.to_owned()),
                None => return workloads,
            }
        }
        Seen::NotSeen(causes.join("; "))
    }

    async fn still_exists(&self, pod: &PodRef) -> Seen<bool> {
        match self.chosen().await {
            Err(cause) => Seen::NotSeen(cause),
            Ok(chosen) => {
                let lookups = chosen.entries.iter().map(|entry| entry.source.still_exists(pod));
                chosen.merge_lookups(&join_all(lookups).await)
            }
        }
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
        let list = match answer.result() {
            Ok(list) => list,
            Err(cause) => {
                let (chosen_by, missing) = (self.chosen_by(""), Some(cause.to_owned()));
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
        let has_cause = reports.iter().any(|report| report.missing.is_some());
        if let Some(report) = reports.first_mut().filter(|_| !list.complete && !has_cause) {
            report.missing = Some("it does not say that this is all".to_owned());
        }
        reports
    }
}

/// Merges the pod of one more source. Pods with the same uid and other names are two pods (I16).
fn add(pods: &mut BTreeMap<PodUid, Vec<Pod>>, pod: Pod) {
    let of_uid = pods.entry(pod.uid.clone()).or_default();
    let is_same =
        |known: &&mut Pod| known.is_named(&pod.namespace, &pod.name) || pod.is_named(&known.namespace, &known.name);
    let Some(known) = of_uid.iter_mut().find(is_same) else {
        of_uid.push(pod);
        return;
    };
    if known.name.is_empty() {
        (known.namespace, known.name) = (pod.namespace, pod.name);
    }
    known.phase = phase(known.phase, pod.phase);
    known.deleting |= pod.deleting;
    known.details = known.details.take().or(pod.details);
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
