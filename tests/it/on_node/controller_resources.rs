//! What `kubegc controller run` needs of the machine, on a real API server: connections, and memory for the objects that one
//! tenant can create.

use std::collections::HashSet;
use std::path::Path;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};

use crate::rig::{Daemon, NodeRig, becomes_true};

/// Objects of the tenant, and the owner references of each: about as many as the API server stores in one object.
const OBJECTS: usize = 42;
const REFERENCES: usize = 20_000;
/// Far less than the limit of the manifest, 512 MiB: other tenants have objects too.
const LIMIT_KIB: u64 = 128 << 10;
/// Control planes on one machine, and the most memory of each that no other process has.
const PLANES: usize = 20;
const PRIVATE_KIB: u64 = 16 << 10;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-kills: it takes four minutes"]
async fn run_needs_few_connections_and_little_memory_for_one_tenant() {
    let node = NodeRig::start_api_alone().await;
    let run = node.controller("run", &["--owners-only", "--kube-api-qps", "0"]);
    collects(&node, &run, "first").await;
    // One for calls, and one for up to 80 watches. A server of 1.36 has some 60 resources.
    let connections = tcp_connections(run.id());
    assert!((1..=3).contains(&connections), "{connections} connections");

    let maps: Api<ConfigMap> = Api::namespaced(node.kube(), "default");
    for number in 0..OBJECTS {
        let owners = (0..REFERENCES).map(|owner| owner_of("x", &format!("{number}-{owner}")));
        create(&maps, &format!("many-{number}"), owners.collect()).await;
    }
    let named = async || run.log().matches("owner references more than are read").count() == OBJECTS;
    assert!(becomes_true(named).await, "each object is named once: {}", run.log());
    collects(&node, &run, "second").await;
    let peak = peak_kib(run.id());
    assert!(peak < LIMIT_KIB, "{peak} KiB");
    println!("{connections} connections, {peak} KiB at most");
    let left = maps.list_metadata(&ListParams::default()).await.unwrap().items;
    assert_eq!(left.len(), OBJECTS, "nothing is decided about them");
}

/// As many units `kubegc-controller@.service` on one machine. Their program is in memory once.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-kills: it starts twenty processes"]
async fn twenty_planes_on_one_machine_need_little_memory() {
    let node = NodeRig::start_api_alone().await;
    let planes: Vec<_> =
        (0..PLANES).map(|_| node.controller("run", &["--namespaces", "--set=controller.address="])).collect();
    for plane in &planes {
        assert!(becomes_true(async || plane.log().contains("collecting objects=")).await, "{}", plane.log());
    }
    collects(&node, planes.first().unwrap(), "garbage").await;
    let private: Vec<_> = planes.iter().map(|plane| private_kib(plane.id())).collect();
    let (most, all) = (private.iter().max().unwrap(), private.iter().sum::<u64>());
    println!("{PLANES} planes: {all} KiB that no other process has, at most {most} KiB each");
    assert!(*most < PRIVATE_KIB, "{private:?}");
}

/// Waits until garbage in another namespace is deleted.
async fn collects(node: &NodeRig, run: &Daemon, name: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(node.kube(), "kube-public");
    create(&maps, name, vec![owner_of("absent", "00000000-0000-4000-8000-000000000001")]).await;
    let is_deleted = async || maps.get_metadata_opt(name).await.unwrap().is_none();
    assert!(becomes_true(is_deleted).await, "{}", run.log());
}

fn owner_of(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid})
}

async fn create(maps: &Api<ConfigMap>, name: &str, owners: Vec<Value>) {
    let object = json!({"metadata": {"name": name, "ownerReferences": owners}});
    maps.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

/// Returns how many TCP connections of a process are established.
fn tcp_connections(pid: u32) -> usize {
    let of = Path::new("/proc").join(pid.to_string());
    let files = std::fs::read_dir(of.join("fd")).unwrap();
    let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    let inode =
        |target: std::path::PathBuf| Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned());
    let ours: HashSet<_> = targets.filter_map(inode).collect();
    let all = ["net/tcp", "net/tcp6"].map(|table| std::fs::read_to_string(of.join(table)).unwrap_or_default()).concat();
    let is_ours = |line: &&str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields.get(3) == Some(&"01") && fields.get(9).is_some_and(|inode| ours.contains(*inode))
    };
    all.lines().filter(is_ours).count()
}

fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.split_whitespace().next().unwrap().parse().unwrap()
}

fn private_kib(pid: u32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let kib = |line: &str| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap();
    rollup.lines().filter(|line| line.starts_with("Private_")).map(kib).sum()
}
