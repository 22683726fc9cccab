use std::time::Duration;

use serde_json::json;

use super::*;
use crate::model::{DiskUse, FileSystem, NodeDisk, PodSourceName};
use crate::plan::{Forecast, LogLimit, LogLimitNote, Pass, Policy, PressurePolicy, Summary, TimeLeft, decide};
use crate::store::Space;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn full_disk() -> Snapshot {
    serde_json::from_str(include_str!("../../../tests/data/snapshots/full_disk.json")).unwrap()
}

/// Returns the samples of a metric, without its name.
fn samples(metrics: &AgentMetrics, name: &str) -> Vec<String> {
    let text = metrics.text(Exposition::Prometheus);
    let of_it = |line: &str| line.strip_prefix(name).filter(|rest| rest.starts_with([' ', '{'])).map(str::to_owned);
    text.lines().filter_map(of_it).collect()
}

fn report(outcome: &serde_json::Value) -> Report {
    let mut report = outcome.clone();
    report["action"] = json!({ "action": "remove_image", "id": "i", "reason": "unused", "estimated_bytes": 7 });
    serde_json::from_value(report).unwrap()
}

#[test]
fn every_counter_begins_at_0() {
    let metrics = AgentMetrics::default();
    assert_eq!(samples(&metrics, "kubegc_passes_total").len(), 4);
    assert!(
        samples(&metrics, "kubegc_removals_failed_total").contains(&"{kind=\"image\",cause=\"timeout\"} 0".to_owned())
    );
    for (kind, reason) in [("container", "over_total_limit"), ("log_link", "dangling"), ("image", "rule")] {
        let sample = format!("{{kind=\"{kind}\",reason=\"{reason}\"}} 0");
        assert!(samples(&metrics, "kubegc_removed_total").contains(&sample), "{sample}");
    }
}

#[test]
fn an_outcome_is_counted_by_kind_and_reason() {
    let metrics = AgentMetrics::default();
    for outcome in [
        json!({ "outcome": "removed" }),
        json!({ "outcome": "failed", "error": "busy", "cause": "runtime" }),
        json!({ "outcome": "refused", "refusal": "in_use" }),
        json!({ "outcome": "already_removed" }),
    ] {
        metrics.outcome(&report(&outcome));
    }
    let counted =
        |name| samples(&metrics, name).into_iter().filter(|sample| !sample.ends_with(" 0")).collect::<Vec<_>>();
    assert_eq!(counted("kubegc_removed_total"), ["{kind=\"image\",reason=\"unused\"} 1"]);
    assert_eq!(counted("kubegc_removals_failed_total"), ["{kind=\"image\",cause=\"runtime\"} 1"]);
    assert_eq!(counted("kubegc_removals_refused_total"), ["{kind=\"image\",cause=\"in_use\"} 1"]);
    assert_eq!(counted("kubegc_estimated_bytes_total"), ["{kind=\"image\"} 7"]);
}

#[test]
fn a_failed_pass_does_not_move_the_last_success() {
    let metrics = AgentMetrics::default();
    let pass = |shortfall_bytes, measured: &[(Kind, u64)], duration, ended_at| Pass {
        scope: Scope::Images,
        ended_at,
        duration,
        plan: decide(&full_disk(), &crate::plan::Policy::default(), Scope::Images),
        reports: Vec::new(),
        summary: Summary { measured_bytes: measured.iter().copied().collect(), shortfall_bytes, ..Summary::default() },
        not_recorded: None,
    };
    metrics.passed(&pass(0, &[(Kind::Image, 40)], Some(Duration::from_millis(1500)), at(100)));
    metrics.passed(&pass(1, &[], None, at(200)));
    assert_eq!(samples(&metrics, "kubegc_pass_last_success_timestamp_seconds"), ["{scope=\"images\"} 100.0"]);
    let passes = samples(&metrics, "kubegc_passes_total");
    for result in ["succeeded", "failed"] {
        assert!(passes.contains(&format!("{{scope=\"images\",result=\"{result}\"}} 1")), "{passes:?}");
    }
    assert!(samples(&metrics, "kubegc_reclaimed_bytes_total").contains(&"{kind=\"image\"} 40".to_owned()));
    assert_eq!(samples(&metrics, "kubegc_pass_duration_seconds_sum"), ["{scope=\"images\"} 1.5"]);
}

