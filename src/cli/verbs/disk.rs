//! `kubegc disk`.

mod advice;
mod by_pod;
mod next_steps;

use std::path::PathBuf;

use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::documents::Snapshots;
use crate::cli::input::session::{Observed, all_seen, block_on, observe, warn_of_other_settings};
use crate::cli::render::format;
use crate::cli::render::output::{Document, Output, is_wide};
use crate::cli::render::tables::{DISK, DISK_IMAGES, DISK_LARGEST, DISK_LAYERS, DISK_OTHERS, DISK_SHARED};
use crate::cli::verb::{LOOKS, ROWS, Start, Verb, VerbFacts};
use crate::config::{ConfigError, Loaded};
use crate::model::{DirUsage, Seen, at_least_text};
use crate::observe::Part;
use crate::plan::{Plan, Policy, Scope, disk_account};
use crate::store::{Category, CategoryEntry, DiskAccount, DiskSpace, LargeEntry, LeftEntry, disk_by_pod};
use advice::{advice, planned_images};
use next_steps::next_steps;

/// Show what fills the disks of the node
///
/// It shows each file system that holds images, pod logs or the kubelet's pods, and ends with what a collection would free. Each
/// byte counts once. A layer that several images share counts for the most important of them. The sizes are those on the disk, not
/// those in a registry. "Everything else" is what no list and no walk has found.
///
/// kubegc reads the store of containerd through its API, and the store of CRI-O from its files. It walks over everything else on the
/// disks for at most 3 s; a size with ">=" was not reached by then. Without a runtime it shows the rest.
///
/// With --by it shows what each pod or namespace takes instead: writable layers, volumes on the disks of the node, log files.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show at most N entries of each list; 0 for all
    #[arg(long, default_value_t = 10, value_name = "N")]
    top: usize,
    /// Show the account of a snapshot instead of this node (- for standard input)
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Show what each pod or namespace takes on the disks of the node
    #[arg(long, value_enum)]
    by: Option<By>,
    /// Walk over the disks without a limit on the time
    #[arg(long, conflicts_with = "snapshot")]
    full: bool,
}

/// What the rows are.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum By {
    /// One row for each pod
    Pod,
    /// One row for each namespace
    Namespace,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "disk",
            examples: &[
                ("Show what fills the disks", "kubegc disk"),
                ("Show every image, layer and blob", "kubegc disk --top 0 -o wide"),
            ],
            formats: ROWS,
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let (loaded, faults) = start.load_in_part()?;
        let shown = run(self, &loaded, output);
        if faults.is_empty() { shown } else { Err(ConfigError { faults }.into()) }
    }
}

/// Prints the account. What cannot be read is left out, and then the error is returned.
fn run(args: &Args, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let walks = [
        Some(Part::PodUsage),
        args.by.is_none().then_some(Part::DiskContents),
        args.full.then_some(Part::UnlimitedWalks),
    ];
    let Observed { snapshot, plan, runtime } = if let Some(file) = &args.snapshot {
        let (snapshot, plan) = Snapshots::open(file)?.planned(&loaded.settings.policy)?;
        Observed { snapshot, plan, runtime: None }
    } else {
        warn_of_other_settings(loaded);
        block_on(observe(loaded, Scope::All, Part::ACCOUNT.into_iter().chain(walks.into_iter().flatten())))?
    };
    let most = if args.top == 0 { usize::MAX } else { args.top };
    if let Some(by) = args.by {
        let printed = by_pod::print(&disk_by_pod(&snapshot), by, most, output);
        return runtime.map_or(printed, Err);
    }
    let (account, runtime) = match (disk_account(&snapshot, &plan), runtime) {
        (Ok(account), runtime) => (account, runtime),
        (Err(_), Some(error)) => return Err(error),
        (Err(cause), None) => {
            return Err(CliError::message(ErrorKind::Partial, format!("cannot account for the disks: {cause}")));
        }
    };
    output.result(&Document::of(&account), || text(&account, &plan, &loaded.settings.policy, most))?;
    if let Some(error) = runtime {
        return Err(error);
    }
    let cause = match &snapshot.store {
        Seen::Seen(_) => return all_seen(&plan),
        Seen::NotSeen(cause) => format!("store of the runtime: {cause}"),
        Seen::NotRead => "the snapshot has no store of the runtime".to_owned(),
    };
    Err(CliError::message(ErrorKind::Partial, format!("cannot account for the images: {cause}")))
}

