//! The page over made-up data: what people read, and what a browser may not do.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use jiff::{SignedDuration, Timestamp};
use sha2::Digest as _;

use super::*;
use crate::model::{DirUsage, DiskUse, FileSystem, NodeDisk, PodRef, VolumeUsage};
use crate::plan::{DiskState, Forecast, KeptFor, Kind, TimeLeft};
use crate::record::UsageSample;
use crate::store::{Category, CategoryEntry, DiskSpace, PodSpace, Space};

fn at(hours: i64) -> Timestamp {
    let now: Timestamp = "2026-11-22T12:00:00Z".parse().unwrap();
    now.checked_add(SignedDuration::from_hours(hours)).unwrap()
}

fn sample(hours: i64, mountpoint: &str, free_percent: u64) -> UsageSample {
    let bytes = 100 << 30;
    let (capacity_bytes, available_bytes) = (bytes, bytes / 100 * free_percent);
    let inodes = Some(1000);
    let mountpoint = mountpoint.into();
    UsageSample {
        at: at(hours),
        file_system: FileSystem {
            mountpoint,
            capacity_bytes,
            available_bytes,
            inodes,
            inodes_free: Some(250),
            fsid: None,
            free_bytes: None,
        },
    }
}

fn document() -> Document {
    Document {
        facts: Facts {
            node: "node-1".to_owned(),
            at: at(0),
            program: "1.2.3".to_owned(),
            mode: "collect".to_owned(),
            profile: "safe".to_owned(),
            high_percent: 85,
            low_percent: 80,
        },
        past: Past {
            usage: vec![sample(-48, "/images", 40), sample(-24, "/images", 10), sample(-1, "/images", 30)],
            ..Past::default()
        },
        outlook: Err("the runtime does not answer".to_owned()),
    }
}

fn outlook() -> Outlook {
    let line = |kind, name: &str| Line {
        kind,
        name: name.to_owned(),
        pod: "shop/web-0".to_owned(),
        bytes: Some(5 << 20),
        reason: "unused for a week".to_owned(),
    };
    Outlook {
        at: at(0),
        next: Removals { count: 3, bytes: 15 << 20, first: vec![line(Kind::Image, "<script>alert(1)</script>")] },
        under_pressure: Some(Removals::default()),
        kept: vec![KeptFor {
            kind: Kind::Sandbox,
            reason: "young".to_owned(),
            is_guard: true,
            count: 2,
            bytes: 0,
            until: None,
        }],
        errors: Vec::new(),
        states: vec![DiskState {
            disk: NodeDisk { holds: vec![DiskUse::Images], file_system: sample(0, "/images", 30).file_system },
            forecast: Some(Forecast { bytes_per_hour: 2 << 30, eviction: Some(five_hours()), ..Forecast::default() }),
            ..DiskState::default()
        }],
        contents: contents(),
    }
}

fn five_hours() -> TimeLeft {
    TimeLeft { seconds: 18_000, soonest_seconds: 14_400, latest_seconds: Some(36_000) }
}

fn contents() -> Contents {
    let disk = |holds: &[DiskUse], mountpoint: &str, categories: &[CategoryEntry]| DiskSpace {
        holds: holds.to_vec(),
        disk: sample(0, mountpoint, 30).file_system,
        used_bytes: 70 << 30,
        used_inodes: None,
        categories: categories.to_vec(),
        largest: Vec::new(),
    };
    let images = [(Category::Leases, 3 << 20), (Category::WritableLayers, 9 << 20), (Category::Labels, 0)]
        .map(|(of, bytes)| entry(of, bytes));
    let volumes = CategoryEntry { at_least: true, ..entry(Category::PodVolumes, 7 << 20) };
    let space = Space {
        writable_layer_bytes: Some(1 << 20),
        volume_bytes: 2 << 20,
        log_bytes: 3 << 20,
        other_bytes: 0,
        bytes: 6 << 20,
        at_least: true,
    };
    let usage = DirUsage { bytes: 2 << 20, inodes: 1, at_least: false };
    let volume = VolumeUsage { plugin: "empty-dir".to_owned(), name: "<b>cache".to_owned(), of_image: false, usage };
    let pod = PodRef { uid: "u1".into(), namespace: "shop".to_owned(), name: "<i>web".to_owned() };
    Contents {
        disks: vec![
            disk(&[DiskUse::Images], "/images", &images),
            disk(&[DiskUse::Logs, DiskUse::Kubelet], "/var", &[volumes]),
        ],
        pods: vec![PodSpace { pod, space, volumes: vec![volume] }],
        reclaimable_bytes: 0,
    }
}

