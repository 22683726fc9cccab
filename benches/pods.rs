//! What the watch of pods costs: the memory of the idle service with pods from an API server, against the same service
//! without.
//!
//! `cargo bench --bench pods`. Node and API server are simulated in this process; the service is a process of its own. The
//! pods are as large as those of a cluster, some 15 KB each. kubegc needs little of that.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a benchmark may fail loudly and starts programs"
)]

#[path = "common/figures.rs"]
mod figures;
#[path = "common/program.rs"]
mod program;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use figures::{mib, row};
use kubegc::sim::{Node, Sim};
use serde_json::{Value, json};

const PODS: usize = 500;
const RUNS: usize = 5;
/// The longest wait for the watch, which begins after the list that the passes use.
const SOON: Duration = Duration::from_secs(30);

/// An API server with one node.
struct Server {
    port: u16,
    watches: Arc<AtomicUsize>,
    bytes: usize,
}

/// The memory of a service that has made both its passes, in bytes.
#[derive(Clone, Copy)]
struct Memory {
    now: u64,
    /// Of it, what is no file's: the rest is code that was run, which the kernel may drop.
    own: u64,
    peak: u64,
}

fn main() {
    let without = measured(None);
    println!("idle service, pods.source = none: {}", without.text());
    let [empty, full] = [0, PODS].map(|pods| {
        let server = Server::start(pods);
        let with = measured(Some(&server));
        println!("kube-api, {pods} pods ({:.1} MiB JSON): {}", mib(server.bytes as u64), with.text());
        with
    });
    println!("the connection and its code: {:+.2} MiB", mib(empty.now) - mib(without.now));
    let more = mib(full.now) - mib(empty.now);
    row("idle service, 500 pods of the API server, MiB more than without", &full.text(), &empty.text(), more, 2.0);
}

/// The median of some runs; the highest peak.
fn measured(server: Option<&Server>) -> Memory {
    let mut runs: Vec<_> = (0..RUNS).map(|_| idle(server)).collect();
    runs.sort_by_key(|memory| memory.now);
    Memory { peak: runs.iter().map(|memory| memory.peak).max().unwrap(), ..runs[RUNS / 2] }
}

/// Starts a service on an empty node, waits for both its passes, and looks at its memory.
fn idle(server: Option<&Server>) -> Memory {
    let sim = Sim::start(Node::big(10, 1)).unwrap();
    let watches = server.map(|server| server.watches.load(Ordering::SeqCst));
    let mut service = service(&sim, server);
    let log = BufReader::new(service.stderr.take().unwrap());
    let done = log.lines().map_while(Result::ok).filter(|line| line.contains("pass done")).take(2).count();
    assert_eq!(done, 2, "the service ended");
    if let Some(server) = server {
        let begun = Instant::now();
        while Some(server.watches.load(Ordering::SeqCst)) <= watches {
            assert!(begun.elapsed() < SOON, "the service does not watch");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", service.id())).unwrap();
    service.kill().unwrap();
    service.wait().unwrap();
    Memory { now: field(&status, "VmRSS"), own: field(&status, "RssAnon"), peak: field(&status, "VmHWM") }
}

fn service(sim: &Sim, server: Option<&Server>) -> std::process::Child {
    let roots = sim.log_roots();
    let mut command = Command::new(program::kubegc());
    command.arg("run").env_clear().stderr(Stdio::piped());
    for set in [
        format!("runtime.endpoint={}", sim.socket().display()),
        format!("state.path={}", sim.dir().join("state/kubegc.db").display()),
        format!("state.lock={}", sim.dir().join("run/kubegc.lock").display()),
        format!("logs.pods_root={}", roots.pods.display()),
        format!("logs.containers_root={}", roots.containers.display()),
        format!("kubelet_root={}", sim.dir().join("kubelet").display()),
        "images.high_threshold_percent=100".to_owned(),
        "node=node-1".to_owned(),
        format!("pods.source={}", if server.is_some() { "kube-api" } else { "none" }),
    ] {
        command.args(["--set", &set]);
    }
    if let Some(server) = server {
        let kubeconfig = sim.dir().join("kubeconfig");
        std::fs::write(&kubeconfig, server.kubeconfig()).unwrap();
        command.arg("--kubeconfig").arg(kubeconfig);
    }
    command.spawn().unwrap()
}

fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

// === impl Memory ===

impl Memory {
    fn text(self) -> String {
        format!("{:>6.2} MiB, of it own {:>5.2}, peak {:>6.2} MiB", mib(self.now), mib(self.own), mib(self.peak))
    }
}

// === impl Server ===

impl Server {
    fn start(pods: usize) -> Self {
        let pods: Arc<Vec<_>> = Arc::new((0..pods).map(pod).collect());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let bytes = page(&pods, "GET /").len();
        let (port, watches) = (listener.local_addr().unwrap().port(), Arc::default());
        let counted = Arc::clone(&watches);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (pods, watches) = (Arc::clone(&pods), Arc::clone(&counted));
                std::thread::spawn(move || serve(&stream.unwrap(), &pods, &watches));
            }
        });
        Self { port, watches, bytes }
    }

    fn kubeconfig(&self) -> String {
        format!(
            "{{current-context: x, contexts: [{{name: x, context: {{cluster: c}}}}], \
             clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{}'}}}}]}}",
            self.port
        )
    }
}

