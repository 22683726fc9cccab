//! `kubegc plan`.

use std::path::PathBuf;

use crate::cli::args::only::OnlyArgs;
use crate::cli::args::overrides::Overrides;
use crate::cli::args::values;
use crate::cli::cli_error::{CliError, ErrorKind, warn};
use crate::cli::input::documents::Snapshots;
use crate::cli::input::session::{Observed, all_seen, block_on, observe, warn_of_other_settings, warn_without_history};
use crate::cli::render::output::{Document, Format, Output, is_wide};
use crate::cli::render::{self, reference};
use crate::cli::verb::{LIST, LOOKS, Start, Verb, VerbFacts};
use crate::config::Loaded;
use crate::daemon::{failed_sources, now, suspension_of_files};
use crate::model::Snapshot;
use crate::observe::Part;
use crate::plan::{Plan, Scope, decide};

/// Show what would be removed, and why (read-only)
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan for snapshots in a file (- for standard input)
    ///
    /// A file may contain several snapshots. Their plans are printed as JSON, one per line, unless -o is set.
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Object kinds to plan for
    #[arg(long, value_parser = values::scopes(), default_value = "all")]
    scope: Scope,
    #[command(flatten)]
    only: OnlyArgs,
    #[command(flatten)]
    what_if: Overrides,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "plan",
            examples: &[
                ("Show what a pass would remove now, and why", "kubegc plan"),
                ("List each kept object too", "kubegc plan -o wide"),
                ("Show only the containers of one namespace", "kubegc plan --kind container -n shop"),
                ("Save a plan, to carry it out later", "kubegc plan -o json > plan.json"),
            ],
            formats: LIST,
            words: &["ls", "list", "get", "ps", "preview", "diff", "dry-run"],
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let loaded = &start.load()?;
        let loaded = self.only.applied(self.what_if.applied(loaded));
        let under_pressure = |plan: Plan| Plan { pressure: self.what_if.pressure().or(plan.pressure.clone()), ..plan };
        if let Some(file) = &self.snapshot {
            let decide = |snapshot: &Snapshot| {
                warn_of_patterns(snapshot, &loaded);
                let policy = &loaded.settings.policy;
                self.only.limit(under_pressure(decide(snapshot, policy, self.scope)), snapshot, policy)
            };
            return offline(Snapshots::open(file)?, decide, output);
        }
        let Observed { snapshot, plan, runtime } = block_on(async {
            let observed = observe(&loaded, self.scope, is_wide().then_some(Part::Store)).await?;
            if observed.runtime.is_none() {
                warn_without_history(&loaded.settings, output.format).await?;
            }
            Ok(observed)
        })?;
        if let Some(error) = runtime {
            if matches!(output.format, None | Some(Format::Table | Format::Wide)) {
                output.text(&render::disks(&plan))?;
            }
            return Err(error);
        }
        warn_of_patterns(&snapshot, &loaded);
        warn_of_other_settings(&loaded);
        if let Some(cause) = suspension_of_files(&loaded.settings, now()) {
            warn(&format!("{cause}; until then a pass removes nothing"));
        }
        let plan = self.only.limit(under_pressure(plan), &snapshot, &loaded.settings.policy)?;
        print(&plan, output)?;
        all_seen(&plan)?;
        let failed = failed_sources(&plan, &loaded.settings);
        failed.map_or(Ok(()), |failed| Err(CliError::message(ErrorKind::Partial, failed)))
    }
}

/// Prints a warning for each keep rule that keeps nothing now: it may have a typing error.
fn warn_of_patterns(snapshot: &Snapshot, loaded: &Loaded) {
    let Some(images) = snapshot.images.as_ref() else { return };
    let patterns = loaded.settings.policy.images.keep.iter();
    for pattern in patterns.filter(|pattern| !images.iter().any(|image| pattern.matches(image))) {
        warn(&format!("images.keep {:?} matches no image on this node now", pattern.as_str()));
    }
}

/// Makes a plan for each snapshot as soon as it is read. It waits for a second snapshot only if the format depends on
/// whether there is one. As on a node, an error follows the plans if a list that one of them needs is unavailable.
fn offline(
    mut snapshots: Snapshots,
    decide: impl Fn(&Snapshot) -> Result<Plan, CliError>,
    output: &mut Output,
) -> Result<(), CliError> {
    let Some(first) = snapshots.next().transpose()? else { return Err(snapshots.empty()) };
    let first = decide(&first)?;
    let mut seen = all_seen(&first);
    let second = if output.format.is_none() { snapshots.next() } else { None };
    output.format.get_or_insert(if second.is_some() { Format::Json } else { Format::Table });
    print(&first, output)?;
    for snapshot in second.into_iter().chain(snapshots) {
        let plan = decide(&snapshot?)?;
        print(&plan, output)?;
        seen = seen.and(all_seen(&plan));
    }
    seen
}

fn print(plan: &Plan, output: &mut Output) -> Result<(), CliError> {
    let names = plan.actions.iter().map(|action| reference(action.target.kind(), &action.target.id()));
    let paint = output.paint;
    output.list(&Document::of(plan), names, || render::plan(plan, paint))
}
