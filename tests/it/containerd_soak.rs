//! The service on a real runtime while pods and images come and go: what it needs stays constant.
//!
//! It takes 45 seconds in `make test` and ten minutes in `make test-soak`. CONTRIBUTING.md has the command for an hour with
//! the optimized program.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::agent::private_kib;
use crate::rig::{Daemon, Image, Layer, Pod, Rig, Version, becomes_true};

/// How long it takes, unless the variable `KUBEGC_SOAK_SECONDS` is set.
const LASTS: Duration = Duration::from_secs(45);
const HOUR: Duration = Duration::from_hours(1);
/// What may be added in less than an hour: the page cache of SQLite, at most 512 KiB, still fills.
const WARM_UP_KIB: u64 = 512;
/// A pass every second, which collects everything at once.
const OFTEN: [&str; 10] = [
    "--set=containers.interval=1s",
    "--set=images.interval=1s",
    "--set=pods.source=runtime",
    "--set=images.all_unused=true",
    "--set=images.min_age=0s",
    "--set=guards.settle=0s",
    "--set=guards.gone_after=0s",
    "--set=guards.sandbox_grace=0s",
    "--set=images.keep=docker.io/library/app:1",
    "--set=guards.fall_hold=0s",
];
/// Pods that exist at once.
const PODS: usize = 5;

/// What the process needs at one moment.
struct Sample {
    private_kib: u64,
    descriptors: usize,
}

#[tokio::test]
async fn in_a_soak_private_memory_and_descriptors_stay_constant() {
    let lasts = std::env::var("KUBEGC_SOAK_SECONDS").map_or(LASTS, |text| Duration::from_secs(text.parse().unwrap()));
    let rig = Rig::start(Version::V2).await;
    let service = rig.daemon(&OFTEN);
    let (start, mut samples, mut pods) = (Instant::now(), Vec::new(), Vec::new());
    while start.elapsed() < lasts || samples.len() < 4 {
        come_and_go(&rig, samples.len(), &mut pods).await;
        samples.push(Sample::of(&service));
    }
    let share = service.cpu_time().as_secs_f64() / start.elapsed().as_secs_f64();
    for pod in &pods {
        pod.stop_sandbox().await;
    }
    let all_removed = async || rig.list_sandboxes().await.is_empty() && rig.list_containers().await.is_empty();
    assert!(becomes_true(all_removed).await, "{}", service.log());
    let passes = service.log().matches("pass done").count();
    println!("{} rounds, {passes} passes, {:.1} % of a core", samples.len(), share * 100.0);

    let [_, second, _, last] = quarters(&samples);
    println!("private memory: {} KiB in the second quarter, {} KiB in the last", second.private_kib, last.private_kib);
    println!("descriptors: {} in the second quarter, {} in the last", second.descriptors, last.descriptors);
    let warms_up = if lasts < HOUR { WARM_UP_KIB } else { 0 };
    assert!(last.private_kib <= second.private_kib * 105 / 100 + warms_up);
    assert_eq!(last.descriptors, second.descriptors);
}

/// Creates a pod with an exited container and an image that is used by none, and ends the oldest pod.
async fn come_and_go<'a>(rig: &'a Rig, round: usize, pods: &mut Vec<Pod<'a>>) {
    let (name, uid) = (format!("soak-{round}"), format!("uid-soak-{round}"));
    let pod = rig.pod("default", &name, &uid).await;
    pod.running("app").await;
    pod.exited("init", 0).await;
    pods.push(pod);
    if round.is_multiple_of(10) {
        let tag = format!("docker.io/library/soak:{round}");
        rig.import(&[Image::new(&[&tag], &[Layer::busybox()])]).await;
    }
    if pods.len() > PODS {
        pods.remove(0).stop_sandbox().await;
    }
}

/// Returns the medians of each quarter of the rounds. A round on a busy machine can last longer than a quarter of the time.
fn quarters(samples: &[Sample]) -> [Sample; 4] {
    [0, 1, 2, 3].map(|quarter| {
        let of = &samples[samples.len() * quarter / 4..samples.len() * (quarter + 1) / 4];
        let (mut private, mut descriptors): (Vec<_>, Vec<_>) =
            of.iter().map(|sample| (sample.private_kib, sample.descriptors)).unzip();
        private.sort_unstable();
        descriptors.sort_unstable();
        let middle = private.len() / 2;
        Sample { private_kib: private[middle], descriptors: descriptors[middle] }
    })
}

// === impl Sample ===

impl Sample {
    fn of(service: &Daemon) -> Self {
        let process = PathBuf::from(format!("/proc/{}", service.id()));
        let private_kib = private_kib(service.id());
        Self { private_kib, descriptors: std::fs::read_dir(process.join("fd")).unwrap().count() }
    }
}
