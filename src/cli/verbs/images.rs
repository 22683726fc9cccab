//! `kubegc images`.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::PathBuf;

use clap::ValueEnum;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::cli_error::CliError;
use crate::cli::input::documents::Snapshots;
use crate::cli::input::session::{all_seen, block_on, plan_now};
use crate::cli::render::output::{Document, Output, is_wide};
use crate::cli::render::tables::IMAGES;
use crate::cli::render::{format, reference};
use crate::cli::verb::{LIST, LOOKS, Start, Verb, VerbFacts};
use crate::model::{FileSystem, Image, ImageId, Seen, Snapshot};
use crate::observe::Part;
use crate::plan::{Decision, ImageUsers, KeepReason, Kept, Kind, Plan, Policy, Scope, images, key};
use crate::store::{Size, SnapshotIndex};

/// List images by size or last use, with their users
///
/// SIZE is what an image takes on the disk. A shared layer counts in each of its images, and once in the sum. With -o wide, REPORTED is
/// the size that the runtime reports: containerd that in the registry. Where the store of the runtime cannot be read, both are the same.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Order of the images
    #[arg(long, value_enum, default_value = "size", value_name = "ORDER")]
    sort_by: Order,
    /// List the images of a snapshot instead of this node (- for standard input)
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Print only ids
    #[arg(short, long)]
    quiet: bool,
}

/// The order of images. Images without a value are last.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Order {
    /// Largest first
    Size,
    /// Least recently used first
    LastUsed,
    /// Oldest first
    FirstSeen,
}

/// The images of a node.
#[derive(JsonSchema, Serialize)]
pub(in crate::cli) struct Images {
    /// When the images were listed.
    at: Timestamp,
    image_filesystem: Seen<FileSystem>,
    /// The images, in the order of `--sort-by`.
    #[serde(rename = "images")]
    entries: Vec<ImageEntry>,
    /// Bytes of all images, and of those that no container uses without what they share with others.
    #[serde(skip)]
    sums: [u64; 2],
}

#[derive(JsonSchema, Serialize)]
struct ImageEntry {
    id: ImageId,
    /// Names of the image, `repository:tag`.
    tags: Vec<String>,
    #[serde(flatten)]
    size: Size,
    /// Whether the runtime marks the image as not to be removed.
    pinned: bool,
    /// The first pass that listed the image; `null` = not recorded.
    first_seen: Option<Timestamp>,
    /// The last pass in which the image was in use; `null` = not recorded.
    last_used: Option<Timestamp>,
    /// A container that used the image in that pass, as namespace/pod/container; `null` = not recorded.
    last_used_by: Option<String>,
    /// The containers that use the image, in any state.
    users: Vec<User>,
    /// The pattern of `images.keep` that matches, if it decides.
    keep_rule: Option<String>,
    /// What a pass does: `remove`, `next_in_line` or `keep`.
    decision: &'static str,
    /// Why.
    reason: String,
}

/// A container that uses an image.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct User {
    /// The container, as namespace/pod/container; without a pod its name.
    pub(super) name: String,
    /// The ID of the container.
    id: String,
    /// Whether it is running.
    running: bool,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "images",
            examples: &[
                ("List the images by size", "kubegc images"),
                ("List those that were used least recently first", "kubegc images --sort-by last-used"),
                ("Print only ids", "kubegc images -q"),
            ],
            formats: LIST,
            words: &["ls", "list", "get", "ps"],
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let loaded = &start.load()?;
        let policy = &loaded.settings.policy;
        let (snapshot, plan) = match &self.snapshot {
            Some(file) => Snapshots::open(file)?.planned(policy)?,
            None => block_on(plan_now(loaded, Scope::All, [Part::Store]))?,
        };
        let images = Images::new(&snapshot, &plan, policy, self.sort_by);
        let ids = images.entries.iter().map(|image| image.id.as_str());
        if self.quiet {
            output.names(ids.map(str::to_owned))?;
        } else {
            output.list(&Document::of(&images), ids.map(|id| reference(Kind::Image, id)), || images.text())?;
        }
        all_seen(&plan)
    }
}

/// Returns the containers that use an image.
pub(super) fn users(users: &ImageUsers, image: &Image) -> Vec<User> {
    let user = |container: &crate::model::Container| User {
        name: container.full_name(),
        id: container.id.to_string(),
        running: container.state == crate::model::ContainerState::Running,
    };
    users.of(image).into_iter().map(user).collect()
}

// === impl Images ===

