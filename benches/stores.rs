//! Twenty random stores of images on a real containerd 2, each brought down from a high threshold to a low one: by kubegc, and
//! by the rules of the kubelet on an equal store. The disk is measured before and after.
//!
//! `cargo bench --bench stores -- removals`, as root; `reads` measures how long a store is read. The first is no matter of time: the table shows how far the estimates are from the measured
//! bytes, whether the target is reached, and how many images are lost for it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a benchmark may fail loudly, and starts programs"
)]

#[path = "common/figures.rs"]
mod figures;

/// The containerd of the tests.
#[path = "../tests/it"]
#[allow(dead_code, unused_imports, reason = "the tests use the rest")]
mod it {
    pub mod rig;
}
use it::rig;

use std::sync::Arc;
use std::time::Duration;

use figures::{is_chosen, median, mib};
use kubegc::cri::{CriOptions, RuntimeReader, SnapshotUsages};
use rig::{Image, Layer, Rig, Version};
use tokio::time::Instant;

const STORES: u64 = 20;
const DISK_MIB: u64 = 2048;
/// The images of the store that is read, and how often.
const READ: usize = 500;
const READS: usize = 9;

/// What became of a store.
struct Result {
    images: usize,
    /// The available bytes at which the low threshold is reached, less those before.
    target: u64,
    /// The available bytes after, less those before.
    freed: u64,
    /// Estimate and measured bytes of each removal.
    removals: Vec<(u64, u64)>,
    /// The images that another pass would remove.
    left: usize,
}

#[tokio::main]
async fn main() {
    if is_chosen("reads") {
        reads().await;
    }
    if is_chosen("removals") {
        removals().await;
    }
}

/// A read of the store with many images: the first one, with the sizes of all layers, and later ones, beside the lists of the CRI
/// that a pass makes.
async fn reads() {
    let rig = Rig::start(Version::V2).await;
    let base = Layer::small_files("base", 2, 100);
    let image = |number: usize| {
        let own = Layer::small_files(&format!("own-{number}"), 1, 100);
        Image::new(&[&format!("docker.io/library/store:{number}")], &[base.clone(), own])
    };
    rig.import(&(0..READ).map(image).collect::<Vec<_>>()).await;
    let reader = RuntimeReader::new(&rig.endpoint(), &rig.endpoint(), CriOptions::default());
    let usages = SnapshotUsages::default();
    let store = async || {
        let begun = Instant::now();
        let store = reader.containerd_store(&usages, false, begun + Duration::from_mins(1)).await.unwrap();
        assert_eq!((&store.missing, &store.missing_sizes), (&Vec::new(), &Vec::new()));
        assert!(store.parts.len() > 4 * READ, "{} parts", store.parts.len());
        begun.elapsed().as_secs_f64()
    };
    let first = store().await;
    let (mut later, mut lists) = (Vec::new(), Vec::new());
    for _ in 0..READS {
        let begun = Instant::now();
        let images = rig.list_images().await;
        assert!(
            images.len() >= READ && rig.list_containers().await.is_empty() && rig.list_sandboxes().await.is_empty()
        );
        lists.push(begun.elapsed().as_secs_f64());
        later.push(store().await);
    }
    let ratio = median(later.iter().zip(&lists).map(|(store, lists)| store / lists));
    let [later, lists] = [later, lists].map(|seconds| format!("{:.0} ms", 1e3 * median(seconds)));
    let first = format!("{later}; the first read {:.0} ms", 1e3 * first);
    figures::row(
        "store of 500 images of containerd 2, a later read",
        &first,
        &format!("lists of the CRI: {lists}"),
        ratio,
        3.0,
    );
}

async fn removals() {
    println!("                            | kubegc                                 | the rules of the kubelet");
    println!(
        "store  images  target, MiB  | freed  beyond  lost  for nothing  error | freed  beyond  lost  for nothing  error"
    );
    let mut all = Vec::new();
    for store in 0..STORES {
        let (ours, kubelets) = (removed_by("safe", store).await, removed_by("kubelet", store).await);
        println!("{store:>5}  {:>6}  {:>11.0}  | {} | {}", ours.images, mib(ours.target), row(&ours), row(&kubelets));
        all.push((ours, kubelets));
    }
    sums("kubegc", all.iter().map(|(ours, _)| ours));
    sums("the rules of the kubelet", all.iter().map(|(_, kubelets)| kubelets));
}

/// The bytes freed and those beyond the target, both in MiB, the images lost, those of them that freed nothing, and the largest
/// error of an estimate.
fn row(result: &Result) -> String {
    let beyond = result.freed as i64 - result.target as i64;
    let largest = errors(result).into_iter().fold(0.0, f64::max) * 100.0;
    let (lost, nothing) = (result.removals.len(), for_nothing(result));
    let beyond = beyond as f64 / f64::from(1 << 20);
    format!("{:>5.0}  {beyond:>6.0}  {lost:>4}  {nothing:>11}  {largest:>4.0}%", mib(result.freed))
}

