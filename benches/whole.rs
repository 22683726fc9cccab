//! Whole programs: `kubegc plan` on a big node against a bare client that only makes the same list calls, its peak
//! memory, the passes of the service over containers, and its memory when it is idle.
//!
//! `cargo bench --bench whole`. The node is simulated behind a real socket in this process; both programs are processes
//! of their own, run in turn, and the ratio is the median of the pairs.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a benchmark may fail loudly, asks the clock and starts programs"
)]

#[path = "common/figures.rs"]
mod figures;
#[path = "common/on_sim.rs"]
mod on_sim;

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use figures::{is_chosen, median, mib, row};
use hyper_util::rt::TokioIo;
use kubegc::cri::generated as pb;
use kubegc::sim::{Node, Rpc, Sim};
use nix::sys::resource::{UsageWho, getrusage};
use on_sim::kubegc;
use tonic::transport::Endpoint;

const CONTAINERS: usize = 10_000;
const IMAGES: usize = 1_000;
const PAIRS: usize = 11;
const PRESSURES: usize = 9;
const UNUSED: usize = 300;
const PODS: usize = 100;
const FILES: usize = 1_000_000;
const LIMIT: usize = 256 << 20;

/// The parts, each of which can be run alone by its name.
const PARTS: [(&str, fn()); 4] = [("plan", compare), ("pressure", pressure), ("walk", walk), ("store", store)];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("bare") => block_on(list(&args[2])),
        Some("measure") => measure(&args[2..]),
        _ => {
            for (_, run) in PARTS.into_iter().filter(|(part, _)| is_chosen(part)) {
                run();
            }
        }
    }
}

/// The memory that the store of the runtime takes: 1,000 images with 3 snapshots each. `benches/stores.rs` has the time.
fn store() {
    let layers = |image: usize| [format!("base-{image}"), format!("middle-{image}"), format!("top-{image}")];
    let node = (0..IMAGES).fold(Node::new().without_logs().disk(1 << 50, 0), |node, image| {
        let layers = layers(image);
        let layers: Vec<_> = layers.iter().map(|layer| (layer.as_str(), 1 << 20)).collect();
        node.image(&format!("registry.example/store/image-{image}:1"), &layers)
    });
    let sim = Sim::start(node).unwrap();
    let (itself, state) = (std::env::current_exe().unwrap(), sim.dir().join("state/kubegc.db"));
    let peak = |verb: &str| timed(&itself, &kubegc(&sim, &state, &[verb, "-o", "json"])).1;
    let (plan, disk) = (peak("plan"), peak("disk"));
    let [more, plan, disk] = [disk.saturating_sub(plan), plan, disk].map(mib);
    row(
        "peak memory of `disk` beside `plan`, MiB more",
        &format!("{disk:.1} MiB"),
        &format!("{plan:.1} MiB"),
        more,
        2.0,
    );
}

/// Runs both in turn and prints the ratios.
fn compare() {
    let sim = Sim::start(Node::big(CONTAINERS, IMAGES)).unwrap();
    let state = sim.dir().join("state/kubegc.db");
    let itself = std::env::current_exe().unwrap();
    let bare = vec![itself.display().to_string(), "bare".into(), sim.socket().display().to_string()];
    let plan = kubegc(&sim, &state, &["plan", "-o", "json"]);
    // As on a node: the service has read the statuses of the containers.
    let idle_big = idle(&sim, &state);
    let (mut ratios, mut bares, mut plans) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bare_peak, mut plan_peak) = (0, 0);
    for _ in 0..PAIRS {
        let (bare_seconds, peak) = timed(&itself, &bare);
        bare_peak = peak.max(bare_peak);
        let (plan_seconds, peak) = timed(&itself, &plan);
        plan_peak = peak.max(plan_peak);
        ratios.push(plan_seconds / bare_seconds);
        bares.push(bare_seconds);
        plans.push(plan_seconds);
    }
    let bare = median(bares);
    let lists = format!("bare lists: {:.1} ms, {:.1} MiB", bare * 1e3, mib(bare_peak));
    let plan = format!("{:.1} ms, {:.1} MiB", median(plans) * 1e3, mib(plan_peak));
    row("`plan`: 10,000 containers, 1,000 images", &plan, &lists, median(ratios), 1.6);
    let pass = passes(&sim, &state);
    row("a pass of the service, 10,000 containers", &format!("{:.1} ms", pass * 1e3), &lists, pass / bare, 1.5);
    let small = Sim::start(Node::big(100, 10)).unwrap();
    let idle_small = idle(&small, &small.dir().join("state/kubegc.db"));
    for (containers, (all, private), aim) in [(100, idle_small, 2.5), (CONTAINERS, idle_big, 5.0)] {
        row(
            &format!("idle service, {containers} containers, private MiB"),
            &format!("{:.1} MiB", mib(private)),
            "",
            mib(private),
            aim,
        );
        row(
            &format!("idle service, {containers} containers, MiB"),
            &format!("{:.1} MiB", mib(all)),
            "",
            mib(all),
            14.0,
        );
    }
}