impl Images {
    fn new(snapshot: &Snapshot, plan: &Plan, policy: &Policy, order: Order) -> Self {
        let (containers, store) = (ImageUsers::new(snapshot), SnapshotIndex::new(snapshot));
        let past: HashMap<_, _> = snapshot.memory.images.iter().map(|past| (past.id.as_str(), past)).collect();
        let decisions = plan.by_key();
        let entry = |image: Image| {
            let decision = decisions.get(&key(Kind::Image, image.id.as_str())).copied();
            let past = past.get(image.id.as_str());
            ImageEntry {
                users: users(&containers, &image),
                size: store.size_of(&image),
                id: image.id.clone(),
                tags: image.tags,
                pinned: image.pinned,
                first_seen: past.and_then(|past| past.first_seen),
                last_used: past.and_then(|past| past.last_used),
                last_used_by: past.and_then(|past| past.last_used_by.clone()),
                keep_rule: decision.and_then(keep_rule),
                decision: decision.map(Decision::as_str).unwrap_or_default(),
                reason: decision.map(|decision| decision.explain().phrase.into_owned()).unwrap_or_default(),
            }
        };
        let mut entries: Vec<_> = images(snapshot, &policy.guards).into_iter().map(entry).collect();
        sort(&mut entries, order);
        let (image_filesystem, sums) = (snapshot.image_filesystem.clone(), sums(&entries, &store));
        Self { at: snapshot.taken_at, image_filesystem, entries, sums }
    }

    fn text(&self) -> String {
        let rows = self.entries.iter().map(|image| image.row(self.at));
        format!("{}\n{}\n", IMAGES.text(rows), self.sum())
    }

    /// Formats the numbers that answer what fills the disk.
    fn sum(&self) -> String {
        let unused = self.entries.iter().filter(|image| image.users.is_empty()).count();
        let [all_bytes, unused_bytes] = self.sums.map(format::size);
        let all = format!(
            "{}, {all_bytes}. Not used by any container: {}, {unused_bytes}.",
            format::count(self.entries.len(), "image"),
            format::count(unused, "image"),
        );
        match &self.image_filesystem {
            Seen::Seen(disk) if disk.capacity_bytes > 0 => {
                let used = disk.used_bytes();
                let (used, capacity) = (format::size(used), format::size(disk.capacity_bytes));
                format!("{all}\nImage disk: {used} of {capacity} used.")
            }
            _ => all,
        }
    }
}

/// Returns the bytes of all images, and of those that no container uses: each part once, where the store is known.
fn sums(entries: &[ImageEntry], store: &SnapshotIndex<'_>) -> [u64; 2] {
    let (used, unused): (Vec<_>, Vec<_>) = entries.iter().partition(|image| !image.users.is_empty());
    let sum = |of: &[&ImageEntry]| of.iter().filter_map(|image| image.size.known()).fold(0, u64::saturating_add);
    let on_disk = |without: &[&ImageEntry]| store.get()?.bytes_without(without.iter().map(|image| &image.id));
    [on_disk(&[]).unwrap_or(sum(&used).saturating_add(sum(&unused))), on_disk(&used).unwrap_or(sum(&unused))]
}

/// Returns the pattern of `images.keep` that matches, if it decides.
fn keep_rule(decision: Decision<'_>) -> Option<String> {
    let Decision::Keep(Kept { reason: KeepReason::KeepPattern { pattern }, .. }) = decision else { return None };
    Some(pattern.clone())
}

fn sort(images: &mut [ImageEntry], order: Order) {
    images.sort_by(|a, b| (&a.tags, &a.id).cmp(&(&b.tags, &b.id)));
    match order {
        Order::Size => images.sort_by_key(|image| Reverse(image.size.known())),
        // An image in use was used last.
        Order::LastUsed => images.sort_by_key(|image| (!image.users.is_empty(), image.last_used)),
        Order::FirstSeen => images.sort_by_key(|image| image.first_seen.unwrap_or(Timestamp::MAX)),
    }
}

// === impl ImageEntry ===

impl ImageEntry {
    fn row(&self, now: Timestamp) -> [String; 10] {
        let wide = is_wide();
        let ago = |at: Timestamp| format::age(now.duration_since(at).as_secs());
        let name = self.tags.first().cloned().unwrap_or_else(|| "<none>".to_owned());
        let more = if self.tags.len() > 1 && !wide { format!(" +{}", self.tags.len() - 1) } else { String::new() };
        let last_used = if self.users.is_empty() { self.last_used.map_or("-".to_owned(), ago) } else { "now".into() };
        let tags = self.tags.get(1..).unwrap_or_default();
        [
            name + &more,
            if wide { self.id.to_string() } else { crate::model::short_id(self.id.as_str()).to_owned() },
            self.size.known().map(format::size).unwrap_or_default(),
            self.size.reported.map(format::size).unwrap_or_default(),
            self.first_seen.map(ago).unwrap_or_default(),
            last_used,
            self.used_by(),
            tags.join(","),
            if self.pinned { "pinned".to_owned() } else { String::new() },
            format!("{}: {}", self.decision.replace('_', " "), self.reason),
        ]
    }

    /// Names the containers that use the image, without repeating a container with several instances. The wide table also names
    /// the last user of an unused image.
    fn used_by(&self) -> String {
        let mut names: Vec<_> = self.users.iter().map(|user| user.name.as_str()).collect();
        names.dedup();
        match (names.as_slice(), &self.last_used_by) {
            ([], Some(last)) if is_wide() => format!("last: {last}"),
            ([first, others @ ..], _) if !is_wide() && !others.is_empty() => format!("{first} +{}", others.len()),
            (names, _) => names.join(","),
        }
    }
}