fn sums<'a>(by: &str, results: impl Iterator<Item = &'a Result> + Clone) {
    let all: Vec<_> = results.clone().flat_map(errors).collect();
    let largest = all.iter().copied().fold(0.0, f64::max);
    let missed = results.clone().filter(|result| result.freed < result.target);
    let (missed, left) = (missed.clone().count(), missed.filter(|result| result.left > 0).count());
    let needless: usize = results.clone().map(needless).sum();
    let (lost, nothing) =
        (results.clone().map(|one| one.removals.len()).sum::<usize>(), results.map(for_nothing).sum::<usize>());
    println!(
        "{by}: {lost} images lost, {nothing} of them for nothing, {needless} more than one beyond the target; target missed in \
         {missed} stores, in {left} of them with an image left that can be removed; error of an estimate: median {:.1} %, largest {:.1} %",
        median(all) * 100.0,
        largest * 100.0
    );
}

/// The error of each estimate, relative to the measured bytes. A removal that freed nothing counts as wholly wrong.
fn errors(result: &Result) -> Vec<f64> {
    let error = |(estimate, freed): &(u64, u64)| estimate.abs_diff(*freed) as f64 / (*freed).max(1) as f64;
    result.removals.iter().map(|removal| error(removal).min(1.0)).collect()
}

/// The removals that were to free something and did not: a manifest and a configuration are not what an image is removed for.
/// Of a set that frees something only together, the estimate of the last one has it all.
fn for_nothing(result: &Result) -> usize {
    let nothing = 64 << 10;
    result.removals.iter().filter(|(estimate, freed)| *freed < nothing && *estimate >= nothing).count()
}

/// The images that were removed after the target was reached.
fn needless(result: &Result) -> usize {
    let mut freed = 0;
    let is_reached = |(_, bytes): &&(u64, u64)| {
        let is_reached = freed >= result.target;
        freed += bytes;
        is_reached
    };
    result.removals.iter().filter(is_reached).count()
}

async fn removed_by(profile: &str, store: u64) -> Result {
    let rig = Rig::start_on_small_disk(Version::V2, DISK_MIB).await;
    let mut dice = Dice(store.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let images = images(&mut dice);
    rig.import(&images).await;
    let mut pod = rig.pod("default", "web-0", "uid-web").await;
    for image in images.iter().filter(|_| dice.below(6) == 0).collect::<Vec<_>>() {
        pod = pod.with_image(&image.tags()[0]);
        pod.created(&format!("c{}", dice.below(1 << 30))).await;
    }
    let high = rig.used_percent().floor();
    let low = (high * (50 + dice.below(45)) as f64 / 100.0).floor();
    let (capacity, before) = disk(&rig);
    let run = |command: &str, high: f64| {
        let settings = [
            format!("--profile={profile}"),
            format!("--set=images.high_threshold_percent={high}"),
            format!("--set=images.low_threshold_percent={low}"),
        ];
        let fixed = [command, "--scope=images", "-o", "json"];
        let free = ["--set=images.min_age=0s", "--set=guards.settle=0s", "--set=pods.source=none"];
        let args: Vec<_> = fixed.into_iter().chain(free).chain(settings.iter().map(String::as_str)).collect();
        tokio::task::block_in_place(|| rig.kubegc(&args)).json()
    };
    let collected = run("collect", high);
    let left = run("plan", low)["actions"].as_array().unwrap().len();
    let reports = collected["reports"].as_array().unwrap().iter().filter(|report| report["outcome"] == "removed");
    let number = |value: &serde_json::Value| value.as_u64().unwrap_or_default();
    let removals =
        reports.map(|report| (number(&report["action"]["estimated_bytes"]), number(&report["freed_bytes"]))).collect();
    let target = (capacity as f64 * (100.0 - low) / 100.0) as u64;
    Result {
        images: images.len(),
        target: target.saturating_sub(before),
        freed: disk(&rig).1.saturating_sub(before),
        removals,
        left,
    }
}

/// Families of images on a base, some with a layer of their own, some with one that they share with the next.
fn images(dice: &mut Dice) -> Vec<Image> {
    let mut images = Vec::new();
    for family in 0..2 + dice.below(4) {
        let base = Layer::filled(&format!("base-{family}"), dice.size(4, 24));
        let mut shared = Layer::filled(&format!("shared-{family}"), dice.size(2, 12));
        for member in 0..3 + dice.below(8) {
            let mut layers = vec![Arc::clone(&base)];
            if dice.below(2) == 0 {
                layers.push(Arc::clone(&shared));
            } else {
                shared = Layer::filled(&format!("shared-{family}-{member}"), dice.size(2, 12));
            }
            if dice.below(3) > 0 {
                layers.push(Layer::filled(&format!("own-{family}-{member}"), dice.size(1, 9)));
            }
            images.push(Image::new(&[&format!("docker.io/library/f{family}:{member}")], &layers));
        }
    }
    images
}

/// The capacity and the available bytes of containerd's disk.
fn disk(rig: &Rig) -> (u64, u64) {
    let disk = nix::sys::statvfs::statvfs(&rig.dir().join("containerd")).unwrap();
    (disk.blocks() * disk.fragment_size(), disk.blocks_available() * disk.fragment_size())
}

/// Random numbers, the same for the same seed (xorshift64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn size(&mut self, from: u64, to: u64) -> usize {
        usize::try_from(from + self.below(to - from)).unwrap()
    }
}
