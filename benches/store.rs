//! A read of the store of containerd 2 with 500 images: the first one, with the sizes of all layers, and later ones, beside the
//! lists of the CRI that a pass makes.
//!
//! `cargo bench --bench store`, as root.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a benchmark may fail loudly, and asks the clock"
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

use std::time::Duration;

use figures::{median, row};
use kubegc::cri::{CriOptions, RuntimeReader, SnapshotUsages};
use rig::{Image, Layer, Rig, Version};
use tokio::time::Instant;

const IMAGES: usize = 500;
const ROUNDS: usize = 9;
const AIM: f64 = 3.0;

#[tokio::main]
async fn main() {
    let rig = Rig::start(Version::V2).await;
    let base = Layer::small_files("base", 2, 100);
    let image = |number: usize| {
        let own = Layer::small_files(&format!("own-{number}"), 1, 100);
        Image::new(&[&format!("docker.io/library/store:{number}")], &[base.clone(), own])
    };
    rig.import(&(0..IMAGES).map(image).collect::<Vec<_>>()).await;
    let reader = RuntimeReader::new(&rig.endpoint(), &rig.endpoint(), CriOptions::default());
    let usages = SnapshotUsages::default();
    let store = async || {
        let begun = Instant::now();
        let store = reader.containerd_store(&usages, false, begun + Duration::from_mins(1)).await.unwrap();
        assert_eq!((&store.missing, &store.missing_sizes), (&Vec::new(), &Vec::new()));
        assert!(store.parts.len() > 4 * IMAGES, "{} parts", store.parts.len());
        begun.elapsed().as_secs_f64()
    };
    let first = store().await;
    let (mut later, mut lists) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let images = rig.list_images().await;
        assert!(
            images.len() >= IMAGES && rig.list_containers().await.is_empty() && rig.list_sandboxes().await.is_empty()
        );
        lists.push(begun.elapsed().as_secs_f64());
        later.push(store().await);
    }
    let ratio = median(later.iter().zip(&lists).map(|(store, lists)| store / lists));
    let [later, lists] = [later, lists].map(|seconds| format!("{:.0} ms", 1e3 * median(seconds)));
    let first = format!("{later}; the first read {:.0} ms", 1e3 * first);
    row("store of 500 images of containerd 2, a later read", &first, &format!("lists of the CRI: {lists}"), ratio, AIM);
}
