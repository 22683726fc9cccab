//! `kubegc fleet mode`: lets nodes only observe, or collect, all at once or in steps.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::answers::WaitArgs;
use super::overview_page::Fleet;
use super::selector::SelectorArgs;
use super::written_policy::{delete_policy, write_policy};
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::cluster::Source;
use crate::cli::input::session::block_on;
use crate::cli::render::format;
use crate::cli::render::output::Output;
use crate::cli::verb::{LOOKS, Start, Verb, VerbFacts};
use crate::daemon::now;
use crate::fleet::{
    FleetNode, NodeDiskPolicy, NodeDiskPolicySpec, NodeState, PolicyMode, SILENT_AFTER, goes_ahead, overview,
};
use crate::kubernetes::Connection;

const INTERVAL: Duration = Duration::from_secs(10);
/// How long a step waits beyond `--every` for its nodes: a pass over images is due every 5 minutes, and a node that nothing changes on is heard
/// every 10.
const PATIENCE: Duration = SILENT_AFTER;

/// Let nodes only observe, or collect: all at once, or a share of them first
///
/// `observe` writes a NodeDiskPolicy by which passes only show what they would remove. `collect` ends it; with --canary it first ends it
/// for a share of the nodes, which their names decide, and then for more, while the command runs. A step ends when each of its nodes has
/// reported that it collects, and a pass over images since. If one does not, reports a failure, or is silent, the rollout stops there. The
/// files of a node must have `mode = "collect"`.
#[derive(Debug, clap::Args)]
pub(super) struct ModeArgs {
    /// Mode of the nodes
    #[arg(value_name = "MODE")]
    to: FleetMode,
    /// Share of the nodes that collects first, as 5%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    canary: Option<u8>,
    /// Share of the nodes that collects next (repeatable; at last, all do)
    #[arg(long, value_name = "SHARE", value_parser = share, requires = "canary")]
    then: Vec<u8>,
    /// How long each step lasts at least
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "1h", requires = "canary")]
    every: Duration,
    /// Print the policies of the steps instead of applying them
    #[arg(long)]
    plan: bool,
    #[command(flatten)]
    nodes: SelectorArgs,
    #[command(flatten)]
    wait: WaitArgs,
    /// Name of the policy
    #[arg(long, value_name = "NAME", default_value = "mode")]
    name: String,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum FleetMode {
    /// They show what they would remove.
    Observe,
    /// They remove it.
    Collect,
}

#[derive(Default)]
struct Confirmed {
    heard: Option<BTreeMap<String, Option<Timestamp>>>,
    nodes: BTreeSet<String>,
}

fn share(text: &str) -> Result<u8, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).parse().ok().filter(|percent| (1..100).contains(percent));
    percent.ok_or_else(|| "expected a share of the nodes from 1% to 99%".to_owned())
}

// === impl ModeArgs: the command ===

impl Verb for ModeArgs {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "fleet mode",
            examples: &[
                ("Let all nodes only observe", "kubegc fleet mode observe"),
                (
                    "Let them collect in steps of two hours",
                    "kubegc fleet mode collect --canary 5% --then 25% --every 2h",
                ),
                ("Print the policies of the steps", "kubegc fleet mode collect --canary 5% --then 25% --plan"),
            ],
            words: &["rollout", "canary"],
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let connection = Source::new(&start.load()?, start).patient_connection();
        let shares = self.shares()?;
        if self.plan {
            return self.print(&shares, output);
        }
        block_on(async {
            let (mut confirmed, selector) = (Confirmed::default(), self.nodes.selector.as_ref());
            for (step, share) in shares.iter().enumerate() {
                if self.to == FleetMode::Collect {
                    confirmed.look(&Fleet::read(&connection, selector).await?);
                }
                self.apply(&connection, *share, output).await?;
                if self.to == FleetMode::Collect {
                    self.watch(&connection, (step, *share), &mut confirmed, output).await?;
                }
            }
            if self.to == FleetMode::Collect {
                let is_deleted = delete_policy(&connection, &self.name).await?;
                let result = if is_deleted { "deleted: all nodes collect" } else { "not found" };
                output.text(&format!("nodediskpolicy.kubegc.dev/{} {result}\n", self.name))?;
            }
            let observes = self.to == FleetMode::Observe;
            self.wait.show(&connection, selector, |node| node.policies.contains(&self.name) == observes, output).await
        })
    }
}

