//! `kubegc plan`.

use std::path::PathBuf;

use clap::ValueEnum;

use super::documents::Snapshots;
use super::overrides::Overrides;
use super::render::{self, Paint};
use super::session::{all_seen, block_on, look};
use super::{CliError, Format, Output};
use crate::config::Loaded;
use crate::model::Snapshot;
use crate::plan::{Plan, Scope, decide};

/// Say what would go and why the rest stays; change nothing
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan for these snapshots, not for this node: a file with one or more, or - for standard input
    ///
    /// With more than one, the plans are printed as JSON, one a line, unless -o says otherwise.
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// What to look at
    #[arg(long, value_enum, default_value = "all")]
    scope: ScopeArg,
    #[command(flatten)]
    what_if: Overrides,
}

/// What to look at.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ScopeArg {
    /// Containers, sandboxes and logs
    Containers,
    /// Images
    Images,
    /// Everything
    All,
}

// === impl ScopeArg ===

impl From<ScopeArg> for Scope {
    fn from(scope: ScopeArg) -> Self {
        match scope {
            ScopeArg::Containers => Self::Containers,
            ScopeArg::Images => Self::Images,
            ScopeArg::All => Self::All,
        }
    }
}

/// Plans and prints.
pub fn run(args: &Args, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let loaded = args.what_if.applied(loaded);
    let scope = args.scope.into();
    let under_pressure = |plan: Plan| Plan { pressure: args.what_if.pressure(), ..plan };
    if let Some(file) = &args.snapshot {
        let decide = |snapshot: &Snapshot| under_pressure(decide(snapshot, &loaded.settings.policy, scope));
        return offline(Snapshots::open(file)?, decide, output);
    }
    let (_, plan) = block_on(look(&loaded, scope))?;
    let plan = under_pressure(plan);
    print(&plan, output.format.unwrap_or(Format::Table), output)?;
    all_seen(&plan)
}

/// Plans each snapshot as it comes. Only where the format hangs on whether there is a second one, it is waited for.
fn offline(mut snapshots: Snapshots, decide: impl Fn(&Snapshot) -> Plan, output: &mut Output) -> Result<(), CliError> {
    let Some(first) = snapshots.next().transpose()? else { return Err(snapshots.empty()) };
    let first = decide(&first);
    let second = if output.format.is_none() { snapshots.next() } else { None };
    let format = output.format.unwrap_or(if second.is_some() { Format::Json } else { Format::Table });
    print(&first, format, output)?;
    for snapshot in second.into_iter().chain(snapshots) {
        print(&decide(&snapshot?), format, output)?;
    }
    Ok(())
}

/// Prints one plan.
pub(super) fn print(plan: &Plan, format: Format, output: &mut Output) -> Result<(), CliError> {
    match format {
        Format::Json => output.json(plan),
        Format::Yaml => output.yaml(plan),
        Format::Table | Format::Wide => {
            let text = render::plan(plan, format == Format::Wide, Paint { on: output.color });
            output.text(&text)
        }
    }
}