/// Answers the requests on one connection. A watch reports one change and then none.
fn serve(stream: &TcpStream, pods: &[Value], watches: &AtomicUsize) {
    let mut head = BufReader::new(stream).lines();
    while let Some(Ok(request)) = head.next() {
        while head.next().unwrap().is_ok_and(|line| !line.is_empty()) {}
        let mut answer = stream;
        if request.contains("watch=true") {
            let event = json!({"type": "MODIFIED", "object": pod(0)}).to_string() + "\n";
            let chunk = format!("{:x}\r\n{event}\r\n", event.len());
            write!(answer, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunk}").unwrap();
            watches.fetch_add(1, Ordering::SeqCst);
            continue;
        }
        let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-1","uid":"n1","resourceVersion":"1"}}"#
            .to_owned();
        let body = if request.contains("/nodes/") { node } else { page(pods, &request) };
        write!(answer, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    }
}

/// The page of the list that a request asks for with `limit` and `continue`.
fn page(pods: &[Value], request: &str) -> String {
    let query = request.split([' ', '&', '?']);
    let number = |name: &str| query.clone().find_map(|pair| pair.strip_prefix(name)?.parse::<usize>().ok());
    let from = number("continue=").unwrap_or(0);
    let to = number("limit=").map_or(pods.len(), |limit| pods.len().min(from + limit));
    let next = if to < pods.len() { to.to_string() } else { String::new() };
    let metadata = json!({"resourceVersion": "1", "continue": next, "remainingItemCount": pods.len() - to});
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": &pods[from..to]}).to_string()
}

/// A pod with all that a cluster adds to it.
fn pod(number: usize) -> Value {
    let name = format!("deployment-with-a-name-{number:04}-7d9f8b6c5d-x2x4z");
    let containers: Vec<_> = ["app", "sidecar", "proxy"].iter().map(|name| container(name, number)).collect();
    let statuses: Vec<_> = ["app", "sidecar", "proxy"].iter().map(|name| status(name, number)).collect();
    json!({
        "metadata": {
            "uid": format!("{number:08}-1111-2222-3333-444444444444"),
            "namespace": format!("namespace-{}", number % 20),
            "name": name,
            "resourceVersion": (1000 + number).to_string(),
            "labels": {"app": "x".repeat(40), "pod-template-hash": "7d9f8b6c5d"},
            "annotations": {"last-applied": "{\"x\":\"".to_owned() + &"y".repeat(1500) + "\"}", "checksum": "z".repeat(64)},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "deployment-with-a-name-7d9f8b6c5d"}],
            "managedFields": managed(),
        },
        "spec": {
            "nodeName": "node-1",
            "containers": containers,
            "initContainers": [container("init", number)],
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        },
        "status": {
            "phase": "Running",
            "conditions": (0..5).map(|_| json!({"type": "Ready", "status": "True", "lastProbeTime": null})).collect::<Vec<_>>(),
            "containerStatuses": statuses,
        },
    })
}

fn container(name: &str, number: usize) -> Value {
    let env: Vec<_> =
        (0..12).map(|at| json!({"name": format!("SOME_LONG_VARIABLE_NAME_{at}"), "value": "v".repeat(60)})).collect();
    json!({
        "name": name,
        "image": format!("registry.example.com/team/project/{name}-{}:v1.2.{number}", number % 50),
        "env": env,
        "resources": {"limits": {"cpu": "500m", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10},
    })
}

fn status(name: &str, number: usize) -> Value {
    json!({
        "name": name,
        "image": format!("registry.example.com/team/project/{name}-{}:v1.2.{number}", number % 50),
        "imageID": format!("registry.example.com/team/project/{name}@sha256:{}", "a".repeat(64)),
        "containerID": format!("containerd://{}", "b".repeat(64)),
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    })
}

fn managed() -> Value {
    let fields: serde_json::Map<_, _> =
        (0..90).map(|at| (format!("f:field-with-some-name-{at}"), json!({".": {}, "f:value": {}}))).collect();
    json!([{"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": fields}])
}
