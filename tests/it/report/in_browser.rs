//! The page in a browser without scripts: its width, its colors, and what a screen reader finds.

use std::collections::BTreeMap;
use std::path::Path;

use kubegc::sim::{Fault, MIB, Rpc, Times};
use serde_json::{Value, json};

use super::browser::Browser;
use crate::agent::Home;
use crate::cli_on_sim::{Host, node};
use crate::monitoring::{service, sim};

/// The background of the page in the dark.
const DARK: [u8; 3] = [13, 17, 23];

/// A piece of text on the page.
#[derive(Debug)]
struct Text {
    content: String,
    color: [u8; 3],
    background: [u8; 3],
}

/// Returns a node whose store has removals, a failure and the usage of a file system, with images that are removed next.
/// Names are as long as real ones.
fn host() -> Host {
    let image = |n: u32| {
        format!("registry.example.internal:5000/platform/payments-reconciliation-worker-{n}:2026-11-22-1f3a5c7e")
    };
    let pod = "payments-reconciliation-worker-7d9c5b6f8d-x2x4q";
    let node =
        (0..25).fold(node(), |node, n| node.image(&image(n), &[("base", 40 * MIB), (&format!("worker-{n}"), MIB)]));
    let node = node.pod("production-payments", pod, "u-pay").exited("reconciliation-worker", &image(0));
    let host = Host::with(node.exited("reconciliation-worker", &image(0)).exited("reconciliation-worker", &image(1)));
    host.sim.fault(Rpc::RemovePodSandbox, Fault::Fail(tonic::Code::Internal), Times::N(1));
    assert!(host.run(&["collect"]).contains("1 failed"));
    let volume = "u-pay/volumes/kubernetes.io~empty-dir/reconciliation-worker-scratch-space-of-one-day/big";
    let volume = host.sim.dir().join("kubelet/pods").join(volume);
    std::fs::create_dir_all(volume.parent().unwrap()).unwrap();
    std::fs::write(volume, vec![7; 3 << 20]).unwrap();
    host
}

#[test]
fn the_page_is_readable_at_each_width_and_scheme() {
    let host = host();
    host.run(&["report", "page.html", "--set", "images.max_age=1ms", "--set", "images.min_age=0"]);
    let mut browser = Browser::start();
    for (width, scheme) in [(380_u32, "light"), (420, "dark"), (768, "light"), (1280, "light"), (1600, "dark")] {
        browser.view(width.into(), scheme);
        browser.open(&format!("file://{}", host.shell.path("page.html").display()));
        let shot = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("page-{width}-{scheme}.png"));
        std::fs::write(&shot, browser.screenshot()).unwrap();
        let metrics = browser.call("Page.getLayoutMetrics", &json!({}));
        let [content, view] = [&metrics["cssContentSize"]["width"], &metrics["cssLayoutViewport"]["clientWidth"]];
        assert_eq!(content, view, "the page is wider than the window: {}", shot.display());
        assert_eq!(texts(&mut browser)[0].background == DARK, scheme == "dark");
        text_has_contrast(&mut browser);
        rows_fit(&mut browser, width);
        headings_tables_and_charts_have_names(&mut browser);
        page_loads_nothing_else(&browser);
    }
}

/// The style is part of the page, and the policy permits it by its hash.
#[tokio::test(flavor = "multi_thread")]
async fn the_agents_page_has_its_style_under_its_policy() {
    let sim = sim();
    let home = Home::new(&sim, "");
    let (mut agent, address) = service(&home).await;
    agent.first_passes().await;
    let mut browser = Browser::start();
    browser.view(380, "dark");
    browser.open(&format!("http://{address}/"));
    let heading = texts(&mut browser).into_iter().find(|text| text.content.starts_with("kubegc on")).unwrap();
    assert_eq!(heading.background, DARK, "{heading:?}");
    text_has_contrast(&mut browser);
    let refused = browser.events.iter().find(|event| event["method"] == "Log.entryAdded");
    assert_eq!(refused, None, "the policy refuses a part of the page");
}

/// WCAG 2.2 wants 4.5.
fn text_has_contrast(browser: &mut Browser) {
    let texts = texts(browser);
    assert!(texts.len() > 10, "{texts:#?}");
    for text in texts {
        let [lighter, darker] = {
            let both = [text.color, text.background].map(luminance);
            [both[0].max(both[1]), both[0].min(both[1])]
        };
        assert!((lighter + 0.05) / (darker + 0.05) >= 4.5, "{text:?}");
    }
}

