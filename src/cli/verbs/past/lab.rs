//! `kubegc lab`.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::args::times;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::documents::Snapshots;
use crate::cli::input::session;
use crate::cli::render::format;
use crate::cli::render::output::{Document, Output};
use crate::cli::render::tables::LAB;
use crate::cli::verb::{READS_FILES, Start, TEXT, Verb, VerbFacts};
use crate::config::{Loaded, Settings};
use crate::lab::{Replay, Ruler, Suggestion, Totals, all_unused, of_kubelet, suggest};
use crate::model::{Pulls, Trace};
use crate::plan::{ImagePolicy, Policy};

/// Replay the last 30 days of images under other settings
///
/// The service records when images appear, are used and are removed. This command decides the same passes with the settings of its
/// flags and of --config, and compares them with those of the agent and with what happened. It does not touch the node.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Replay since a duration (7d), a date (2026-11-21) or a time (2026-11-21T12:00, UTC without a zone)
    #[arg(long, value_name = "WHEN", value_parser = times::before_now, default_value = "30d")]
    since: Timestamp,
    /// Replay the trace of a snapshot instead of this node (- for standard input)
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Search for settings that would have pulled less again
    ///
    /// They are chosen by the first half of the time, and judged by the second half.
    #[arg(long)]
    suggest: bool,
}

/// What replays of a trace show.
#[derive(JsonSchema, Serialize)]
pub(in crate::cli) struct Lab {
    since: Timestamp,
    /// When they end.
    until: Timestamp,
    /// The passes over images in this time.
    passes: usize,
    /// The images of the trace.
    images: usize,
    /// The settings in force are those of the agent of the node, not those of the files of this machine.
    is_of_agent: bool,
    /// The high threshold in force, in percent, with which all replays are measured.
    high_threshold_percent: u64,
    /// Free bytes below which the kubelet evicts pods, with which they are measured too; `null` = no limit.
    eviction_below_bytes: Option<u64>,
    /// What happened, with the removals of `history` and their measured bytes; `null` = the trace has no history.
    happened: Option<Totals>,
    /// The replays. The first has the settings in force.
    replays: Vec<PolicyReplay>,
    /// Settings that the replays find better; `null` = not requested.
    suggestion: Option<Suggestion>,
}

#[derive(JsonSchema, Serialize)]
struct PolicyReplay {
    /// `in_force`, `tried` (those of the command line), `kubelet` or `all_unused`.
    policy: &'static str,
    /// What it counts.
    #[serde(flatten)]
    totals: Totals,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "lab",
            examples: &[
                ("Compare the settings in force with others", "kubegc lab --set images.high_threshold_percent=70"),
                ("Try a whole configuration on the last week", "kubegc lab --since 7d --config new.toml"),
                ("Search for better settings", "kubegc lab --suggest"),
                ("Replay the trace of another machine", "kubegc lab --snapshot node.json"),
            ],
            formats: TEXT,
            words: &["replay", "simulate"],
            ..READS_FILES
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let tried = start.load()?;
        let (trace, pulls) = self.read(&tried)?;
        let settings = match &trace.agent {
            Some(agent) => [Settings::of_agent(agent), start.global.load_upon(agent, start.environment)?.settings],
            None => [start.load_in_force()?.settings, tried.settings],
        };
        let lab = Lab::new(self, &trace, pulls, settings)?;
        output.result(&Document::of(&lab), || lab.text())
    }
}

impl Args {
    /// Reads the trace, and how long pulls take.
    fn read(&self, loaded: &Loaded) -> Result<(Trace, Arc<Pulls>), CliError> {
        let none = |hint| CliError::message(ErrorKind::Usage, "no trace of images").hint(hint);
        if let Some(file) = &self.snapshot {
            let snapshot = Snapshots::open(file)?.first()?;
            let trace = snapshot.trace.ok_or_else(|| none("`kubegc snapshot --trace` adds one"))?;
            return Ok((trace, snapshot.memory.pulls));
        }
        let recorded = Some(session::trace(&loaded.settings)?).filter(|(trace, _)| !trace.disk.is_empty());
        recorded.ok_or_else(|| none("the service records one; run it for some days"))
    }
}

// === impl Lab ===

