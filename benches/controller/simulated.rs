//! An API server with many objects: it lists them page by page, its watches show nothing, and each live read succeeds.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The resources, with their share of all objects in 20ths, and how many of them each object of the one before owns.
const RESOURCES: [Resource; 4] = [
    Resource { plural: "deployments", kind: "Deployment", version: "apps/v1", share: 1, owned: None },
    Resource { plural: "replicasets", kind: "ReplicaSet", version: "apps/v1", share: 3, owned: Some((0, 3)) },
    Resource { plural: "pods", kind: "Pod", version: "v1", share: 12, owned: Some((1, 4)) },
    Resource { plural: "configmaps", kind: "ConfigMap", version: "v1", share: 4, owned: None },
];

struct Resource {
    plural: &'static str,
    kind: &'static str,
    version: &'static str,
    share: usize,
    /// The resource of the owners, and how many objects one of them owns.
    owned: Option<(usize, usize)>,
}

/// A running server. It ends with the process.
pub struct Server {
    port: u16,
    counts: Arc<Counts>,
}

/// The calls so far.
#[derive(Default)]
struct Counts {
    /// All but watches.
    calls: AtomicUsize,
    /// Live reads.
    reads: AtomicUsize,
}

// === impl Server ===

impl Server {
    /// Starts a server with so many objects.
    pub fn start(objects: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, counts) = (listener.local_addr().unwrap().port(), Arc::<Counts>::default());
        let counted = Arc::clone(&counts);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let counts = Arc::clone(&counted);
                std::thread::spawn(move || serve(&stream.unwrap(), objects, &counts));
            }
        });
        Self { port, counts }
    }

    /// Returns the number of live reads so far.
    pub fn reads(&self) -> usize {
        self.counts.reads.load(Ordering::SeqCst)
    }

    /// Returns the number of all calls so far, without watches.
    pub fn calls(&self) -> usize {
        self.counts.calls.load(Ordering::SeqCst)
    }

    /// Returns a kubeconfig for it.
    pub fn kubeconfig(&self) -> String {
        format!(
            "{{current-context: x, contexts: [{{name: x, context: {{cluster: c}}}}], \
             clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{}'}}}}]}}",
            self.port
        )
    }
}

/// Answers the requests on one connection.
fn serve(stream: &TcpStream, objects: usize, counts: &Counts) {
    let mut head = BufReader::new(stream).lines();
    while let Some(Ok(request)) = head.next() {
        while head.next().unwrap().is_ok_and(|line| !line.is_empty()) {}
        let mut answer = stream;
        let sent = if request.contains("watch=true") {
            write!(answer, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        } else {
            let body = body(&request, objects, counts);
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
            answer.write_all(head.as_bytes()).and_then(|()| answer.write_all(body.as_bytes()))
        };
        if sent.is_err() {
            return;
        }
    }
}

fn body(request: &str, objects: usize, counts: &Counts) -> String {
    counts.calls.fetch_add(1, Ordering::SeqCst);
    let target = request.split(' ').nth(1).unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match path {
        "/readyz" => "ok".to_owned(),
        "/api" => r#"{"kind":"APIVersions","versions":["v1"]}"#.to_owned(),
        "/apis" => {
            let version = r#"{"groupVersion":"apps/v1","version":"v1"}"#;
            let group = format!(r#"{{"name":"apps","versions":[{version}],"preferredVersion":{version}}}"#);
            format!(r#"{{"kind":"APIGroupList","apiVersion":"v1","groups":[{group}]}}"#)
        }
        "/api/v1" => served("v1"),
        "/apis/apps/v1" => served("apps/v1"),
        _ => {
            let last = path.rsplit('/').next().unwrap();
            match RESOURCES.iter().position(|resource| resource.plural == last) {
                Some(resource) => page(resource, query, objects),
                None => read(last, counts),
            }
        }
    }
}

fn served(version: &str) -> String {
    let resources = RESOURCES.iter().filter(|resource| resource.version == version);
    let entry = |resource: &Resource| {
        let verbs = r#"["delete","get","list","patch","watch"]"#;
        format!(r#"{{"name":"{}","namespaced":true,"kind":"{}","verbs":{verbs}}}"#, resource.plural, resource.kind)
    };
    let entries: Vec<_> = resources.map(entry).collect();
    let entries = entries.join(",");
    format!(r#"{{"kind":"APIResourceList","groupVersion":"{version}","resources":[{entries}]}}"#)
}

/// Returns the page of a list that `limit` and `continue` select.
fn page(resource: usize, query: &str, objects: usize) -> String {
    let number = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.parse::<usize>().ok());
    let all = objects / 20 * RESOURCES[resource].share;
    let from = number("continue=").unwrap_or(0);
    let to = number("limit=").map_or(all, |limit| all.min(from + limit));
    let next = if to < all { to.to_string() } else { String::new() };
    let head = format!(r#""resourceVersion":"1","continue":"{next}","remainingItemCount":{}"#, all - to);
    let mut page = format!(
        r#"{{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{{{head}}},"items":["#
    );
    for at in from..to {
        page.push_str(if at == from { "" } else { "," });
        write!(page, "{}", object(resource, at)).unwrap();
    }
    page + "]}"
}

/// Answers a live read of the object with this name.
fn read(name: &str, counts: &Counts) -> String {
    counts.reads.fetch_add(1, Ordering::SeqCst);
    let (kind, number) = name.split_once("-with-a-name-").unwrap();
    let resource = RESOURCES.iter().position(|resource| resource.plural == kind).unwrap();
    object(resource, number.split('-').next().unwrap().parse().unwrap())
}

/// Returns the metadata of an object, with what a cluster adds to it.
fn object(resource: usize, at: usize) -> String {
    let owners = RESOURCES[resource].owned.map_or(String::new(), |(owner, count)| {
        let Resource { kind, version, .. } = RESOURCES[owner];
        let (name, uid) = (name(owner, at / count), uid(owner, at / count));
        format!(
            r#","ownerReferences":[{{"apiVersion":"{version}","kind":"{kind}","name":"{name}","uid":"{uid}","controller":true,"blockOwnerDeletion":true}}]"#
        )
    });
    let managed = r#"[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:key":{}}}}]"#;
    format!(
        r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{{"name":"{}","namespace":"namespace-{}","uid":"{}","resourceVersion":"{}","creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"app":"service"}}{owners},"managedFields":{managed}}}}}"#,
        name(resource, at),
        namespace(resource, at),
        uid(resource, at),
        at + 1,
    )
}

fn name(resource: usize, at: usize) -> String {
    format!("{}-with-a-name-{at:06}-7d9f8b6c5d", RESOURCES[resource].plural)
}

/// The objects of an owner are in its namespace.
fn namespace(resource: usize, at: usize) -> usize {
    match RESOURCES[resource].owned {
        Some((owner, count)) => namespace(owner, at / count),
        None => at % 1000,
    }
}

fn uid(resource: usize, at: usize) -> String {
    format!("{:08x}-1111-4222-8333-{at:012x}", at.wrapping_mul(0x9E37_79B1) & 0xffff_fff0 | resource)
}
