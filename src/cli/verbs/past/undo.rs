//! `kubegc undo`.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::session::block_on;
use crate::cli::render::output::Output;
use crate::cli::render::tables::UNDO;
use crate::cli::verb::{LIST, LOOKS, Start, Verb, VerbFacts};
use crate::config::Loaded;
use crate::cri::{CriError, RuntimeReader, UndoLease};
use crate::daemon::node::LocalNode;
use crate::daemon::now;
use crate::execute::restore;
use crate::model::{Image, ImageId, short_id};

/// How long the runtime may take until it lists a restored image, and the time between two looks.
const LISTED_WITHIN: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);

/// Restore removed images without a registry
///
/// The images must have been removed by kubegc within `images.undo`, on containerd. Without an argument, the images are listed that can be
/// restored.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The images to restore, by name or id
    #[arg(value_name = "IMAGE", conflicts_with = "last")]
    images: Vec<String>,
    /// Restore all images that the last pass with such removals removed
    #[arg(long)]
    last: bool,
}

/// An image that can be or is restored.
#[derive(Serialize)]
struct KeptImage<'a> {
    id: &'a ImageId,
    names: Vec<&'a str>,
    removed_at: Timestamp,
    expires_at: Timestamp,
    restored: bool,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "undo",
            examples: &[
                ("List the images that can be restored", "kubegc undo"),
                ("Restore an image", "kubegc undo registry.example.com/app:1.2"),
                ("Restore all images that the last pass removed", "kubegc undo --last"),
            ],
            formats: LIST,
            words: &["restore", "revert", "rollback"],
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let loaded = start.load()?;
        block_on(run(self, &loaded, output))
    }
}

async fn run(args: &Args, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let node = LocalNode::find(loaded).await?;
    let reader = node.reader(&loaded.settings);
    let mut leases = reader.undo_leases().await.map_err(unsupported)?;
    leases.retain(|lease| lease.expires_at > now());
    if args.images.is_empty() && !args.last {
        return show(&leases, false, output);
    }
    let (mut restored, mut refused) = (Vec::new(), None);
    for lease in args.choose(leases)? {
        // The kubelet removes records of images that the runtime does not have, when it collects images itself (I21).
        if lease.has_pull_record && !LocalNode::has_pull_record(&loaded.settings, &removed_image(&lease)).await {
            refused = refused.or(Some(unprotected(&lease)));
            continue;
        }
        restore(&reader, &node.removals, &lease).await?;
        until_listed(&reader, &lease).await?;
        restored.push(lease);
    }
    if !restored.is_empty() {
        show(&restored, true, output)?;
    }
    refused.map_or(Ok(()), Err)
}

fn unprotected(lease: &UndoLease) -> CliError {
    let message = format!(
        "cannot restore {}: the kubelet's record of its pull is not there any more, and without it any pod could use the image",
        lease.image
    );
    CliError::message(ErrorKind::Partial, message)
        .hint("start a pod with the pull secret: the pull finds the layers on the disk")
}

impl Args {
    /// Returns the leases of the chosen images. Of several removals of one image, the last.
    fn choose(&self, mut leases: Vec<UndoLease>) -> Result<Vec<UndoLease>, CliError> {
        let nothing = |what: &str| {
            let error =
                CliError::message(ErrorKind::Usage, format!("cannot restore {what}: no such removal is kept for undo"));
            error.hint("`kubegc undo` lists the images that can be restored, and `kubegc history -o crictl` how to pull the others")
        };
        if self.last {
            let last = leases.iter().map(|lease| lease.pass).max().ok_or_else(|| nothing("images"))?;
            leases.retain(|lease| lease.pass == last);
            return Ok(leases);
        }
        let find = |name: &String| {
            let found = leases.iter().rev().find(|lease| is_named(lease, name));
            found.cloned().ok_or_else(|| nothing(&format!("{name:?}")))
        };
        self.images.iter().map(find).collect()
    }
}

/// Returns whether a removed image has this name, id, or beginning of an id.
fn is_named(lease: &UndoLease, name: &str) -> bool {
    let id = lease.image.as_str();
    let is_short = name.len() >= 6 && id.strip_prefix("sha256:").unwrap_or(id).starts_with(name);
    removed_image(lease).is_named(name) || is_short
}

/// Returns the image of a lease with all of its names.
fn removed_image(lease: &UndoLease) -> Image {
    let tags = lease.records.iter().map(|record| record.name.clone()).collect();
    Image { id: lease.image.clone(), tags, ..Image::default() }
}

/// Waits until the runtime lists a restored image: it learns of the record by an event.
async fn until_listed(reader: &RuntimeReader, lease: &UndoLease) -> Result<(), CliError> {
    let until = Instant::now() + LISTED_WITHIN;
    while reader.image(lease.image.as_str()).await?.is_none() {
        if Instant::now() > until {
            let error = format!("restored {}, but the runtime does not list it", lease.image);
            return Err(CliError::message(ErrorKind::Partial, error));
        }
        sleep(LOOK).await;
    }
    Ok(())
}

fn show(leases: &[UndoLease], restored: bool, output: &mut Output) -> Result<(), CliError> {
    let rows: Vec<_> = leases.iter().map(|lease| KeptImage::of(lease, restored)).collect();
    let names = leases.iter().map(|lease| format!("image/{}", lease.image));
    output.entries(&rows, names, || match rows.as_slice() {
        [] => "no removed image is kept for undo\n".to_owned(),
        rows => UNDO.text(rows.iter().map(KeptImage::row)),
    })
}

/// Explains that a runtime has no leases.
fn unsupported(error: CriError) -> CliError {
    if !error.is_unimplemented() {
        return error.into();
    }
    let message = "cannot restore images: the runtime has no leases, as only containerd has";
    CliError::message(ErrorKind::Usage, message.to_owned()).hint("`kubegc history -o crictl` prints how to pull them")
}

// === impl KeptImage ===

impl<'a> KeptImage<'a> {
    fn of(lease: &'a UndoLease, restored: bool) -> Self {
        let names =
            lease.records.iter().map(|record| record.name.as_str()).filter(|name| *name != lease.image.as_str());
        let UndoLease { image: id, pass: removed_at, expires_at, .. } = lease;
        Self { id, names: names.collect(), removed_at: *removed_at, expires_at: *expires_at, restored }
    }

    fn row(&self) -> [String; 5] {
        let tag = self.names.iter().find(|name| !name.contains('@')).or(self.names.first());
        [
            tag.map_or_else(|| "<none>".to_owned(), |name| (*name).to_owned()),
            short_id(self.id.as_str()).to_owned(),
            format!("{:.0}", self.removed_at),
            format!("{:.0}", self.expires_at),
            if self.restored { "yes".to_owned() } else { String::new() },
        ]
    }
}
