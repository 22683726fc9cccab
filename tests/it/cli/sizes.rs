//! One size for one image: what it takes on the disk, in every command, on the page and in the metrics. The fleet shows
//! `reclaimable_bytes` of the contents of the page.

use kubegc::metrics::{AgentMetrics, Exposition};
use kubegc::model::{CRI_NAMESPACE, HolderKind, RuntimeStore, Seen, StoreHolder, StorePart, size_text};
use kubegc::page::{Contents, Outlook};
use kubegc::plan::{Kind, disk_account, key};
use kubegc::store::disk_by_pod;
use serde_json::Value;

use super::*;

const GIB: u64 = 1 << 30;

/// Returns a node whose images take twice as much on the disk as the runtime reports, and share a layer of 1 GiB.
fn node() -> Snapshot {
    let part = |bytes: u64| StorePart { bytes: Some(bytes), name: bytes.to_string(), ..StorePart::default() };
    let mut snapshot = full_disk();
    let mut store = RuntimeStore { parts: vec![part(GIB)], ..RuntimeStore::default() };
    for image in snapshot.images.as_ref().unwrap() {
        let (name, refs) = (image.id.to_string(), vec![0, store.parts.len()]);
        let (kind, namespace) = (HolderKind::Image, CRI_NAMESPACE.to_owned());
        store.holders.push(StoreHolder { kind, namespace, name, refs, ..StoreHolder::default() });
        store.parts.push(part(2 * image.size_bytes));
    }
    snapshot.store = Seen::Seen(store);
    snapshot
}

#[test]
fn an_image_has_one_size_in_every_command_on_the_page_and_in_the_metrics() {
    let snapshot = node();
    let shell = Shell::new().with("node.json", &serde_json::to_string(&snapshot).unwrap());
    let text = |words: &[&str]| shell.run(&[words, &["--snapshot", "node.json"]].concat());
    let json = |words: &[&str]| serde_json::from_str::<Value>(&text(&[words, &["-o", "json"]].concat())).unwrap();
    let (plan, images, disk) = (json(&["plan"]), json(&["images"]), json(&["disk"]));
    let tables = [&["plan", "-o", "wide"][..], &["images"], &["disk", "--top", "0"]].map(text);
    let decided = decide(&snapshot, &Policy::default(), Scope::All);
    let account = disk_account(&snapshot, &decided).unwrap();
    let outlook = Outlook::new(&decided, None, &[]);

    for image in snapshot.images.as_ref().unwrap() {
        let (id, bytes) = (image.id.as_str(), 2 * image.size_bytes + GIB);
        let size = |list: &Value, field: &str| {
            list.as_array().unwrap().iter().find(|one| one["id"] == id).and_then(|one| one[field].as_u64())
        };
        let planned = size(&plan["actions"], "on_disk_bytes").or(size(&plan["kept"], "on_disk_bytes"));
        assert_eq!(planned, Some(bytes), "plan: {id}");
        assert_eq!(size(&images["images"], "on_disk_bytes"), Some(bytes), "images: {id}");
        assert_eq!(size(&images["images"], "size_bytes"), Some(image.size_bytes), "images: {id}");
        assert_eq!(size(&disk["images"], "all_bytes"), Some(bytes), "disk: {id}");
        let why = text(&["why", id]);
        assert!(why.contains(&format!("size {}", size_text(bytes))), "{why}");
        let name = image.tags.first().map_or(id, String::as_str);
        for table in &tables {
            let mut rows = table.lines().filter(|row| row.contains(name) || row.contains(&id[7..19]));
            assert!(rows.any(|row| row.contains(&size_text(bytes))), "{name}: {}\n{table}", size_text(bytes));
        }
        let is_removed = decided.by_key().get(&key(Kind::Image, id)).is_some_and(|it| it.as_str() == "remove");
        let line = outlook.next.first.iter().find(|line| line.kind == Kind::Image && [name, id].contains(&&*line.name));
        assert!(!is_removed || line.is_some_and(|line| line.bytes == Some(bytes)), "{line:?}");
    }

    let listed = snapshot.images.as_ref().unwrap();
    let all = listed.iter().map(|image| 2 * image.size_bytes).sum::<u64>() + GIB;
    assert!(tables[1].contains(&format!("{} images, {}.", listed.len(), size_text(all))), "{}", tables[1]);
    let is_of_images = |category: &str| category.starts_with("images_");
    let of_disk = disk["categories"].as_array().unwrap().iter();
    let of_disk = of_disk.filter(|entry| is_of_images(entry["category"].as_str().unwrap()));
    assert_eq!(of_disk.map(|entry| entry["bytes"].as_u64().unwrap()).sum::<u64>(), all);

    let metrics = AgentMetrics::of_service();
    metrics.account(&account, &[]);
    let metrics = metrics.text(Exposition::Prometheus);
    let series = metrics.lines().filter_map(|line| line.strip_prefix("kubegc_image_disk_bytes{category=\"images_"));
    let sum: f64 = series.map(|line| line.split_once(' ').unwrap().1.parse::<f64>().unwrap()).sum();
    assert!((sum - all as f64).abs() < 1.0, "{metrics}");

    let contents = Contents::new(account, disk_by_pod(&snapshot));
    let page = contents.disks[0].categories.iter().filter(|entry| is_of_images(entry.category.into()));
    assert_eq!(page.map(|entry| entry.bytes).sum::<u64>(), all);
    assert_eq!(Some(contents.reclaimable_bytes), disk["reclaimable_bytes"].as_u64());
}