#[test]
fn a_plan_replaces_earlier_samples_of_its_kinds() {
    let (metrics, snapshot) = (AgentMetrics::default(), full_disk());
    metrics.planned(Scope::All, &decide(&snapshot, &crate::plan::Policy::default(), Scope::All));
    let containers =
        |name| samples(&metrics, name).into_iter().filter(|it| it.contains("container")).collect::<Vec<_>>();
    let before = containers("kubegc_planned_objects");
    assert!(before.contains(&"{kind=\"container\",reason=\"pod_deleted\"} 1.0".to_owned()), "{before:?}");
    assert!(
        containers("kubegc_kept_objects")
            .contains(&"{kind=\"container\",reason=\"running\",by=\"rule\"} 3.0".to_owned())
    );
    assert!(
        containers("kubegc_kept_objects")
            .contains(&"{kind=\"container\",reason=\"maybe_starting\",by=\"guard\"} 1.0".to_owned())
    );
    let none = Snapshot { images: Seen::Seen(Vec::new()), ..snapshot };
    metrics.planned(Scope::Images, &decide(&none, &crate::plan::Policy::default(), Scope::Images));
    assert_eq!(containers("kubegc_planned_objects"), before);
    let reclaimable = samples(&metrics, "kubegc_reclaimable_bytes");
    assert!(reclaimable.contains(&"{kind=\"image\"} 0.0".to_owned()), "{reclaimable:?}");
}

#[test]
fn available_file_systems_are_shown_with_their_thresholds() {
    let metrics = AgentMetrics::default();
    let disk = |inodes: Option<u64>| FileSystem {
        capacity_bytes: 1000,
        available_bytes: 400,
        inodes,
        inodes_free: inodes.map(|_| 30),
        ..FileSystem::default()
    };
    let found = [(DiskUse::Images, disk(Some(100))), (DiskUse::Logs, disk(None))];
    let found = found.map(|(of, file_system)| NodeDisk { holds: vec![of], file_system });
    let show = |found: &[NodeDisk], policy: &Policy| {
        metrics.disks(&found.iter().map(|disk| DiskState::new(disk.clone(), policy)).collect::<Vec<_>>());
    };
    let mut policy = Policy::default();
    show(&found, &policy);
    let of = |filesystem, value| format!("{{filesystem=\"{filesystem}\"}} {value}");
    assert_eq!(samples(&metrics, "kubegc_filesystem_capacity_bytes"), [of("images", "1000.0"), of("logs", "1000.0")]);
    assert_eq!(samples(&metrics, "kubegc_filesystem_used_bytes"), [of("images", "600.0"), of("logs", "600.0")]);
    assert_eq!(samples(&metrics, "kubegc_filesystem_inodes"), [of("images", "100.0")]);
    assert_eq!(samples(&metrics, "kubegc_filesystem_inodes_used"), [of("images", "70.0")]);
    let at =
        |filesystem, threshold, value| format!("{{filesystem=\"{filesystem}\",threshold=\"{threshold}\"}} {value}");
    let (high, low) = (at("images", "high", "0.85"), at("images", "low", "0.8"));
    assert_eq!(samples(&metrics, "kubegc_filesystem_threshold_ratio"), [&*high, &low]);
    policy.pressure = PressurePolicy { free_bytes: 100, free_percent: 5, free_inodes_percent: 4 };
    show(&found, &policy);
    let (images, logs) = (at("images", "pressure", "0.9"), at("logs", "pressure", "0.9"));
    assert_eq!(samples(&metrics, "kubegc_filesystem_threshold_ratio"), [&*high, &low, &images, &logs]);
    assert_eq!(samples(&metrics, "kubegc_filesystem_inodes_threshold_ratio"), [at("images", "pressure", "0.96")]);
    show(&found[1..], &policy);
    assert_eq!(samples(&metrics, "kubegc_filesystem_used_bytes"), [of("logs", "600.0")]);
}