fn entry(category: Category, bytes: u64) -> CategoryEntry {
    CategoryEntry { category, bytes, inodes: 1, objects: 2, at_least: false }
}

/// Returns the text of the page without the elements, its parts separated by `|`.
fn text(html: &str) -> String {
    let (_, body) = html.split_once("<body>").unwrap();
    let mut text = String::new();
    for piece in body.split('<').filter_map(|piece| piece.split_once('>')).map(|(_, text)| text) {
        if !piece.trim().is_empty() {
            text += piece;
            text.push('|');
        }
    }
    text
}

#[test]
fn the_page_shows_usage_against_thresholds() {
    let text = text(&html(&document()));
    assert!(
        text.starts_with("kubegc on node-1|Version 1.2.3, mode collect, profile safe. As of 2026-11-22 12:00 UTC.|")
    );
    assert!(text.contains("|the runtime does not answer|"), "{text}");
    assert!(text.contains("|/images|70 % used, at most 90 %: 70.0GiB of 100.0GiB; inodes 75 % used.|"), "{text}");
    assert!(text.contains("|high threshold 85 %|low threshold 80 %|"), "{text}");
    assert!(text.contains("|0B in 30 days, at most 0B on one day, as measured.|"), "{text}");
    assert!(!text.contains("Removed next"), "{text}");
}

#[test]
fn the_chart_has_a_point_for_each_sample() {
    let html = html(&document());
    let description = "Usage of /images: 70 % used, at most 90 %; thresholds 85 % and 80 %";
    assert!(html.contains(&format!("aria-label=\"{description}\"")), "{html}");
    // Two days, one day and one hour before the end; 60 %, 90 % and 70 % used. The chart begins with the first.
    assert!(html.contains("d=\"M0.0 40.0L500.0 10.0L979.2 30.0\""), "{html}");
    assert!(html.contains("<span>100 %, 100.0GiB</span><span>50 %, 50.0GiB</span><span>0</span>"), "{html}");
    assert!(html.contains("y1=\"15\"") && html.contains("y1=\"20\""), "the thresholds: {html}");
}

#[test]
fn a_first_sample_is_visible_at_the_right_edge() {
    let past = Past { usage: vec![sample(0, "/images", 40)], ..Past::default() };
    let html = html(&Document { past, ..document() });
    assert!(html.contains("d=\"M1000.0 40.0h-6\""), "{html}");
}

#[test]
fn two_outlooks_become_one() {
    let both = outlook().and(outlook());
    assert_eq!((both.next.count, both.next.first.len(), both.kept.len()), (6, 2, 2));
}

#[test]
fn a_list_unchanged_by_disk_pressure_is_shown_once() {
    let same = Outlook { under_pressure: Some(outlook().next), ..outlook() };
    let text = text(&html(&Document { outlook: Ok(same), ..document() }));
    assert!(text.contains("|Under disk pressure|The same.|Kept, and why|"), "{text}");
}

#[test]
fn the_outlook_names_objects_and_escapes_their_names() {
    let html = html(&Document { outlook: Ok(outlook()), ..document() });
    assert!(!html.contains("<script"), "a name is no element");
    let text = text(&html);
    assert!(text.contains("UTC. 3 objects, about 15.0MiB.|"), "{text}");
    assert!(text.contains("|&lt;script&gt;alert(1)&lt;/script&gt;|shop/web-0|5.0MiB|unused for a week|"), "{text}");
    assert!(text.contains("|and 2 more|Under disk pressure|Nothing.|"), "{text}");
    assert!(text.contains("|2 sandboxes|guard|young|"), "{text}");
}

