//! `kubegc fleet images`: the nodes that have an image, and what uses it there.

use std::time::Duration;

use super::NODES_OF_IMAGE;
use super::answers::{WaitArgs, show_answers};
use super::explained;
use super::selector::SelectorArgs;
use super::written_policy::{LIMIT, delete_policy, write_policy};
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::cluster::Source;
use crate::cli::input::session::block_on;
use crate::cli::render::format;
use crate::cli::render::output::{Document, Format, Output, is_wide};
use crate::cli::verb::{LIST, LOOKS, Start, Verb, VerbFacts};
use crate::daemon::now;
use crate::fleet::{FleetImage, ImageList, ImageState, NodeDiskPolicySpec, StatusImages};
use crate::kubernetes::{
    ApiResource, Connection, FleetStatus, ImageUser, KubernetesError, list_image_users, list_objects,
};
use crate::model::ImageName;

/// The most nodes whose pods are listed one by one.
const MOST_LISTS: usize = 8;
const MOST_PODS: usize = 2;

/// Show which nodes have an image, and which pods use it
///
/// The Node object names the 50 largest images, so a node with more can be unknown. The pods are those of the API server. With --wait each
/// agent answers after its next pass over images whether the node has the image, and what keeps it: the question is a NodeDiskPolicy that
/// removes nothing, and ends with the command.
#[derive(Debug, clap::Args)]
pub(super) struct ImagesArgs {
    /// Name with a tag or a digest, digest or id (sha256:…), or repository
    #[arg(value_name = "IMAGE")]
    image: String,
    #[command(flatten)]
    nodes: SelectorArgs,
    #[command(flatten)]
    wait: WaitArgs,
}

// === impl ImagesArgs: the command ===

impl Verb for ImagesArgs {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "fleet images",
            examples: &[
                ("Show which nodes have an image", "kubegc fleet images registry.example.com/app:1.2"),
                (
                    "Let the agents of a pool answer for a repository",
                    "kubegc fleet images docker.io/library/redis -l pool=gpu --wait",
                ),
            ],
            formats: LIST,
            words: &["which nodes", "inventory"],
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let list = ImageList::of([self.image.clone()]).map_err(|fault| CliError::message(ErrorKind::Usage, fault))?;
        let connection = Source::new(&start.load()?, start).patient_connection();
        block_on(async {
            let nodes = self.look(&connection).await.map_err(explained)?;
            show(nodes, output)?;
            output.flush()?;
            match self.wait.wait {
                Some(wait) => self.ask(&connection, list, wait, output).await,
                None => Ok(()),
            }
        })
    }

    fn formats(&self) -> Option<(&'static str, &'static [Format])> {
        self.wait.wait.is_some().then_some(("fleet images --wait", &[]))
    }
}

impl ImagesArgs {
    async fn look(&self, connection: &Connection) -> Result<Vec<FleetImage>, KubernetesError> {
        let wanted = ImageName::from(self.image.as_str());
        let nodes = list_objects::<FleetStatus<StatusImages>>(connection, &ApiResource::nodes(), LIMIT).await?;
        let selector = self.nodes.selector.as_ref();
        let nodes =
            nodes.into_iter().filter(|node| selector.is_none_or(|it| it.matches(&node.metadata.labels) == Ok(true)));
        let mut nodes: Vec<_> = nodes
            .map(|node| FleetImage::on(&node.metadata.name, &wanted, &node.status.0.unwrap_or_default()))
            .collect();
        let users = users_on(connection, &nodes).await?;
        let users: Vec<_> = users.into_iter().filter(|user| wanted.is_among(&user.images)).collect();
        for node in &mut nodes {
            let of_node = users.iter().filter(|user| user.node == node.node);
            node.add_users(of_node.map(|user| user.pod.clone()).collect());
        }
        Ok(nodes)
    }

    /// Prints what the agents answer to a list that removes nothing. It has a name of its own, so that no other question replaces it.
    async fn ask(
        &self,
        connection: &Connection,
        list: ImageList,
        wait: Duration,
        output: &mut Output,
    ) -> Result<(), CliError> {
        let (node_selector, asked_at) = (self.nodes.selector.clone(), now());
        let list = ImageList { expires: asked_at.saturating_add(wait).ok(), dry_run: true, ..list };
        let spec = NodeDiskPolicySpec { node_selector, remove_images: Some(list), ..NodeDiskPolicySpec::default() };
        let name = format!("images-{}", asked_at.as_millisecond());
        let written = write_policy(connection, &name, &spec).await?;
        let answered = show_answers(connection, self.nodes.selector.as_ref(), &written, wait, output).await;
        delete_policy(connection, &name).await?;
        answered
    }
}

fn show(nodes: Vec<FleetImage>, output: &mut Output) -> Result<(), CliError> {
    let (absent, mut nodes): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|node| node.state == ImageState::Absent);
    nodes.sort_by(|one, other| (one.state, &one.node).cmp(&(other.state, &other.node)));
    let names = nodes.iter().map(|node| format!("node/{}", node.node));
    output.entries(&nodes.iter().map(Document::of).collect::<Vec<_>>(), names, || {
        format!("{}\n{}\n", NODES_OF_IMAGE.text(nodes.iter().map(row)), summary(&nodes, absent.len()))
    })
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

fn row(node: &FleetImage) -> [String; 3] {
    let most = if is_wide() { node.used_by.len() } else { MOST_PODS };
    let more = node.used_by.len().saturating_sub(most);
    let pods = node.used_by.iter().take(most).cloned().chain((more > 0).then(|| format!("{more} more")));
    [node.node.clone(), <&str>::from(node.state).to_owned(), pods.collect::<Vec<_>>().join(", ")]
}

/// Returns the last line, as `4 nodes: 1 used, 1 present, 0 unknown, 2 absent.`
fn summary(nodes: &[FleetImage], absent: usize) -> String {
    let count = |state| nodes.iter().filter(|node| node.state == state).count();
    let [used, present, unknown] = [ImageState::Used, ImageState::Present, ImageState::Unknown].map(count);
    let all = format::count(nodes.len() + absent, "node");
    format!("{all}: {used} used, {present} present, {unknown} unknown, {absent} absent.")
}
