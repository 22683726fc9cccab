//! The page of a node: `kubegc status` prints it on the node, `kubegc fleet NODE` from the cluster.

use jiff::Timestamp;

use super::format;
use crate::fleet::{DeferredPass, ListAnswer, LocalStatus, NodeStatus, RunningPass};
use crate::plan::{DiskSummary, PassCounts, Scope};

/// A line: its title and its text. One without a text is not shown.
pub(in crate::cli) type Line = (&'static str, String);

/// What a page shows beside the status of the node.
#[derive(Default)]
pub(in crate::cli) struct Beside {
    /// The process that holds the lock of the node; empty = not known.
    pub holder: String,
    /// The lines above that of the agent.
    pub node: Vec<Line>,
    /// The lines below those of the agent.
    pub agent: Vec<Line>,
    /// The lines below those of the disks.
    pub disks: Vec<Line>,
}

/// Formats a status. What it lacks has no line.
pub(in crate::cli) fn node_page(status: &NodeStatus, beside: Beside, now: Timestamp) -> String {
    let Beside { holder, node, agent, disks } = beside;
    let mut lines = node;
    lines.push(("Agent", agent_text(holder, status, now)));
    lines.push(("Suspended", status.suspended().unwrap_or_default().to_owned()));
    if let Some(local) = &status.local {
        let running = [("Now", running(local)), ("Next pass", next_pass(local, &status.passes, now))];
        lines.extend(running.into_iter().chain([("Metrics", metrics(local))]));
    }
    lines.extend(agent);
    lines.extend(status.disks.iter().flat_map(disk));
    lines.extend(reclaimable(status).map(|text| ("Reclaimable", text)));
    lines.extend(disks);
    lines.extend(status.passes.iter().map(|pass| ("Last pass", last_pass(pass, now))));
    lines.push(("Policies", status.policies.join(", ")));
    lines.extend(status.policy_faults.iter().map(|fault| ("Mistake", fault.clone())));
    lines.extend(status.removals.iter().map(|of| ("Listed images", answer(of))));
    format::fields(&lines)
}

/// Formats the agent, as `pid 123, run, up 3h, version 0.3.0, mode collect, profile safe`.
fn agent_text(holder: String, status: &NodeStatus, now: Timestamp) -> String {
    let named = |name: &str, text: &str| if text.is_empty() { String::new() } else { format!("{name} {text}") };
    let (local, age) = (status.local.as_ref(), |since| format::age(now.duration_since(since).as_secs()));
    let parts = [
        holder,
        local.map(|local| format!("up {}", age(local.started_at))).unwrap_or_default(),
        named("version", &status.version),
        named("mode", &status.mode),
        local.map(|local| named("profile", &local.profile)).unwrap_or_default(),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// Formats what the agent does now.
fn running(local: &LocalStatus) -> String {
    let pass = |(scope, pass): (&String, &RunningPass)| match pass.planned {
        0 => format!("pass over {scope}"),
        planned => format!("pass over {scope}: {} of {planned} objects done", pass.done),
    };
    let passes: Vec<_> = local.running.iter().map(pass).collect();
    if passes.is_empty() { "idle".to_owned() } else { format::list(&passes) }
}

/// Formats when the next passes are due, and why one is put off, as `containers in 40s, images in 4m`.
fn next_pass(local: &LocalStatus, passes: &[PassCounts], now: Timestamp) -> String {
    let wait = |at: Timestamp| match at.duration_since(now).as_secs() {
        seconds if seconds > 0 => format!("in {}", format::age(seconds)),
        _ => "now".to_owned(),
    };
    let due = |PassCounts { scope, next_at, .. }: &PassCounts| match next_at {
        Some(at) => format!("{scope} {}", wait(*at)),
        None => format!("{scope} deferred (back-off: the last pass failed)"),
    };
    let deferred = local.deferred.as_ref().filter(|deferred| deferred.until > now);
    // A pass over all was requested, and has no next one.
    let is_shown =
        |scope: &str| scope != Scope::All.as_str() && (deferred.is_none() || scope != Scope::Images.as_str());
    let scheduled = passes.iter().filter(|pass| is_shown(&pass.scope)).map(due);
    let deferred = deferred.map(|DeferredPass { until, why }| format!("images deferred, {} ({why})", wait(*until)));
    scheduled.chain(deferred).collect::<Vec<_>>().join(", ")
}

/// Formats where metrics are; empty = they are turned off.
fn metrics(local: &LocalStatus) -> String {
    let address = local.metrics_address.as_ref();
    address.map(|at| format::seen(at, "unavailable", |at| format!("http://{at}/metrics"))).unwrap_or_default()
}

/// Formats a disk, and how long its space lasts.
fn disk(disk: &DiskSummary) -> [Line; 2] {
    let title = match &*disk.holds {
        "images" => "Image disk",
        "logs" => "Log disk",
        _ => "Kubelet disk",
    };
    let text = if disk.text.is_empty() { format!("{}% used", disk.used_percent) } else { disk.text.clone() };
    [(title, text), ("Forecast", disk.forecast.clone())]
}

/// Formats what unused images would reclaim; `None` = not known.
fn reclaimable(status: &NodeStatus) -> Option<String> {
    let bytes = status.shortfall_bytes;
    let short = if bytes == 0 { String::new() } else { format!(", {} short", format::size(bytes)) };
    (!status.reclaimable.is_empty()).then(|| status.reclaimable.clone() + &short)
}

/// Formats a pass, as `images, 12s ago: removed 3, failed 1, reclaimed 1.2GiB`.
fn last_pass(pass: &PassCounts, now: Timestamp) -> String {
    let errors = pass.errors.iter().flat_map(|error| ["; ", error]).collect::<String>();
    let age = format::age(pass.at.map_or(0, |at| now.duration_since(at).as_secs()).max(0));
    let PassCounts { scope, removed, would_remove, failed, freed_bytes, .. } = pass;
    let counts = match would_remove {
        0 => format!("removed {removed}, failed {failed}, reclaimed {}", format::size(*freed_bytes)),
        count => format!("would remove {count}"),
    };
    format!("{scope}, {age} ago: {counts}{errors}")
}

/// Formats what became of the images of a policy.
fn answer(of: &ListAnswer) -> String {
    let counts = format!("{}: {} removed, {} absent, {} kept", of.policy, of.removed, of.absent, of.kept);
    std::iter::once(counts).chain(of.notes.iter().cloned()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_what_the_status_has() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let disk = |holds: &str, text: &str| DiskSummary {
            holds: holds.to_owned(),
            used_percent: 70,
            text: text.to_owned(),
            ..DiskSummary::default()
        };
        let pass = PassCounts { scope: "images".to_owned(), at: Some(at(0)), would_remove: 2, ..PassCounts::default() };
        let answer = serde_json::from_value(serde_json::json!({ "policy": "purge", "absent": 1 })).unwrap();
        let mut status = NodeStatus {
            version: "1.0.0".to_owned(),
            mode: "observe".to_owned(),
            disks: vec![disk("images", "70% used (high 85%)"), disk("logs", "")],
            reclaimable: "4.0GiB".to_owned(),
            shortfall_bytes: 1 << 30,
            passes: vec![pass],
            policies: vec!["night".to_owned(), "purge".to_owned()],
            removals: vec![answer],
            ..NodeStatus::default()
        };
        status.set_collecting(Some("paused"));
        let beside = Beside { node: vec![("Node", "n1".to_owned())], ..Beside::default() };
        insta::assert_snapshot!(node_page(&status, beside, at(60)), @"
        Node:          n1
        Agent:         version 1.0.0, mode observe
        Suspended:     paused
        Image disk:    70% used (high 85%)
        Log disk:      70% used
        Reclaimable:   4.0GiB, 1.0GiB short
        Last pass:     images, 60s ago: would remove 2
        Policies:      night, purge
        Listed images: purge: 0 removed, 1 absent, 0 kept
        ");
    }

    #[test]
    fn a_pass_that_is_put_off_has_its_cause() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let pass = |scope: &str, next_at| PassCounts { scope: scope.to_owned(), next_at, ..PassCounts::default() };
        let passes = [pass("all", None), pass("containers", Some(at(60))), pass("images", None)];
        let mut local = NodeStatus::of_agent(1, "1.0.0", at(0)).local.unwrap();
        assert_eq!(
            next_pass(&local, &passes, at(0)),
            "containers in 60s, images deferred (back-off: the last pass failed)"
        );
        // Under disk pressure there is a pass over images before the first one of the schedule.
        local.deferred = Some(DeferredPass { until: at(540), why: "images.pace: start 10m".to_owned() });
        assert_eq!(
            next_pass(&local, &passes, at(60)),
            "containers now, images deferred, in 8m (images.pace: start 10m)"
        );
        assert_eq!(
            next_pass(&local, &passes, at(540)),
            "containers now, images deferred (back-off: the last pass failed)"
        );
    }
}