/// `kubegc disk` on a node whose pods have a million files in their emptyDirs, beside one whose pods have none.
fn walk() {
    let sim = Sim::start(Node::big(PODS, 10)).unwrap();
    let state = sim.dir().join("state/kubegc.db");
    let (itself, disk) = (std::env::current_exe().unwrap(), tempfile::tempdir().unwrap());
    mount(disk.path(), "mount", &["-t", "tmpfs", "-o", "nr_inodes=2m", "tmpfs"]);
    let mut command = kubegc(&sim, &state, &["disk", "-o", "json"]);
    command.extend(["--set".to_owned(), format!("kubelet_root={}", disk.path().display())]);
    let empty = timed(&itself, &command);
    for pod in 0..PODS {
        let directory = disk.path().join(format!("pods/uid-{pod}/volumes/kubernetes.io~empty-dir/cache"));
        std::fs::create_dir_all(&directory).unwrap();
        (0..FILES / PODS).for_each(|file| std::fs::write(directory.join(file.to_string()), [7]).unwrap());
    }
    let full = timed(&itself, &command);
    mount(disk.path(), "umount", &[]);
    let [(full, full_peak), (empty, empty_peak)] = [full, empty];
    row(
        "`disk`, 1,000,000 files in emptyDirs, seconds",
        &format!("{full:.1} s"),
        &format!("without files: {empty:.1} s"),
        full,
        3.5,
    );
    let more = mib(full_peak.saturating_sub(empty_peak));
    row("its peak memory, MiB more than without files", &format!("{:.1} MiB", mib(full_peak)), "", more, 2.0);
}

fn mount(at: &Path, program: &str, args: &[&str]) {
    assert!(Command::new(program).args(args).arg(at).status().unwrap().success(), "{program}: root is needed");
}

/// The time from the moment at which a disk has less free space than a limit of disk pressure to the first removal, with 300
/// unused images. The disk is a tmpfs that other data fills.
fn pressure() {
    let disk = tempfile::tempdir().unwrap();
    mount(disk.path(), "mount", &["-t", "tmpfs", "-o", "size=64m", "tmpfs"]);
    let times: Vec<_> = (0..PRESSURES).map(|_| first_removal(disk.path())).collect();
    mount(disk.path(), "umount", &[]);
    let longest = times.iter().copied().fold(0.0, f64::max);
    let (median, longest) = (median(times), format!("longest {longest:.2} s"));
    let peer = "the kubelet's eviction manager looks every 10 s";
    row(
        "disk pressure to the first removal, 300 images, seconds",
        &format!("{median:.2} s, {longest}"),
        peer,
        median,
        1.5,
    );
}

fn first_removal(disk: &Path) -> f64 {
    let node = Node::new().without_logs().disk(1 << 30, 0).image_mountpoint(disk);
    let image =
        |node: Node, image| node.image(&format!("registry.example/unused/image-{image}:1"), &[("layer", 1 << 20)]);
    let sim = Sim::start((0..UNUSED).fold(node, image)).unwrap();
    let state = tempfile::tempdir().unwrap();
    let mut words = kubegc(&sim, &state.path().join("kubegc.db"), &["run"]);
    let settings = ["pressure.free_percent=15", "images.min_age=0s", "guards.settle=0s"];
    words.extend(settings.iter().flat_map(|set| ["--set".to_owned(), (*set).to_owned()]));
    let mut service = Command::new(&words[0]).args(&words[1..]).env_clear().stderr(Stdio::piped()).spawn().unwrap();
    let log = std::io::BufReader::new(service.stderr.take().unwrap());
    let mut lines = std::io::BufRead::lines(log).map_while(Result::ok);
    assert_eq!(lines.by_ref().filter(|line| line.contains("pass done")).take(2).count(), 2, "the service ended");
    std::fs::write(disk.join("other"), vec![0; 60 << 20]).unwrap();
    let start = Instant::now();
    while sim.calls_of(Rpc::RemoveImage).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let seconds = start.elapsed().as_secs_f64();
    service.kill().unwrap();
    service.wait().unwrap();
    std::fs::remove_file(disk.join("other")).unwrap();
    seconds
}

