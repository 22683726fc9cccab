//! `kubegc fleet images`: the nodes that have an image, and what uses it there.

use std::collections::BTreeMap;

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
use crate::daemon::now;
use crate::fleet::{FleetImage, ImageState, NodeImagesSpec, StatusImages, WantedImage};
use crate::kubernetes::{
    ApiResource, Connection, FleetObject, ImageUser, KubernetesError, list_image_users, list_objects,
};

/// The most nodes whose pods are listed one by one.
const MOST_LISTS: usize = 8;
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
        let nodes = list_objects::<FleetObject<StatusImages>>(connection, &resources[0], LIMIT);
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
        let on = |node: FleetObject<StatusImages>| {
            wanted.on(&node.name, shown.get(&node.name), &node.part.unwrap_or_default(), now())
        };
        let mut nodes: Vec<_> = nodes.map(on).collect();
        let users = users_on(connection, &nodes).await?;
        let users: Vec<_> = users.into_iter().filter(|user| user.images.iter().any(|name| wanted.is(name))).collect();
        for node in &mut nodes {
            let of_node = users.iter().filter(|user| user.node == node.node);
            node.add_users(of_node.map(|user| user.pod.clone()).collect());
        }
        Ok(nodes)
    }
}

/// Lists the pods of the nodes that may have the image; those of all nodes at once if they are many.
async fn users_on(connection: &Connection, nodes: &[FleetImage]) -> Result<Vec<ImageUser>, KubernetesError> {
    let nodes: Vec<_> = nodes.iter().filter(|node| node.state != ImageState::Absent).collect();
    if nodes.len() > MOST_LISTS {
        return list_image_users(connection, None, LIMIT).await;
    }
    let mut users = Vec::new();
    for node in nodes {
        users.extend(list_image_users(connection, Some(&node.node), LIMIT).await?);
    }
    Ok(users)
}

fn row(node: &FleetImage, is_wide: bool) -> [String; 4] {
    let most = if is_wide { node.used_by.len() } else { MOST_PODS };
    let more = node.used_by.len().saturating_sub(most);
    let pods = node.used_by.iter().take(most).cloned().chain((more > 0).then(|| format!("{more} more")));
    let shown = node.shown_at.map_or_else(|| "by the Node".to_owned(), |at| format!("{} ago", heard(at)));
    [node.node.clone(), <&str>::from(node.state).to_owned(), pods.collect::<Vec<_>>().join(", "), shown]
}

/// Returns the last line, as `4 nodes: 1 used, 1 present, 0 unknown, 2 absent.`
fn summary(nodes: &[FleetImage], absent: usize) -> String {
    let count = |state| nodes.iter().filter(|node| node.state == state).count();
    let [used, present, unknown] = [ImageState::Used, ImageState::Present, ImageState::Unknown].map(count);
    let all = format::count(nodes.len() + absent, "node");
    format!("{all}: {used} used, {present} present, {unknown} unknown, {absent} absent.")
}