/// The sizes in plans are those that the runtime reports, and 0 below the threshold.
#[test]
fn what_images_hold_is_reclaimable_needed_or_not() {
    let (metrics, snapshot) = (AgentMetrics::default(), full_disk());
    let plan = decide(&snapshot, &Policy::default(), Scope::All);
    let account = json!({
        "kind": "DiskAccount", "version": 1, "taken_at": "2026-11-21T12:00:00Z", "node": "", "used_bytes": 0,
        "used_inodes": null, "categories": [], "reclaimable_bytes": 7, "images": [], "shared": [], "writable_layers": [],
        "others": [], "missing": [], "disk": { "mountpoint": "/i", "capacity_bytes": 100, "available_bytes": 10 },
    });
    let disk = FileSystem { capacity_bytes: 100, available_bytes: 10, ..FileSystem::default() };
    let disk = DiskState::new(NodeDisk { holds: vec![DiskUse::Images], file_system: disk }, &Policy::default());
    let forecast = Forecast { bytes_per_hour: 1, most_bytes_per_hour: 1, ..Forecast::default() };
    let disk = DiskState { eviction_below_bytes: Some(5), forecast: Some(forecast), ..disk };
    metrics.account(&serde_json::from_value(account).unwrap(), &[disk]);
    let left = samples(&metrics, "kubegc_filesystem_time_left_seconds");
    assert_eq!(left, ["{filesystem=\"images\",limit=\"eviction_after_collection\"} 43200.0"], "10 + 7 - 5 bytes");
    metrics.planned(Scope::All, &plan);
    let reclaimable = samples(&metrics, "kubegc_reclaimable_bytes");
    assert!(reclaimable.contains(&"{kind=\"image\"} 7.0".to_owned()), "{reclaimable:?}");
    assert_eq!(samples(&metrics, "kubegc_shortfall_bytes"), [" 3.0"], "10 were needed");
}

#[test]
fn a_forecast_is_a_growth_and_the_time_until_each_limit() {
    let left = TimeLeft { seconds: 7200, ..TimeLeft::default() };
    let forecast = Forecast { bytes_per_hour: -7200, eviction: Some(left), ..Forecast::default() };
    let disk = NodeDisk { holds: vec![DiskUse::Logs], ..NodeDisk::default() };
    let metrics = AgentMetrics::default();
    metrics.disks(&[DiskState { disk, forecast: Some(forecast), ..DiskState::default() }]);
    let growth = samples(&metrics, "kubegc_filesystem_growth_bytes_per_second");
    assert_eq!(growth, ["{filesystem=\"logs\"} -2.0"]);
    let left = samples(&metrics, "kubegc_filesystem_time_left_seconds");
    assert_eq!(left, ["{filesystem=\"logs\",limit=\"eviction\"} 7200.0"]);
    metrics.disks(&[]);
    assert!(samples(&metrics, "kubegc_filesystem_time_left_seconds").is_empty());
}

#[test]
fn an_image_that_was_pulled_again_counts_by_the_reason_of_its_removal() {
    let metrics = AgentMetrics::default();
    for (reason, bytes) in [("age", 5), ("age", 7), ("a reason of a later version", 9)] {
        metrics.pulled_again(&RemovedImage { reason: reason.to_owned(), bytes, ..RemovedImage::default() });
    }
    let count = |name: &str| -> Vec<_> {
        samples(&metrics, name).into_iter().filter(|sample| !sample.ends_with(" 0")).collect()
    };
    assert_eq!(count("kubegc_images_pulled_again_total"), ["{reason=\"age\"} 2"]);
    assert_eq!(count("kubegc_images_pulled_again_bytes_total"), ["{reason=\"age\"} 12"]);
    assert_eq!(samples(&metrics, "kubegc_images_pulled_again_total").len(), 7);
}

#[test]
fn an_in_memory_store_is_not_writable() {
    let metrics = AgentMetrics::default();
    metrics.store(Some(4096));
    assert_eq!(samples(&metrics, "kubegc_store_size_bytes"), [" 4096.0"]);
    metrics.store(None);
    assert_eq!(samples(&metrics, "kubegc_store_writable"), [" 0.0"]);
    assert_eq!(samples(&metrics, "kubegc_store_size_bytes"), [""; 0]);
}

/// Otherwise the alert about them could not fire.
#[test]
fn without_pod_list_each_configured_source_is_incomplete() {
    let metrics = AgentMetrics::default();
    metrics.in_force("collect", "safe", [PodSourceName::Auto].into_iter());
    let complete = || samples(&metrics, "kubegc_pod_source_complete");
    assert_eq!(complete(), ["{source=\"auto\"} 0.0"], "before the first pass");
    let snapshot = Snapshot { pods: Seen::NotSeen("no pod source available".to_owned()), ..full_disk() };
    metrics.planned(Scope::All, &decide(&snapshot, &crate::plan::Policy::default(), Scope::All));
    assert_eq!(complete(), ["{source=\"auto\"} 0.0"]);
    metrics.planned(Scope::All, &decide(&full_disk(), &crate::plan::Policy::default(), Scope::All));
    let of_lists = complete();
    assert_eq!(of_lists, ["{source=\"auto\"} 1.0"]);
    metrics.in_force("observe", "safe", [PodSourceName::Auto].into_iter());
    assert_eq!(complete(), of_lists, "the sources are the same");
    metrics.in_force("collect", "safe", [PodSourceName::None].into_iter());
    assert_eq!(complete(), ["{source=\"none\"} 0.0"], "also without any source");
}