fn text(account: &DiskAccount, plan: &Plan, policy: &Policy, most: usize) -> String {
    let sections = account.disks().flat_map(|disk| [disk_text(disk), largest(disk, most)]);
    let sections = sections.chain([
        images(account, plan, most),
        shared(account, most),
        writable_layers(account, most),
        others(account, most),
        unlisted(account),
        tasks(account, most),
    ]);
    let missing = account.missing.iter().map(|missing| format!("Not read: {}\n", format::printable(missing)));
    let sections = sections.chain([missing.collect(), next_steps(account, plan, policy), advice(account, plan)]);
    sections.filter(|section| !section.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Returns how full a disk is, and the categories.
fn disk_text(space: &DiskSpace) -> String {
    let DiskSpace { holds, disk, used_bytes, used_inodes, .. } = space;
    let holds: Vec<_> = holds.iter().map(|of| of.phrase().to_owned()).collect();
    let inodes = disk.inodes.zip(*used_inodes).map(|(all, used)| format!(", {used} of {all} inodes"));
    let head = format!(
        "Disk of {}, {}: {} of {} used ({}){}.",
        format::list(&holds),
        disk.mountpoint.display(),
        format::size(*used_bytes),
        format::size(disk.capacity_bytes),
        percent(*used_bytes, disk.capacity_bytes),
        inodes.unwrap_or_default(),
    );
    format!("{head}\n\n{}", categories(space))
}

/// Returns the largest besides the store of the runtime.
fn largest(space: &DiskSpace, most: usize) -> String {
    let row = |entry: &LargeEntry| {
        let DirUsage { bytes, inodes: count, at_least: is_least } = entry.usage;
        let held_by = if entry.held_by.is_empty() { "-" } else { &entry.held_by };
        [
            entry.name.clone(),
            held_by.to_owned(),
            at_least_text(is_least, bytes),
            entry.category.phrase().to_owned(),
            count.to_string(),
        ]
    };
    let rows = space.largest.iter().map(row);
    section(space.largest.len(), most, "directories, volumes and files", |most| DISK_LARGEST.text(rows.take(most)))
}

fn categories(space: &DiskSpace) -> String {
    let mut entries: Vec<_> = space.categories.iter().filter(|entry| entry.bytes > 0 || entry.objects > 0).collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.bytes));
    let row = |entry: &&CategoryEntry| {
        let objects = if entry.objects == 0 { "-".to_owned() } else { entry.objects.to_string() };
        let disk = percent(entry.bytes, space.disk.capacity_bytes);
        [
            entry.category.phrase().to_owned(),
            at_least_text(entry.at_least, entry.bytes),
            disk,
            objects,
            entry.inodes.to_string(),
        ]
    };
    DISK.text(entries.iter().map(row))
}

fn images(account: &DiskAccount, plan: &Plan, most: usize) -> String {
    let planned = planned_images(plan);
    let rows = account.images.iter().map(|image| {
        let state = match image.category {
            Category::ImagesRemovable if planned.contains(image.id.as_str()) => "removed next",
            Category::ImagesRemovable => "unused, kept for now",
            other => other.phrase(),
        };
        [
            image.name.clone().unwrap_or_else(|| "<none>".to_owned()),
            id(image.id.as_str()),
            known(image.all_bytes),
            known(image.own_bytes),
            format!("{state}: {}", image.reason),
            image.own_inodes.to_string(),
        ]
    });
    section(account.images.len(), most, "images", |most| DISK_IMAGES.text(rows.take(most)))
}

