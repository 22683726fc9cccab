//! `kubegc fleet mode`: lets nodes only observe, or collect, all at once or in steps.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::overview_page::Fleet;
use super::selector::SelectorArgs;
use super::written_policy::{delete_policy, write_policy};
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::cluster::Source;
use crate::cli::input::session::block_on;
use crate::cli::render::format;
use crate::cli::render::output::Output;
use crate::daemon::now;
use crate::fleet::{FleetNode, NodeDiskPolicy, NodeDiskPolicySpec, NodeState, PolicyMode, goes_ahead, overview};
use crate::kubernetes::Connection;

/// How often the nodes of a step are read.
const INTERVAL: Duration = Duration::from_secs(10);

/// Let nodes only observe, or collect: all at once, or a share of them first
///
/// `observe` writes a NodeDiskPolicy by which passes only show what they would remove. `collect` ends it; with --canary it first ends it
/// for a share of the nodes, which their names decide, and then for more, while the command runs. If one of these nodes reports a failure, or
/// its agent is silent, the rollout stops there. The files of a node must have `mode = "collect"`.
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
    /// How long each step lasts
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "1h", requires = "canary")]
    every: Duration,
    /// Print the policies of the steps instead of applying them
    #[arg(long)]
    plan: bool,
    #[command(flatten)]
    nodes: SelectorArgs,
    /// Name of the policy
    #[arg(long, value_name = "NAME", default_value = "mode")]
    name: String,
}

/// What nodes do.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum FleetMode {
    /// They show what they would remove.
    Observe,
    /// They remove it.
    Collect,
}

/// Reads a share of nodes, as `5%`.
fn share(text: &str) -> Result<u8, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).parse().ok().filter(|percent| (1..100).contains(percent));
    percent.ok_or_else(|| "expected a share of the nodes from 1% to 99%".to_owned())
}

// === impl ModeArgs ===

impl ModeArgs {
    pub(super) fn run(&self, source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
        let shares = self.shares()?;
        if self.plan {
            return self.print(&shares, output);
        }
        let connection = source.patient_connection();
        block_on(async {
            for (step, share) in shares.iter().enumerate() {
                self.apply(&connection, *share, output).await?;
                if self.to == FleetMode::Collect {
                    self.watch(&connection, *share, step, output).await?;
                }
            }
            if self.to == FleetMode::Collect {
                let is_deleted = delete_policy(&connection, &self.name).await?;
                let result = if is_deleted { "deleted: all nodes collect" } else { "not found" };
                output.text(&format!("nodediskpolicy.kubegc.dev/{} {result}\n", self.name))?;
            }
            Ok(())
        })
    }

    /// Returns the share of the nodes that goes ahead in each step with a policy.
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

    /// Prints the policy of each step, as documents to apply one after the other.
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

    /// Waits for the end of a step.
    ///
    /// # Errors
    /// A node that goes ahead reports a failure.
    async fn watch(
        &self,
        connection: &Connection,
        share: u8,
        step: usize,
        output: &mut Output,
    ) -> Result<(), CliError> {
        let begun = Instant::now();
        loop {
            let fleet = Fleet::read(connection, self.nodes.selector.as_ref()).await?;
            let nodes = overview(&fleet.nodes, &fleet.disks, now());
            let ahead: Vec<_> = nodes.iter().filter(|node| goes_ahead(&node.node, share)).collect();
            if let Some(failed) = ahead.iter().find(|node| is_failure(node)) {
                return Err(self.stopped(share, failed));
            }
            if begun.elapsed() >= self.every {
                let sound =
                    ahead.iter().filter(|node| matches!(node.state, NodeState::Collects | NodeState::Old)).count();
                let nodes = format::count(ahead.len(), "node");
                output.text(&format!("step {}: {sound} of {nodes} collect without a failure\n", step + 1))?;
                return output.flush();
            }
            sleep(INTERVAL.min(self.every.saturating_sub(begun.elapsed()))).await;
        }
    }

    fn stopped(&self, share: u8, node: &FleetNode) -> CliError {
        let why = match node.state {
            NodeState::Silent => "its agent is not heard",
            _ if node.why.is_empty() => "its disk lacks space",
            _ => &node.why,
        };
        let message = format!("the rollout stopped at {share}% of the nodes: {}: {why}", node.node);
        let hint =
            format!("`kubegc fleet mode observe --name {}` stops these nodes too; repeat -l if it was set", self.name);
        CliError::message(ErrorKind::Partial, message).hint(hint)
    }
}

fn is_failure(node: &FleetNode) -> bool {
    matches!(node.state, NodeState::Failing | NodeState::Short | NodeState::Silent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage() {
        assert_eq!([share("5%"), share("99"), share("1%")], [Ok(5), Ok(99), Ok(1)]);
        for wrong in ["0%", "100%", "-5%", "half", "300%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