impl ModeArgs {
    fn shares(&self) -> Result<Vec<u8>, CliError> {
        let steps: Vec<_> = self.canary.iter().chain(&self.then).copied().collect();
        match self.to {
            FleetMode::Observe if self.canary.is_some() => {
                Err(CliError::message(ErrorKind::Usage, "--canary is for `kubegc fleet mode collect`"))
            }
            FleetMode::Observe => Ok(vec![0]),
            FleetMode::Collect if steps.is_sorted_by(|one, next| one < next) => Ok(steps),
            FleetMode::Collect => {
                Err(CliError::message(ErrorKind::Usage, "each --then must be a larger share than the step before"))
            }
        }
    }

    fn spec(&self, share: u8) -> NodeDiskPolicySpec {
        let canary = (share > 0).then_some(share);
        let (node_selector, mode) = (self.nodes.selector.clone(), Some(PolicyMode::Observe));
        NodeDiskPolicySpec { node_selector, mode, canary, ..NodeDiskPolicySpec::default() }
    }

    fn print(&self, shares: &[u8], output: &mut Output) -> Result<(), CliError> {
        for (step, share) in shares.iter().enumerate() {
            let head = match (step, share) {
                (_, 0) => "# All nodes observe.".to_owned(),
                (0, share) => format!("# {share}% of the nodes collect."),
                (_, share) => {
                    format!("# After {}: {share}% of the nodes collect.", humantime::format_duration(self.every))
                }
            };
            let policy = serde_json::to_value(NodeDiskPolicy::new(&self.name, self.spec(*share)))
                .map_err(|error| CliError::message(ErrorKind::Partial, error.to_string()))?;
            output.text(&format!("{head}\n"))?;
            output.yaml(&policy)?;
        }
        if self.to == FleetMode::Collect {
            output.text("# At last, delete the policy: all nodes collect.\n")?;
        }
        Ok(())
    }

    async fn apply(&self, connection: &Connection, share: u8, output: &mut Output) -> Result<(), CliError> {
        write_policy(connection, &self.name, &self.spec(share)).await?;
        let nodes = if share == 0 { "all nodes observe".to_owned() } else { format!("{share}% of the nodes collect") };
        output.text(&format!("nodediskpolicy.kubegc.dev/{} applied: {nodes}\n", self.name))?;
        output.flush()
    }

    async fn watch(
        &self,
        connection: &Connection,
        (step, share): (usize, u8),
        confirmed: &mut Confirmed,
        output: &mut Output,
    ) -> Result<(), CliError> {
        let begun = Instant::now();
        loop {
            let fleet = Fleet::read(connection, self.nodes.selector.as_ref()).await?;
            confirmed.look(&fleet);
            let nodes = overview(&fleet.nodes, &fleet.disks, now());
            let ahead: Vec<_> = nodes.iter().filter(|node| goes_ahead(&node.node, share)).collect();
            if let Some(failed) = ahead.iter().find(|node| is_failure(node)) {
                return Err(self.stopped(share, &[failed]));
            }
            let left = self.every.saturating_sub(begun.elapsed());
            let missing: Vec<_> = ahead.iter().filter(|node| !confirmed.nodes.contains(&node.node)).copied().collect();
            let is_hopeless = missing.iter().any(|node| node.state == NodeState::NoAgent);
            match missing.len() {
                0 if left.is_zero() => {
                    let nodes = format::count(ahead.len(), "node");
                    output.text(&format!("step {}: {nodes} collected without a failure\n", step + 1))?;
                    return output.flush();
                }
                1.. if left.is_zero() && (is_hopeless || begun.elapsed() >= self.every + PATIENCE) => {
                    return Err(self.stopped(share, &missing));
                }
                _ => sleep(if left.is_zero() { INTERVAL } else { INTERVAL.min(left) }).await,
            }
        }
    }

