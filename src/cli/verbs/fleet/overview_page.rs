//! `kubegc fleet` without a subcommand: the nodes, worst first, or the page of one.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use clap::ValueEnum;
use jiff::Timestamp;

use super::NODES;
use super::explained;
use super::selector::SelectorArgs;
use super::written_policy::LIMIT;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::cluster::Source;
use crate::cli::input::session::block_on;
use crate::cli::render::format;
use crate::cli::render::node_page::{Beside, node_page};
use crate::cli::render::output::{Document, Output, is_wide};
use crate::cli::verb::{LIST, LOOKS, Start, Verb, VerbFacts};
use crate::daemon::now;
use crate::fleet::{FleetNode, NodeSelector, NodeState, NodeStatus, overview};
use crate::kubernetes::{ApiResource, Connection, FleetStatus, LabeledObject, list_objects};

#[derive(Debug, clap::Args)]
pub(super) struct NodesArgs {
    /// Show the page of this node
    node: Option<String>,
    #[command(flatten)]
    nodes: SelectorArgs,
    /// Order of the nodes
    #[arg(long, value_name = "COLUMN", value_enum, default_value_t = NodeOrder::State)]
    sort_by: NodeOrder,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum NodeOrder {
    /// Worst first
    State,
    /// By name
    Name,
    /// Fullest image disk first
    Used,
    /// Most reclaimable bytes first
    Reclaimable,
    /// Longest not heard first
    Heard,
}

pub(super) struct Fleet {
    pub nodes: Vec<String>,
    pub disks: BTreeMap<String, NodeStatus>,
}

// === impl NodesArgs: the command ===

impl Verb for NodesArgs {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "fleet",
            examples: &[
                ("List the nodes, worst first", "kubegc fleet"),
                ("List the fullest nodes of a pool first", "kubegc fleet -l pool=gpu --sort-by used"),
                ("Show what the agent of a node shows", "kubegc fleet node-7"),
            ],
            formats: LIST,
            words: &["nodes", "cluster", "top"],
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let connection = Source::new(&start.load()?, start).patient_connection();
        let fleet = block_on(Fleet::read(&connection, self.nodes.selector.as_ref()))?;
        match &self.node {
            Some(node) => fleet.page(node, output),
            None => self.list(&fleet, output),
        }
    }
}

impl NodesArgs {
    fn list(&self, fleet: &Fleet, output: &mut Output) -> Result<(), CliError> {
        let mut nodes = overview(&fleet.nodes, &fleet.disks, now());
        match self.sort_by {
            NodeOrder::State => {}
            NodeOrder::Name => nodes.sort_by(|one, other| one.node.cmp(&other.node)),
            NodeOrder::Used => nodes.sort_by_key(|node| Reverse(node.used_percent)),
            NodeOrder::Reclaimable => nodes.sort_by_key(|node| Reverse(node.reclaimable_bytes)),
            NodeOrder::Heard => nodes.sort_by_key(|node| node.heard_at),
        }
        let names = nodes.iter().map(|node| format!("node/{}", node.node));
        output.entries(&nodes.iter().map(Document::of).collect::<Vec<_>>(), names, || {
            format!("{}\n{}\n", NODES.text(nodes.iter().map(row)), summary(&nodes))
        })
    }
}

fn row(node: &FleetNode) -> [String; 8] {
    let size = |bytes: u64| if bytes == 0 { String::new() } else { format::size(bytes) };
    let shows_version = is_wide() || node.state == NodeState::Old;
    [
        node.node.clone(),
        word(node.state),
        node.used_percent.map(|percent| format!("{percent}%")).unwrap_or_default(),
        size(node.reclaimable_bytes),
        size(node.shortfall_bytes),
        node.heard_at.map_or_else(|| "never".to_owned(), heard),
        if shows_version { node.agent.clone() } else { String::new() },
        node.why.clone(),
    ]
}

pub(super) fn heard(at: Timestamp) -> String {
    format::age(now().duration_since(at).as_secs().max(0))
}

fn word(state: NodeState) -> String {
    <&str>::from(state).replace('_', " ")
}

/// Returns the last line, as `3 nodes: 1 short, 2 collects. 4.0GiB reclaimable.`
fn summary(nodes: &[FleetNode]) -> String {
    let mut counts: BTreeMap<NodeState, usize> = BTreeMap::new();
    for node in nodes {
        *counts.entry(node.state).or_default() += 1;
    }
    let counts: Vec<_> = counts.iter().map(|(state, count)| format!("{count} {}", word(*state))).collect();
    let reclaimable = nodes.iter().map(|node| node.reclaimable_bytes).fold(0, u64::saturating_add);
    let of = if counts.is_empty() { String::new() } else { format!(": {}", counts.join(", ")) };
    format!("{}{of}. {} reclaimable.", format::count(nodes.len(), "node"), format::size(reclaimable))
}

// === impl Fleet ===

impl Fleet {
    /// Reads the nodes that a selector selects, and what agents show.
    pub(super) async fn read(connection: &Connection, selector: Option<&NodeSelector>) -> Result<Self, CliError> {
        let resources = [ApiResource::nodes(), ApiResource::node_disks()];
        let nodes = list_objects::<LabeledObject>(connection, &resources[0], LIMIT);
        let disks = list_objects::<FleetStatus<NodeStatus>>(connection, &resources[1], LIMIT);
        let (nodes, disks) = tokio::try_join!(nodes, disks).map_err(explained)?;
        let is_selected = |node: &LabeledObject| selector.is_none_or(|it| it.matches(&node.labels) == Ok(true));
        let nodes = nodes.into_iter().filter(is_selected).map(|node| node.meta.name.to_string()).collect();
        // A status that cannot be read shows nothing of its node.
        let shown = disks.into_iter().map(|disk| (disk.metadata.name, disk.status.0.unwrap_or_default()));
        Ok(Self { nodes, disks: shown.collect() })
    }

    fn page(&self, node: &str, output: &mut Output) -> Result<(), CliError> {
        let name = node.strip_prefix("node/").unwrap_or(node).to_owned();
        if !self.nodes.contains(&name) {
            let error = CliError::message(ErrorKind::Usage, format!("there is no node {name:?}"));
            return Err(error.hint("kubegc fleet lists the nodes"));
        }
        let rows = overview(std::slice::from_ref(&name), &self.disks, now());
        let status = self.disks.get(&name).cloned().unwrap_or_default();
        output.result(&status, || rows.iter().map(|row| node_page(&status, beside(row), now())).collect())
    }
}

fn beside(node: &FleetNode) -> Beside {
    let state = [word(node.state), node.why.clone()].join(": ").trim_end_matches(": ").to_owned();
    let heard = node.heard_at.map_or_else(|| "never".to_owned(), |at| format!("{} ago", heard(at)));
    Beside { node: vec![("Node", node.node.clone()), ("Status", state), ("Heard", heard)], ..Beside::default() }
}