/// The relative luminance of WCAG 2.2.
fn luminance(color: [u8; 3]) -> f64 {
    let linear = |value: f64| if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) };
    let [red, green, blue] = color.map(|channel| linear(f64::from(channel) / 255.0));
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/// A row of what fills the disks has at most two lines: long names of tenants do not hide the next row.
fn rows_fit(browser: &mut Browser, width: u32) {
    let snapshot = browser.call("DOMSnapshot.captureSnapshot", &json!({ "computedStyles": [] }));
    let word = |index: &Value| snapshot["strings"][index.as_u64().unwrap() as usize].as_str().unwrap();
    let (nodes, layout) = (&snapshot["documents"][0]["nodes"], &snapshot["documents"][0]["layout"]);
    let label = |node: u64| {
        let attributes = nodes["attributes"][node as usize].as_array().unwrap();
        let mut pairs = attributes.chunks(2).map(|pair| (word(&pair[0]), word(&pair[1])));
        pairs.find_map(|(name, value)| (name == "aria-labelledby").then_some(value))
    };
    let parent = |node: &u64| nodes["parentIndex"][*node as usize].as_u64();
    let mut rows = BTreeMap::<_, Vec<f64>>::new();
    for (at, node) in layout["nodeIndex"].as_array().unwrap().iter().map(|node| node.as_u64().unwrap()).enumerate() {
        let bound = |of: usize| layout["bounds"][at][of].as_f64().unwrap();
        if word(&nodes["nodeName"][node as usize]) == "TD" && bound(2) > 1.0 {
            assert!(bound(0) + bound(2) <= f64::from(width), "a cell is cut at {width}: {:?}", layout["bounds"][at]);
        }
        if word(&nodes["nodeName"][node as usize]) == "TR" {
            let table = std::iter::successors(Some(node), parent).find_map(label).unwrap();
            rows.entry(table).or_default().push(bound(3));
        }
    }
    // Where a row has no room for all of its cells, they flow.
    for table in ["disk-0", "pods"] {
        let (heights, highest) = (&rows[table], if width < 960 { 100.0 } else { 56.0 });
        assert!(heights.len() > 1 && heights.iter().all(|height| *height < highest), "{table}: {rows:?}");
    }
}

/// Returns all text of the page with its computed colors. The background is that of the next element around it that has
/// one.
fn texts(browser: &mut Browser) -> Vec<Text> {
    let wanted = json!({ "computedStyles": ["color", "background-color"] });
    let snapshot = browser.call("DOMSnapshot.captureSnapshot", &wanted);
    let word = |index: &Value| snapshot["strings"][index.as_u64().unwrap() as usize].as_str().unwrap();
    let document = &snapshot["documents"][0];
    let (layout, parents) = (&document["layout"], &document["nodes"]["parentIndex"]);
    let nodes = || layout["nodeIndex"].as_array().unwrap().iter().map(|node| node.as_u64().unwrap()).enumerate();
    let backgrounds: BTreeMap<_, _> =
        nodes().filter_map(|(at, node)| Some((node, color(word(layout["styles"][at].get(1)?))?))).collect();
    let around = |node: u64| {
        let parent = |node: &u64| parents[*node as usize].as_u64();
        std::iter::successors(Some(node), parent).find_map(|node| backgrounds.get(&node).copied())
    };
    let text = |(at, node): (usize, u64)| {
        let text = layout["text"][at].as_u64().map(|_| word(&layout["text"][at]))?;
        let color = color(word(&layout["styles"][at][0])).unwrap();
        Some(Text { content: text.to_owned(), color, background: around(node).expect("the body has a background") })
    };
    nodes().filter_map(text).collect()
}

/// Returns a color that a browser computed; `None` = transparent.
fn color(text: &str) -> Option<[u8; 3]> {
    let channels = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')'));
    let Some(channels) = channels else {
        assert_eq!(text, "rgba(0, 0, 0, 0)", "a color in another notation");
        return None;
    };
    let channels: Vec<u8> = channels.split(", ").map(|channel| channel.parse().unwrap()).collect();
    Some(channels.try_into().unwrap())
}

/// Finds parts of the page as a screen reader does: by role and name.
fn headings_tables_and_charts_have_names(browser: &mut Browser) {
    let tree = browser.call("Accessibility.getFullAXTree", &json!({}));
    let mut found = BTreeMap::<&str, Vec<&str>>::new();
    for node in tree["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] == false) {
        let name = node["name"]["value"].as_str().unwrap_or_default();
        found.entry(node["role"]["value"].as_str().unwrap()).or_default().push(name);
    }
    let sections = ["Last removals", "Removed next", "Under disk pressure", "Kept, and why"];
    let disks = ["Disk of images", "The ten largest pods"];
    let others = ["kubegc on n1", "File systems", "What fills the disks", "Reclaimed bytes per day"];
    for (role, names) in [
        ("heading", &[&others[..], &sections, &disks].concat()),
        ("table", &[&sections[..], &disks].concat()),
        ("image", &vec!["Usage of ", "Reclaimed bytes per day: "]),
        ("columnheader", &vec!["Time", "Outcome", "Why"]),
    ] {
        let found = found.get(role).map(Vec::as_slice).unwrap_or_default();
        assert!(found.iter().all(|name| !name.is_empty()), "a {role} without a name: {found:?}");
        for name in names {
            assert!(found.iter().any(|found| found.starts_with(name)), "no {role} {name:?}: {found:?}");
        }
    }
}

fn page_loads_nothing_else(browser: &Browser) {
    let requests = browser.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
    let requests: Vec<_> = requests.map(|request| &request["params"]["request"]["url"]).collect();
    assert_eq!(requests.len(), 1, "{requests:?}");
}