/// A label that holds a name would add a series for each object of a node.
#[test]
fn no_sample_contains_the_name_of_an_object() {
    let (metrics, snapshot) = (AgentMetrics::default(), full_disk());
    let plan = decide(&snapshot, &crate::plan::Policy::default(), Scope::All);
    metrics.observed(&snapshot);
    metrics.planned(Scope::All, &plan);
    for action in &plan.actions {
        let removed = json!({ "action": action, "outcome": "removed" });
        metrics.outcome(&serde_json::from_value(removed).unwrap());
    }
    let text = metrics.text(Exposition::OpenMetrics);
    for word in ["shop", "registry", "sha256", "/var", "worker", "migrate"] {
        let is_sample = |line: &&str| !line.starts_with('#') && line.contains(word);
        assert_eq!(text.lines().find(is_sample), None, "{word}");
    }
}

/// A tenant chooses the names of namespaces, so their number is bounded, and they are text.
#[test]
fn the_largest_namespaces_have_names_and_the_others_are_one() {
    let metrics = AgentMetrics::default();
    let space = |bytes| Space { volume_bytes: bytes, bytes, ..Space::default() };
    let namespace = |name: String, bytes| NamespaceSpace { namespace: name, pods: 1, space: space(bytes) };
    let long = namespace("x".repeat(64), 5000);
    let odd = namespace("a\"b\n".to_owned(), 4000);
    let many = (0..30).map(|n| namespace(format!("ns-{n}"), 100 - n));
    let unknown = namespace(String::new(), 7);
    let all: Vec<_> = [long, odd].into_iter().chain(many).chain([unknown]).collect();
    metrics.contents(&all, &BTreeMap::new());
    let volumes: Vec<_> = samples(&metrics, "kubegc_namespace_bytes")
        .into_iter()
        .filter_map(|sample| Some(sample.strip_prefix("{pod_namespace=\"")?.replace("\",what=\"volumes\"}", "")))
        .filter(|sample| !sample.contains("what"))
        .collect();
    assert_eq!(volumes.len(), 21, "{volumes:?}");
    assert_eq!((&*volumes[0], &*volumes[19]), ("a\\\"b\\n 4000.0", "ns-18 82.0"), "{volumes:?}");
    let rest: u64 = 5000 + 7 + (19..30).map(|n| 100 - n).sum::<u64>();
    assert_eq!(volumes[20], format!(" {rest}.0"));
    metrics.contents(&[], &BTreeMap::new());
    assert_eq!(samples(&metrics, "kubegc_namespace_bytes").len(), 4, "what was before is gone");
}

#[test]
fn what_is_left_over_is_counted_by_kind() {
    let metrics = AgentMetrics::default();
    let usage = DirUsage { bytes: 4096, inodes: 2, at_least: false };
    metrics.contents(&[], &[(LeftoverKind::PodDirectory, (3, usage))].into());
    assert_eq!(samples(&metrics, "kubegc_leftovers"), ["{kind=\"pod_directory\"} 3.0"]);
    assert_eq!(samples(&metrics, "kubegc_leftovers_bytes"), ["{kind=\"pod_directory\"} 4096.0"]);
}

#[test]
fn limits_on_logs_that_are_not_met_are_counted_by_kind() {
    let metrics = AgentMetrics::default();
    let mut plan = decide(&full_disk(), &Policy::default(), Scope::All);
    for (limit, bytes) in [("pod 1MiB", 2 << 20), ("pod 1MiB", 3 << 20), ("node 1GiB", 4)] {
        let limit: LogLimit = limit.parse().unwrap();
        let (of, left) = ("shop/web".to_owned(), crate::plan::FilesLeft::default());
        let note = LogLimitNote { limit, of, bytes, at_least: true, kept: 0, left, most: None, unread: None };
        plan.log_limits.push(note);
    }
    metrics.planned(Scope::Containers, &plan);
    let expected = ["{limit_of=\"namespace\"} 0.0", "{limit_of=\"node\"} 0.0", "{limit_of=\"pod\"} 2.0"];
    let shown = || {
        let mut shown = samples(&metrics, "kubegc_logs_over_limit");
        shown.sort();
        shown
    };
    assert_eq!(shown(), expected);
    metrics.planned(Scope::Images, &decide(&full_disk(), &Policy::default(), Scope::Images));
    assert_eq!(shown(), expected, "a pass over images does not decide logs");
}