    fn stopped(&self, share: u8, nodes: &[&FleetNode]) -> CliError {
        let named: Vec<_> = nodes.iter().map(|node| format!("{}: {}", node.node, why_stopped(node))).collect();
        let message = format!("the rollout stopped at {share}% of the nodes: {}", format::list(&named));
        let hint =
            format!("`kubegc fleet mode observe --name {}` stops these nodes too; repeat -l if it was set", self.name);
        CliError::message(ErrorKind::Partial, message).hint(hint)
    }
}

fn why_stopped(node: &FleetNode) -> &str {
    match node.state {
        NodeState::NoAgent => "no agent shows it",
        NodeState::Silent => "its agent is not heard",
        NodeState::Observes if node.why.is_empty() => "its files have mode \"observe\"",
        NodeState::Collects | NodeState::Old => "it has reported no pass over images since it collects",
        NodeState::Short if node.why.is_empty() => "its disk lacks space",
        _ => &node.why,
    }
}

fn is_failure(node: &FleetNode) -> bool {
    matches!(node.state, NodeState::Failing | NodeState::Short | NodeState::Silent)
}

// === impl Confirmed ===

impl Confirmed {
    /// Adds the nodes that have collected, and were heard since the first look: before it, an agent may have stopped.
    fn look(&mut self, fleet: &Fleet) {
        let at = || fleet.disks.iter().map(|(node, status)| (node.clone(), status.at)).collect();
        let heard = self.heard.get_or_insert_with(at);
        let is_new = |node: &String, at| heard.get(node).is_none_or(|before| *before != at);
        let collected = fleet.disks.iter().filter(|(node, status)| status.has_collected() && is_new(node, status.at));
        self.nodes.extend(collected.map(|(node, _)| node.clone()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_confirmed_once_it_reports_a_pass_over_images_since_it_collects() {
        let status = |at: u8, collects: &str, since: u8, pass: u8, scope: &str| {
            let time = |second: u8| format!("2026-11-21T12:00:{second:02}Z");
            let condition = json!({ "type": "Collecting", "status": collects, "lastTransitionTime": time(since) });
            let pass = json!({ "scope": scope, "at": time(pass) });
            json!({ "at": time(at), "conditions": [condition], "passes": [pass] })
        };
        let look = |confirmed: &mut Confirmed, status| {
            let disks = [("node-1".to_owned(), serde_json::from_value(status).unwrap())].into();
            confirmed.look(&Fleet { nodes: vec!["node-1".to_owned()], disks });
            confirmed.nodes.contains("node-1")
        };
        let mut confirmed = Confirmed::default();
        for (row, status, expected) in [
            ("what an agent wrote that has stopped since", status(10, "True", 0, 5, "images"), false),
            ("the same", status(10, "True", 0, 5, "images"), false),
            ("it observes", status(20, "False", 0, 19, "images"), false),
            ("it collects, and no pass has ended", status(30, "True", 30, 19, "images"), false),
            ("a pass over containers", status(40, "True", 30, 35, "containers"), false),
            ("a pass over images", status(50, "True", 30, 45, "images"), true),
            ("it counts in later steps", status(55, "True", 30, 45, "images"), true),
        ] {
            assert_eq!(look(&mut confirmed, status), expected, "{row}");
        }
    }

    #[test]
    fn a_share_is_a_percentage() {
        assert_eq!([share("5%"), share("99"), share("1%")], [Ok(5), Ok(99), Ok(1)]);
        for wrong in ["0%", "100%", "-5%", "half", "300%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
