//! `kubegc fleet pause` and `kubegc fleet resume`.

use jiff::Timestamp;

use super::selector::SelectorArgs;
use super::written_policy::{delete_policy, write_policy};
use crate::cli::args::times;
use crate::cli::cli_error::CliError;
use crate::cli::input::cluster::Source;
use crate::cli::input::session::block_on;
use crate::cli::render::output::Output;
use crate::fleet::{NodeDiskPolicySpec, PolicyPause};

/// Stop all removals on nodes until `kubegc fleet resume`
///
/// The pause is a NodeDiskPolicy. A pause of the same name is replaced.
#[derive(Debug, clap::Args)]
pub(super) struct PauseArgs {
    #[command(flatten)]
    nodes: SelectorArgs,
    /// End of the pause: a duration from now, or a time (UTC if it names no zone)
    #[arg(long, value_name = "WHEN", value_parser = times::from_now)]
    until: Option<Timestamp>,
    /// Why, as status and events on the nodes show it
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Name of the policy
    #[arg(long, value_name = "NAME", default_value = "pause")]
    name: String,
}

/// End a pause of nodes
#[derive(Debug, clap::Args)]
pub(super) struct ResumeArgs {
    /// Name of the policy
    #[arg(long, value_name = "NAME", default_value = "pause")]
    name: String,
}

// === impl PauseArgs ===

impl PauseArgs {
    pub(super) fn run(&self, source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
        let paused = Some(PolicyPause { reason: self.reason.clone(), until: self.until });
        let spec = NodeDiskPolicySpec { node_selector: self.nodes.selector.clone(), paused, ..Default::default() };
        let connection = source.patient_connection();
        block_on(write_policy(&connection, &self.name, &spec))?;
        let until = self.until.map(|until| format!(" until {until:.0}")).unwrap_or_default();
        output.text(&format!("nodediskpolicy.kubegc.dev/{} applied: paused{until}\n", self.name))
    }
}

// === impl ResumeArgs ===

impl ResumeArgs {
    pub(super) fn run(&self, source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
        let connection = source.patient_connection();
        let is_deleted = block_on(delete_policy(&connection, &self.name))?;
        let result = if is_deleted { "deleted" } else { "not found" };
        output.text(&format!("nodediskpolicy.kubegc.dev/{} {result}\n", self.name))
    }
}
