//! `kubegc report`.

use std::fs;
use std::path::PathBuf;

use jiff::Timestamp;

use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::session::{Observed, all_seen, block_on, observe, recorded_blocking};
use crate::cli::render::output::{Format, Output};
use crate::cli::verb::{LOOKS, Start, Verb, VerbFacts};
use crate::config::Settings;
use crate::daemon::now;
use crate::observe::Part;
use crate::page::{Contents, Document, Facts, Outlook, Past, html};
use crate::plan::{Pressure, Scope, decide, disk_account};
use crate::record::HistoryFilter;
use crate::store::disk_by_pod;

/// The runs of a month: one a minute for the last day, and those of each day that removed something.
const RUNS: usize = 20_000;
/// Removals that are named.
const REMOVALS: usize = 50;

/// Write an HTML page about this node: disk usage, removals, and what would be removed next (read-only)
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File to write [default: standard output]
    file: Option<PathBuf>,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "report",
            examples: &[("Write the page to a file", "kubegc report node.html")],
            formats: &[Format::Html, Format::Json],
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let loaded = &start.load()?;
        let planned = block_on(async {
            let Observed { snapshot, plan, runtime } =
                observe(loaded, Scope::All, Part::ACCOUNT.into_iter().chain([Part::PodUsage, Part::DiskContents]))
                    .await?;
            if let Some(error) = runtime {
                return Err(error);
            }
            let under_pressure =
                decide(&snapshot, &loaded.settings.policy.under_pressure(Pressure::Requested {}), Scope::All);
            // Without an account the page has no such section.
            let contents = disk_account(&snapshot, &plan).map(|account| Contents::new(account, disk_by_pod(&snapshot)));
            let outlook = Outlook::new(&plan, Some(&under_pressure), &[]).with_contents(contents.unwrap_or_default());
            Ok((plan, outlook))
        });
        let (plan, outlook, error) = match planned {
            Ok((plan, outlook)) => (Some(plan), Ok(outlook), None),
            Err(error) => (None, Err(error.to_string()), Some(error)),
        };
        let node = plan.as_ref().map_or(&loaded.settings.node, |plan| &plan.node);
        let document = document(&loaded.settings, node, outlook);
        let text = match output.format.unwrap_or(Format::Html) {
            Format::Json => serde_json::to_string(&document)? + "\n",
            _ => html(&document),
        };
        match &self.file {
            None => output.text(&text)?,
            Some(file) => fs::write(file, text).map_err(|error| cannot_write(file, &error))?,
        }
        error.map_or_else(|| plan.map_or(Ok(()), |plan| all_seen(&plan)), Err)
    }
}

fn cannot_write(file: &std::path::Path, error: &std::io::Error) -> CliError {
    CliError::message(ErrorKind::Usage, format!("cannot write {}: {error}", file.display()))
}

/// Returns what the page shows of this node.
pub(super) fn document(settings: &Settings, node: &str, outlook: Result<Outlook, String>) -> Document {
    let at = now();
    let facts = Facts {
        node: if node.is_empty() { "this node" } else { node }.to_owned(),
        at,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        mode: <&str>::from(settings.mode).to_owned(),
        profile: settings.policy.profile.to_string(),
        high_percent: settings.policy.images.high_threshold_percent,
        low_percent: settings.policy.images.low_threshold_percent,
    };
    Document { facts, past: past(settings, at), outlook }
}

fn past(settings: &Settings, at: Timestamp) -> Past {
    let read = || -> Result<Past, CliError> {
        let store = recorded_blocking(settings)?;
        let filter = HistoryFilter { limit: Some(REMOVALS), ..HistoryFilter::default() };
        Ok(Past {
            usage: store.usage(Past::usage_since(at))?,
            runs: store.runs(RUNS)?,
            removals: store.history(&filter)?,
            error: None,
        })
    };
    read().unwrap_or_else(|error| Past { error: Some(error.to_string()), ..Past::default() })
}
