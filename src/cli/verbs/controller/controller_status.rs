//! `kubegc controller status`.

use std::time::Duration;

use jiff::Timestamp;

use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::cluster::Source;
use crate::cli::input::session::block_on;
use crate::cli::render::format;
use crate::cli::render::output::{Document, Output};
use crate::cli::verb::{LOOKS, Start, TEXT, Verb, VerbFacts};
use crate::controller::{ClusterStatus, Collector, Leader};
use crate::daemon::now;

/// The longest wait for one answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Show the API server, what can be collected, and which processes collect
///
/// kubegc checks whether garbage collection is enabled in the API server by the deletion of a ConfigMap as a dry run, which
/// changes nothing. The exit status is 1 if it is disabled, or if a group-version is unavailable.
#[derive(Debug, clap::Args)]
pub struct Args {}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "controller status",
            examples: &[("Show which process collects", "kubegc controller status")],
            formats: TEXT,
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let loaded = start.load()?;
        let source = Source::new(&loaded, start);
        let connection = source.patient_connection();
        let lease = &source.settings().controller.lease;
        let status = block_on(async { Ok(ClusterStatus::read(&connection, lease, ANSWER, now).await?) })?;
        output.result(&Document::of(&status), || text(&status))?;
        match status.faults().as_slice() {
            [] => Ok(()),
            faults => Err(CliError::message(ErrorKind::Partial, faults.join("; "))),
        }
    }
}

fn text(status: &ClusterStatus) -> String {
    let version = format::seen(&status.server_version, "unknown", Clone::clone);
    let mut fields = vec![
        ("API server".to_owned(), format!("{version}, {}", status.server)),
        (
            "Resources".to_owned(),
            format!("{}, of which {} can be collected", status.resources, status.collected_resources),
        ),
    ];
    fields.extend(status.unavailable.iter().map(|group| ("Unavailable".to_owned(), group.to_string())));
    let enabled = format::seen(&status.garbage_collection, "unknown", |enabled| {
        let word = if *enabled { "enabled" } else { "disabled" };
        format!("{word} in the API server")
    });
    fields.push(("Garbage collection".to_owned(), enabled));
    for collector in &status.collectors {
        fields.push((collector.name.clone(), leader(collector, status.at)));
        fields.extend(attention(collector).map(|line| ("Needs attention".to_owned(), line.clone())));
    }
    format::fields(&fields)
}

/// Lists what the leader reports. What an earlier one has reported is not true any more.
fn attention(collector: &Collector) -> impl Iterator<Item = &String> {
    let leader = collector.leader.as_ref().and_then(Option::as_ref).filter(|leader| leader.is_active);
    leader.into_iter().flat_map(|leader| &leader.needs_attention)
}

fn leader(collector: &Collector, now: Timestamp) -> String {
    format::seen(&collector.leader, "unknown", |leader| match leader {
        None => format!("no leader: it does not run, or not with leader election (lease {})", collector.lease),
        Some(Leader { identity, renewed_at, is_active, .. }) => {
            let age = renewed_at.map_or(0, |renewed| now.duration_since(renewed).as_secs());
            let word = if *is_active { "active" } else { "not active" };
            format!("{word}, leader {identity}, lease {} renewed {} ago", collector.lease, format::age(age))
        }
    })
}
