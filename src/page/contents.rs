//! What fills the disks, and the pods that take most.

use std::cmp::Reverse;

use maud::{Markup, html};
use serde::Serialize;

use super::chart;
use super::document::{Document, LONGEST, table};
use crate::model::{at_least_text, cut_text, size_text};
use crate::store::{DiskAccount, DiskByPod, DiskSpace, PodSpace};

/// The pods, files and directories that are named.
const PODS: usize = 10;

/// What fills the disks of the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Contents {
    /// What fills each disk, that of the images first; empty = not known.
    pub disks: Vec<DiskSpace>,
    /// The pods that take most, largest first.
    pub pods: Vec<PodSpace>,
    /// Bytes that the removal of all removable images would reclaim.
    #[serde(skip)]
    pub reclaimable_bytes: u64,
}

// === impl Contents ===

impl Contents {
    /// Makes the contents of the account of the disks, and of what each pod takes.
    pub fn new(account: DiskAccount, by_pod: DiskByPod) -> Self {
        let reclaimable_bytes = account.reclaimable_bytes;
        let disks = std::iter::once(account.first).chain(account.other_disks).collect();
        Self { disks, pods: by_pod.pods.into_iter().take(PODS).collect(), reclaimable_bytes }
    }
}

// === impl Document ===

impl Document {
    pub(super) fn contents(&self) -> Markup {
        let Ok(Contents { disks, pods, .. }) = self.outlook.as_ref().map(|outlook| &outlook.contents) else {
            return html! {};
        };
        html! {
            @if !disks.is_empty() {
                section aria-labelledby="account" {
                    h2 id="account" { "What fills the disks" }
                    @for (number, disk) in disks.iter().enumerate() { (filling(disk, &format!("disk-{number}"))) }
                }
            }
            @if !pods.is_empty() {
                section aria-labelledby="pods" {
                    h2 id="pods" { "The ten largest pods" }
                    (table("pods", &["Pod", "Layers", "Volumes", "Logs", "Sum", "Largest volume"], &html! {
                        @for pod in pods { (row(pod)) }
                    }))
                }
            }
        }
    }
}

/// Formats what fills a disk, the largest first.
fn filling(space: &DiskSpace, label: &str) -> Markup {
    let mut filled: Vec<_> = space.categories.iter().filter(|entry| entry.bytes > 0).collect();
    filled.sort_by_key(|entry| Reverse(entry.bytes));
    let all = filled.iter().map(|entry| entry.bytes).fold(0, u64::saturating_add);
    let holds: Vec<_> = space.holds.iter().map(|of| of.phrase()).collect();
    html! {
        h3 id=(label) { "Disk of " (holds.join(", ")) ", " (space.disk.mountpoint.display()) }
        p { (size_text(space.used_bytes)) " of " (size_text(space.disk.capacity_bytes)) " used." }
        (table(label, &["What", "Size", "Objects", "Share"], &html! {
            @for entry in filled { tr {
                td { (entry.category.phrase()) }
                td { (at_least_text(entry.at_least, entry.bytes)) }
                td { @if entry.objects > 0 { (entry.objects) } }
                td.part { (chart::bar(entry.bytes, all)) }
            } }
        }))
        @if !space.largest.is_empty() {
            (table(label, &["Largest", "Size", "Held by"], &html! {
                @for entry in space.largest.iter().take(PODS) { tr {
                    td.name { (cut_text(&entry.name, LONGEST)) }
                    td { (at_least_text(entry.usage.at_least, entry.usage.bytes)) }
                    td.name { (cut_text(&entry.held_by, LONGEST)) }
                } }
            }))
        }
    }
}

fn row(pod: &PodSpace) -> Markup {
    let space = &pod.space;
    let volume = pod.volumes.first().map(|volume| {
        format!("{} \"{}\", {}", volume.plugin, volume.name, at_least_text(volume.usage.at_least, volume.usage.bytes))
    });
    html! {
        tr {
            (line(&pod.pod.name_or_uid()))
            td { (space.writable_layer_bytes.map_or_else(|| "-".to_owned(), size_text)) }
            td { (size_text(space.volume_bytes)) }
            td { (size_text(space.log_bytes)) }
            td { (at_least_text(space.at_least, space.bytes)) }
            (line(&volume.unwrap_or_default()))
        }
    }
}

/// Formats a cell of one line. What does not fit is shown when the pointer is on it.
fn line(text: &str) -> Markup {
    let text = cut_text(text, LONGEST);
    html! { td.line title=(text) { (text) } }
}