#[test]
fn each_disk_has_its_categories_and_the_largest_pods_follow() {
    let html = html(&Document { outlook: Ok(outlook()), ..document() });
    assert!(html.contains("<rect class=\"bar\" width=\"250.0\""), "a quarter: {html}");
    assert!(!html.contains("<b>") && !html.contains("<i>"), "a name is no element");
    let text = text(&html);
    let images = "|What fills the disks|Disk of images, /images|70.0GiB of 100.0GiB used.|What|Size|Objects|Share|\
                  writable layers|9.0MiB|2|held by leases|3.0MiB|2|";
    let others = "|Disk of pod logs, pods of the kubelet, /var|70.0GiB of 100.0GiB used.|What|Size|Objects|Share|\
                  pod volumes|&gt;=7.0MiB|2|";
    let pods = "|The ten largest pods|Pod|Layers|Volumes|Logs|Sum|Largest volume|\
                shop/&lt;i&gt;web|1.0MiB|2.0MiB|3.0MiB|&gt;=6.0MiB|empty-dir &quot;&lt;b&gt;cache&quot;, 2.0MiB|";
    for part in [images, others, pods] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn a_forecast_is_beside_its_disk() {
    let shown = |outlook| text(&html(&Document { outlook: Ok(outlook), ..document() }));
    let line = "|Forecast: grows by 2.0GiB an hour; evictions begin in 5h (4h to 10h).|";
    let known = shown(outlook());
    assert!(known.contains(&format!("inodes 75 % used.{line}")), "{known}");
    let elsewhere = NodeDisk { file_system: sample(0, "/var", 30).file_system, ..NodeDisk::default() };
    let other = DiskState { disk: elsewhere, ..outlook().states.remove(0) };
    assert!(!shown(Outlook { states: vec![other], ..outlook() }).contains("Forecast"), "of another disk");
}

#[test]
fn the_page_loads_nothing_from_elsewhere() {
    let html = html(&Document { outlook: Ok(outlook()), ..document() });
    for forbidden in ["http:", "https:", "src=", "url(", "@import", "style=", "onclick"] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
    let (_, style) = html.split_once("<style>").unwrap();
    let (style, _) = style.split_once("</style>").unwrap();
    let hash = BASE64_STANDARD.encode(sha2::Sha256::digest(style));
    assert_eq!(hash, STYLE_HASH, "the hash of src/page/style.css");
}

/// Returns the colors of a block of the style, by name.
fn colors(block: &str) -> std::collections::BTreeMap<&str, [f64; 3]> {
    let pairs = block.split(';').filter_map(|one| one.trim().strip_prefix("--")?.split_once(": #"));
    let channel = |hex: &str, at: usize| f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
    pairs.map(|(name, hex)| (name, [channel(hex, 0), channel(hex, 2), channel(hex, 4)])).collect()
}

/// The relative luminance of WCAG 2.2.
fn luminance(color: [f64; 3]) -> f64 {
    let linear = |value: f64| if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) };
    0.2126 * linear(color[0]) + 0.7152 * linear(color[1]) + 0.0722 * linear(color[2])
}

fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// WCAG 2.2 wants 4.5 for text and 3 for the parts of a chart.
#[test]
fn text_and_charts_have_contrast_in_light_and_dark() {
    let blocks: Vec<_> = STYLE.split(":root {").skip(1).map(|rest| colors(rest.split('}').next().unwrap())).collect();
    assert_eq!(blocks.len(), 2, "light and dark");
    for colors in blocks {
        for back in ["back", "panel"] {
            for (name, least) in [
                ("text", 4.5),
                ("soft", 4.5),
                ("usage", 3.0),
                ("high", 3.0),
                ("low", 3.0),
                ("removed", 3.0),
                ("failed", 3.0),
            ] {
                let found = contrast(colors[name], colors[back]);
                assert!(found >= least, "{name} on {back}: {found:.2}");
            }
        }
    }
}