impl Lab {
    fn new(args: &Args, trace: &Trace, pulls: Arc<Pulls>, [before, tried]: [Settings; 2]) -> Result<Self, CliError> {
        let passes = trace.disk.iter().map(|sample| sample.at).filter(|at| *at >= args.since);
        let (Some(since), Some(last)) = (passes.clone().min(), passes.clone().max()) else {
            let error = CliError::message(ErrorKind::Usage, format!("no pass over images since {:.0}", args.since));
            return Err(error.hint("use an earlier --since"));
        };
        let (in_force, tried) = (&before.policy, tried.policy);
        let high_threshold_percent = in_force.images.high_threshold_percent;
        let until = last + SignedDuration::from_secs(1);
        let eviction = if trace.agent.is_some() { in_force.eviction } else { tried.eviction };
        let ruler = Ruler { since, until, counts_since: since, high_threshold_percent, eviction, pulls };
        let changes = |images: &ImagePolicy| {
            let policy = Policy { images: images.clone(), ..in_force.clone() };
            Settings { policy, ..before.clone() }.changes_of(&before)
        };
        let policies = [
            ("in_force", Some(in_force.clone())),
            ("tried", Some(tried).filter(|tried| tried != in_force)),
            ("kubelet", Some(of_kubelet(in_force))),
            ("all_unused", Some(all_unused(in_force))),
        ];
        let replay = |(policy, of): (&'static str, Option<Policy>)| {
            Some(PolicyReplay { policy, totals: Replay::of(trace, &of?, &ruler).totals })
        };
        Ok(Self {
            since,
            until: last,
            passes: passes.count(),
            images: trace.images.len(),
            is_of_agent: trace.agent.is_some(),
            high_threshold_percent,
            eviction_below_bytes: trace.disk.last().and_then(|last| ruler.eviction_below(&last.file_system)),
            happened: trace.removals.as_ref().map(|removals| Totals::happened(trace, removals, &ruler, args.since)),
            replays: policies.into_iter().filter_map(replay).collect(),
            suggestion: args.suggest.then(|| suggest(trace, in_force, &ruler, changes)),
        })
    }

    fn text(&self) -> String {
        let days = format::age(self.until.duration_since(self.since).as_secs());
        let (passes, images) = (self.passes, format::count(self.images, "image"));
        let happened = self.happened.iter().map(|totals| row("happened".to_owned(), totals));
        let replays = self.replays.iter().map(|replay| row(replay.name(), &replay.totals));
        let table = LAB.text(happened.chain(replays));
        let suggestion = self.suggestion.as_ref().map(|suggestion| self.suggested(suggestion)).unwrap_or_default();
        let evictions =
            self.eviction_below_bytes.map(|bytes| format!(", evictions begin below {} free", format::size(bytes)));
        let files = "the files of this machine, because those of an agent are not known";
        let rows = if self.happened.is_some() { "All rows except `happened`" } else { "All rows" };
        format!(
            "{images} in {days} since {:.0}, {passes} passes over them; the high threshold is {}%{}\n\
             {rows} are replays; in force are the settings of {}.\n\n{table}{suggestion}",
            self.since,
            self.high_threshold_percent,
            evictions.unwrap_or_default(),
            if self.is_of_agent { "the agent" } else { files },
        )
    }

    fn suggested(&self, of: &Suggestion) -> String {
        if of.settings.is_empty() {
            let in_force = self.replays.first();
            let is_better = |row: &&PolicyReplay| in_force.is_some_and(|it| row.totals.is_better(&it.totals));
            let better: Vec<_> = self.replays.iter().filter(is_better).map(PolicyReplay::name).collect();
            let rows = if better.is_empty() { "none".to_owned() } else { format::list(&better) };
            return format!(
                "\nNo thresholds, maximum age or order was better on the first half. Rows better on the whole time: {rows}.\n"
            );
        }
        let rows = [
            row("in force, first half".to_owned(), &of.first_half_in_force),
            row("suggested, first half".to_owned(), &of.first_half),
            row("in force, second half".to_owned(), &of.second_half_in_force),
            row("suggested, second half".to_owned(), &of.second_half),
        ];
        let settings = of.settings.join("\n  ").replace("\"0s\"", "\"0s\" (off)");
        format!(
            "\nSuggested, chosen by the first half:\n  {settings}\n\n{}\nThe second half, since {:.0}, did not choose them: its rows \
             show what to expect. Other days may differ.\n",
            LAB.text(rows),
            of.second_half_since
        )
    }
}

// === impl PolicyReplay ===

impl PolicyReplay {
    fn name(&self) -> String {
        self.policy.replace('_', " ")
    }
}

fn row(settings: String, totals: &Totals) -> [String; 7] {
    let with_bytes = |count: u64, bytes| format!("{count} ({})", format::size(bytes));
    [
        settings,
        format!("{}%", totals.peak_used_percent),
        format::age(totals.above_high_threshold_seconds),
        format::age(totals.above_eviction_seconds),
        with_bytes(totals.removed, totals.removed_bytes),
        with_bytes(totals.pulled_again, totals.pulled_again_bytes),
        format::age(i64::try_from(totals.pulled_again_seconds).unwrap_or(i64::MAX)),
    ]
}
