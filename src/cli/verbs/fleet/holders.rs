//! `kubegc fleet images`: the nodes that have an image, and what uses it there.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::explained;
use super::overview_page::heard;
use super::selector::SelectorArgs;
use super::written_policy::LIMIT;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::cluster::Source;
use crate::cli::input::session::block_on;
use crate::cli::render::format;
use crate::cli::render::grid::table;
use crate::cli::render::output::Output;
use crate::fleet::{FleetImage, ImageState, ListedImages, NodeImagesSpec, WantedImage};
use crate::kubernetes::{ApiResource, Connection, FleetObject, KubernetesError, list_image_users, list_objects};

/// The pods of so many nodes are listed at a time.
const LISTS_AT_ONCE: usize = 8;
/// The most pods in a line.
const MOST_PODS: usize = 2;

/// Show which nodes have an image, and which pods use it
///
/// Agents with `fleet = ["images"]` show the images of their nodes (NodeImages). Of other nodes the Node object names the 50 largest images, so
/// such a node can be unknown. The pods are those of the API server.
#[derive(Debug, clap::Args)]
pub(super) struct ImagesArgs {
    /// Name with a tag or a digest, digest or id (sha256:…), or repository
    #[arg(value_name = "IMAGE")]
    image: String,
    #[command(flatten)]
    nodes: SelectorArgs,
}

// === impl ImagesArgs ===

impl ImagesArgs {
    pub(super) fn run(&self, source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
        let wanted = WantedImage::read(&self.image).map_err(|fault| CliError::message(ErrorKind::Usage, fault))?;
        let connection = source.patient_connection();
        let nodes = block_on(async { self.look(&connection, &wanted).await.map_err(explained) })?;
        let (absent, mut nodes): (Vec<_>, Vec<_>) =
            nodes.into_iter().partition(|node| node.state == ImageState::Absent);
        nodes.sort_by(|one, other| (one.state, &one.node).cmp(&(other.state, &other.node)));
        let names = nodes.iter().map(|node| format!("node/{}", node.node));
        output.entries(&nodes, names, |is_wide| {
            let rows = nodes.iter().map(|node| row(node, is_wide));
            format!("{}\n{}\n", table(["NODE", "IMAGE", "USED BY", "SHOWN"], rows), summary(&nodes, absent.len()))
        })
    }

    /// Reads what the nodes show, and the pods of those that may have the image.
    async fn look(&self, connection: &Connection, wanted: &WantedImage) -> Result<Vec<FleetImage>, KubernetesError> {
        let resources = [ApiResource::nodes(), ApiResource::node_images()];
        let nodes = list_objects::<FleetObject<ListedImages>>(connection, &resources[0], LIMIT);
        let shown = async {
            match list_objects::<FleetObject<NodeImagesSpec>>(connection, &resources[1], LIMIT).await {
                Err(error) if error.cause.code() == Some(404) => Ok(Vec::new()),
                shown => shown,
            }
        };
        let (nodes, shown) = tokio::try_join!(nodes, shown)?;
        let shown: BTreeMap<_, _> = shown.into_iter().filter_map(|it| Some((it.name, it.part.ok()?))).collect();
        let selector = self.nodes.selector.as_ref();
        let nodes = nodes.into_iter().filter(|node| selector.is_none_or(|it| it.matches(&node.labels) == Ok(true)));
        let nodes = nodes.map(async |node: FleetObject<ListedImages>| {
            let mut image = wanted.on(&node.name, shown.get(&node.name), &node.part.unwrap_or_default());
            if image.state != ImageState::Absent {
                let users = list_image_users(connection, &node.name, LIMIT).await?;
                let users = users.into_iter().filter(|user| user.images.iter().any(|name| wanted.is(name)));
                image.add_users(users.map(|user| user.pod).collect());
            }
            Ok(image)
        });
        stream::iter(nodes).buffered(LISTS_AT_ONCE).try_collect().await
    }
}

fn row(node: &FleetImage, is_wide: bool) -> [String; 4] {
    let most = if is_wide { node.used_by.len() } else { MOST_PODS };
    let more = node.used_by.len().saturating_sub(most);
    let pods = node.used_by.iter().take(most).cloned().chain((more > 0).then(|| format!("{more} more")));
    let shown = node.shown_at.map_or_else(|| "by the Node".to_owned(), |at| format!("{} ago", heard(at)));
    [node.node.clone(), <&str>::from(node.state).to_owned(), pods.collect::<Vec<_>>().join(", "), shown]
}

/// Returns the last line, as `4 nodes: 1 used, 1 unused, 0 unknown, 2 absent.`
fn summary(nodes: &[FleetImage], absent: usize) -> String {
    let count = |state| nodes.iter().filter(|node| node.state == state).count();
    let [used, unused, unknown] = [ImageState::Used, ImageState::Unused, ImageState::Unknown].map(count);
    let all = format::count(nodes.len() + absent, "node");
    format!("{all}: {used} used, {unused} unused, {unknown} unknown, {absent} absent.")
}
