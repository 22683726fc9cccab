//! `kubegc fleet pause` and `kubegc fleet resume`.

use jiff::Timestamp;

use super::answers::WaitArgs;
use super::selector::SelectorArgs;
use super::written_policy::{delete_policy, write_policy};
use crate::cli::args::times;
use crate::cli::cli_error::CliError;
use crate::cli::input::cluster::Source;
use crate::cli::input::session::block_on;
use crate::cli::render::output::Output;
use crate::cli::verb::{LOOKS, Start, Verb, VerbFacts};
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
    #[command(flatten)]
    wait: WaitArgs,
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

// === impl PauseArgs: the command ===

impl Verb for PauseArgs {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "fleet pause",
            examples: &[
                ("Stop all removals on all nodes", "kubegc fleet pause --reason incident-7"),
                (
                    "Stop them for four hours on some nodes",
                    "kubegc fleet pause --reason rollout -l pool=gpu --until 4h --name gpu",
                ),
            ],
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let connection = Source::new(&start.load()?, start).patient_connection();
        let paused = Some(PolicyPause { reason: self.reason.clone(), until: self.until });
        let spec = NodeDiskPolicySpec { node_selector: self.nodes.selector.clone(), paused, ..Default::default() };
        let until = self.until.map(|until| format!(" until {until:.0}")).unwrap_or_default();
        let selector = self.nodes.selector.as_ref();
        block_on(async {
            write_policy(&connection, &self.name, &spec).await?;
            output.text(&format!("nodediskpolicy.kubegc.dev/{} applied: paused{until}\n", self.name))?;
            self.wait.show(&connection, selector, |node| node.policies.contains(&self.name), output).await
        })
    }
}

// === impl ResumeArgs: the command ===

impl Verb for ResumeArgs {
    fn facts() -> &'static VerbFacts {
        &VerbFacts { name: "fleet resume", examples: &[("End the pause of all nodes", "kubegc fleet resume")], ..LOOKS }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let connection = Source::new(&start.load()?, start).patient_connection();
        let is_deleted = block_on(delete_policy(&connection, &self.name))?;
        let result = if is_deleted { "deleted" } else { "not found" };
        output.text(&format!("nodediskpolicy.kubegc.dev/{} {result}\n", self.name))
    }
}