fn shared(account: &DiskAccount, most: usize) -> String {
    let sets: Vec<_> = account.shared.iter().filter(|set| set.bytes > 0).collect();
    let rows = sets.iter().map(|set| {
        let names = match set.images.as_slice() {
            [first, others @ ..] if !is_wide() && others.len() > 1 => format!("{first} +{}", others.len()),
            names => names.join(", "),
        };
        let state = if set.removable { "all removable" } else { "in use or kept" };
        [names, format::size(set.bytes), state.to_owned(), set.inodes.to_string()]
    });
    section(sets.len(), most, "sets of images", |most| DISK_SHARED.text(rows.take(most)))
}

fn writable_layers(account: &DiskAccount, most: usize) -> String {
    let rows = account
        .writable_layers
        .iter()
        .map(|layer| [layer.name.clone(), id(layer.id.as_str()), known(layer.bytes), inodes(layer.inodes)]);
    section(account.writable_layers.len(), most, "writable layers", |most| DISK_LAYERS.text(rows.take(most)))
}

fn others(account: &DiskAccount, most: usize) -> String {
    let row = |part: &LeftEntry| {
        let kind: &str = part.kind.into();
        let held_by = if part.held_by.is_empty() { "nothing" } else { &part.held_by };
        let namespace = if part.namespace.is_empty() { "several" } else { &part.namespace };
        [
            format!("{kind} {}", part.name),
            namespace.to_owned(),
            held_by.to_owned(),
            known(part.bytes),
            part.age_seconds.map_or_else(|| "-".to_owned(), format::age),
            inodes(part.inodes),
        ]
    };
    let rows = account.others.iter().map(row);
    section(account.others.len(), most, "objects", |most| DISK_OTHERS.text(rows.take(most)))
}

/// Says what to do with images that the runtime has, and the CRI does not list.
fn unlisted(account: &DiskAccount) -> String {
    let is_there = |entry: &CategoryEntry| entry.category == Category::UnlistedImages && entry.objects > 0;
    if !account.first.categories.iter().any(is_there) {
        return String::new();
    }
    "Images not listed by the CRI lost content, as after a power loss, or are for another platform: pods cannot use them.\n\
     hint: `ctr -n k8s.io images check` shows what is missing, `crictl pull NAME` completes an image, `ctr -n k8s.io images rm NAME` \
     removes it\n"
        .to_owned()
}

/// Names what is left of tasks.
fn tasks(account: &DiskAccount, most: usize) -> String {
    let paths = account.tasks.iter().map(|path| format!("  {}\n", format::printable(path)));
    section(account.tasks.len(), most, "bundles, mounts and shims", |most| {
        let head =
            "Left of tasks whose containers no client of containerd has (containerd cleans up when it starts):\n";
        std::iter::once(head.to_owned()).chain(paths.take(most)).collect()
    })
}

/// Returns a list with a note of how many entries are left out, or nothing if it has none.
fn section(all: usize, most: usize, what: &str, list: impl FnOnce(usize) -> String) -> String {
    let more = match all.saturating_sub(most) {
        _ if all == 0 => return String::new(),
        0 => String::new(),
        more => format!("{more} more {what}: --top 0\n"),
    };
    format!("{}\n{more}", list(most).trim_end())
}

fn id(id: &str) -> String {
    if is_wide() { id.to_owned() } else { crate::model::short_id(id).to_owned() }
}

fn known(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "unknown".to_owned(), format::size)
}

fn inodes(inodes: Option<u64>) -> String {
    inodes.map_or_else(|| "-".to_owned(), |inodes| inodes.to_string())
}

fn percent(bytes: u64, of: u64) -> String {
    let tenths = u128::from(bytes) * 1000 / u128::from(of.max(1));
    format!("{}.{} %", tenths / 10, tenths % 10)
}