/// Runs a command beneath a small process that measures it; seconds and peak bytes.
fn timed(itself: &Path, command: &[String]) -> (f64, u64) {
    let start = Instant::now();
    let output = Command::new(itself).arg("measure").args(command).env_clear().output().unwrap();
    let seconds = start.elapsed().as_secs_f64();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    (seconds, String::from_utf8(output.stdout).unwrap().trim().parse().unwrap())
}

/// Runs a command and prints the peak of its memory in bytes.
fn measure(command: &[String]) {
    let status = Command::new(&command[0]).args(&command[1..]).stdout(Stdio::null()).status().unwrap();
    assert!(status.success());
    println!("{}", getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss() * 1024);
}

/// The memory of a service that has made both its passes and waits, in bytes: all, and what is no file's.
fn idle(sim: &Sim, state: &Path) -> (u64, u64) {
    let words = kubegc(sim, state, &["run"]);
    let mut service = Command::new(&words[0]).args(&words[1..]).env_clear().stderr(Stdio::piped()).spawn().unwrap();
    let log = std::io::BufReader::new(service.stderr.take().unwrap());
    let done =
        std::io::BufRead::lines(log).map_while(Result::ok).filter(|line| line.contains("pass done")).take(2).count();
    assert_eq!(done, 2, "the service ended");
    assert!(!sim.calls_of(Rpc::ListImages).is_empty());
    // After its passes it reads the disks. It is idle when its memory changes by at most 64 KiB in 5 s.
    let (mut before, mut memory) = ((0, 0), figures::memory(service.id()));
    while memory.1.abs_diff(before.1) > 64 << 10 {
        std::thread::sleep(Duration::from_secs(5));
        (before, memory) = (memory, figures::memory(service.id()));
    }
    service.kill().unwrap();
    service.wait().unwrap();
    memory
}

/// The mean duration of a pass over containers in seconds, as the metrics of the service have it, without the first two.
fn passes(sim: &Sim, state: &Path) -> f64 {
    let mut words = kubegc(sim, state, &["run"]);
    words.extend(["--set", "containers.interval=1s", "--set", "metrics.address=127.0.0.1:0"].map(str::to_owned));
    let mut service = Command::new(&words[0]).args(&words[1..]).env_clear().stderr(Stdio::piped()).spawn().unwrap();
    let log = std::io::BufReader::new(service.stderr.take().unwrap());
    let mut lines = std::io::BufRead::lines(log).map_while(Result::ok);
    let serving = lines.find(|line| line.contains("serving metrics and health")).unwrap();
    let address = serving.split("address=").nth(1).unwrap().trim().to_owned();
    let mut ends = lines.filter(|line| line.contains("pass done") && line.contains("scope=containers"));
    ends.nth(1).unwrap();
    let before = pass_durations(&address);
    ends.nth(PAIRS - 1).unwrap();
    let after = pass_durations(&address);
    service.kill().unwrap();
    service.wait().unwrap();
    (after.0 - before.0) / (after.1 - before.1)
}

/// The sum of the durations of passes over containers, in seconds, and their number.
fn pass_durations(address: &str) -> (f64, f64) {
    let (mut stream, mut text) = (std::net::TcpStream::connect(address).unwrap(), String::new());
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: kubegc\r\n\r\n").unwrap();
    stream.read_to_string(&mut text).unwrap();
    let value = |name: &str| {
        let begin = format!("kubegc_pass_duration_seconds_{name}{{scope=\"containers\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&begin)).unwrap().trim().parse().unwrap()
    };
    (value("sum"), value("count"))
}

/// The bare client: the three lists, decoded and counted.
async fn list(socket: &str) {
    let path = socket.to_owned();
    let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(tower::service_fn(move |_| {
        let path = path.clone();
        async move { tokio::net::UnixStream::connect(path).await.map(TokioIo::new) }
    }));
    let mut runtime =
        pb::runtime_service_client::RuntimeServiceClient::new(channel.clone()).max_decoding_message_size(LIMIT);
    let mut images = pb::image_service_client::ImageServiceClient::new(channel).max_decoding_message_size(LIMIT);
    let listed = images.list_images(pb::ListImagesRequest::default()).await.unwrap().into_inner().images.len();
    let sandboxes =
        runtime.list_pod_sandbox(pb::ListPodSandboxRequest::default()).await.unwrap().into_inner().items.len();
    let containers = runtime.list_containers(pb::ListContainersRequest::default()).await.unwrap();
    println!("{} {sandboxes} {listed}", containers.into_inner().containers.len());
}

fn block_on(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
}
