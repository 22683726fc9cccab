//! `kubegc logs`.

mod log_export;
mod log_list;

use std::path::PathBuf;

use clap_complete::ArgValueCompleter;
use jiff::Timestamp;
use serde::Serialize;

use super::completions;
use crate::cli::args::kubectl_args::NamespaceArgs;
use crate::cli::args::times;
use crate::cli::cli_error::{CliError, ErrorKind, warn};
use crate::cli::input::lookup::{ambiguous, log_dirs};
use crate::cli::render::format;
use crate::cli::render::output::{Format, Output};
use crate::cli::verb::{READS_FILES, ROWS, Start, TEXT, Verb, VerbFacts};
use crate::config::{ConfigError, Loaded};
use crate::model::{LogDir, PodRef};
use crate::observe::{LogFile, LogLine, LogLines, LogQuery, LogWatch, LoggedContainer, PodLogs};
use crate::plan::LogPolicy;

/// Show the logs of pods on this node, also those of earlier instances
///
/// It reads the log files alone: rotated and compressed ones too, and without an API server, a runtime or a store. Without POD it lists the
/// pods that have logs.
///
/// As `kubectl logs`, it shows the newest instance of a container. A line that the runtime wrote in parts is one line, the rest of a line
/// after 1 MiB is the next one, and lines that are not in the format of the CRI are left out. With -o json each line is a document.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Pod: name, NAMESPACE/NAME, uid, or a part of these
    ///
    /// Of several pods that match, the one is taken that alone has logs of the time of --since. Otherwise they are listed.
    #[arg(add = ArgValueCompleter::new(completions::objects))]
    pod: Option<String>,
    /// Show this container, as with -c
    #[arg(value_name = "CONTAINER", conflicts_with_all = ["container", "all_containers"])]
    of: Option<String>,
    /// Show this container
    #[arg(short, long, value_name = "CONTAINER", requires = "pod")]
    container: Option<String>,
    /// Show all containers of the pod, with a prefix for each line
    #[arg(long, requires = "pod", conflicts_with = "container")]
    all_containers: bool,
    /// Show the instance before the newest one, or the N-th before it
    #[arg(short, long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "1", requires = "pod")]
    previous: Option<u32>,
    /// Show all instances, the oldest first
    #[arg(long, requires = "pod", conflicts_with = "previous")]
    all: bool,
    /// Show lines since a duration (1h), a date (2026-11-21) or a time (2026-11-21T12:00, UTC without a zone)
    #[arg(long, visible_alias = "since-time", value_name = "WHEN", value_parser = times::before_now, requires = "pod")]
    since: Option<Timestamp>,
    /// Show the last N lines of each container; -1 for all
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..), requires = "pod")]
    tail: Option<i64>,
    /// Show at most N bytes
    #[arg(long, value_name = "N", requires = "pod")]
    limit_bytes: Option<usize>,
    /// Begin each line with its pod and container
    #[arg(long, requires = "pod")]
    prefix: bool,
    /// Begin each line with its time (UTC)
    #[arg(long, requires = "pod")]
    timestamps: bool,
    /// Wait for new lines, also of later instances, until interrupted
    #[arg(short, long, requires = "pod", conflicts_with = "previous")]
    follow: bool,
    /// Copy the log files of the pod, and what is known of it, to a new directory instead
    #[arg(long, value_name = "DIR", requires = "pod", conflicts_with_all = ["all_containers", "previous", "all", "tail", "limit_bytes", "prefix", "timestamps", "follow"])]
    export: Option<PathBuf>,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// Configuration file, as -c of other commands
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// A line as a document.
#[derive(Serialize)]
struct LineView<'a> {
    pod: &'a PodRef,
    container: &'a str,
    #[serde(flatten)]
    line: &'a LogLine,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "logs",
            examples: &[
                ("List the pods that have logs", "kubegc logs -n shop"),
                ("Show the instance before the last restart", "kubegc logs shop/web-0 -c app --previous"),
                ("Show the last lines of all instances, and wait for more", "kubegc logs web-0 --all --tail 100 -f"),
                ("Copy the log files of a pod", "kubegc logs web-0 --export web-0-logs"),
            ],
            formats: ROWS,
            ..READS_FILES
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let (loaded, faults) = start.load_in_part()?;
        let shown = self.show(&loaded, output);
        if faults.is_empty() { shown } else { Err(ConfigError { faults }.into()) }
    }

    fn formats(&self) -> Option<(&'static str, &'static [Format])> {
        self.pod.is_some().then_some(("logs POD", TEXT))
    }

    fn config_file(&self) -> Option<&PathBuf> {
        self.config.as_ref()
    }
}

impl Args {
    fn show(&self, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
        let (settings, mut left_out) = (&loaded.settings, Vec::new());
        let archive = settings.policy.logs.archive_root();
        let roots = (&*settings.policy.logs.pods_root, &*archive);
        let pods = PodLogs::find(&settings.host_root, roots, &mut left_out);
        let mut pods = pods.map_err(|error| CliError::new(ErrorKind::Partial, error))?;
        pods.retain(|pod| self.namespace.includes(Some(&pod.pod)));
        let Some(word) = &self.pod else {
            log_list::print(&pods, settings, &mut left_out, output)?;
            warn_of(&left_out);
            return Ok(());
        };
        let (pod, containers) = self.one_of(&pods, word, &settings.policy.logs)?;
        let containers = self.chosen(&pod.pod, containers)?;
        match &self.export {
            Some(dir) => log_export::export(pod, &containers, dir, output),
            None => self.print(pod, &containers, output),
        }
    }

    /// Returns the pod that the word refers to, with its containers.
    fn one_of<'a>(
        &self,
        pods: &'a [PodLogs],
        word: &str,
        logs: &LogPolicy,
    ) -> Result<(&'a PodLogs, Vec<LoggedContainer>), CliError> {
        let dirs: Vec<_> = pods.iter().map(|pod| LogDir { name: pod.dir.clone(), ..LogDir::default() }).collect();
        let names = log_dirs(&dirs, logs, word);
        let mut left_out = Vec::new();
        let with_time = |pod: &'a PodLogs| {
            let containers = pod.containers(&mut left_out);
            (containers.iter().filter_map(LoggedContainer::modified_at).max(), pod, containers)
        };
        let found = pods.iter().filter(|pod| names.iter().any(|dir| dir.name == pod.dir));
        let mut found: Vec<_> = found.map(with_time).collect();
        found.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
        if found.len() > 1 && found.iter().filter(|(at, ..)| at.is_some() && *at >= self.since).count() != 1 {
            let label = |(at, pod, _): &(Option<Timestamp>, &PodLogs, _)| {
                let at = at.map_or_else(|| "never".to_owned(), |at| format!("{at:.0}"));
                format!("{} (uid {}), last written {at}", pod.pod.name_or_uid(), pod.pod.uid)
            };
            let error = ambiguous(word, &found.iter().map(label).collect::<Vec<_>>());
            return Err(error.hint("name one by its uid, or limit the time with --since"));
        }
        warn_of(&left_out);
        let nothing = || usage(format!("no pod with logs matches {word:?}"), "`kubegc logs` lists the pods");
        found.into_iter().next().map(|(_, pod, containers)| (pod, containers)).ok_or_else(nothing)
    }

    /// Returns the containers that are to be shown.
    fn chosen(&self, pod: &PodRef, mut containers: Vec<LoggedContainer>) -> Result<Vec<LoggedContainer>, CliError> {
        let names: Vec<_> = containers.iter().map(|container| container.name.clone()).collect();
        let names = format::printable(&format::list(&names));
        let wanted = self.container.as_ref().or(self.of.as_ref());
        containers.retain(|container| wanted.is_none_or(|name| container.name == *name));
        match (containers.len(), wanted) {
            (0, Some(name)) => {
                Err(usage(format!("pod {pod} has no logs of a container {name:?}"), format!("it has those of {names}")))
            }
            (2.., _) if !self.all_containers && self.export.is_none() => Err(usage(
                format!("pod {pod} has several containers: {names}"),
                "name one with -c, or show them with --all-containers",
            )),
            (0, None) => Err(partial(format!("pod {pod} has no log files"))),
            _ => Ok(containers),
        }
    }

    fn print(&self, pod: &PodLogs, containers: &[LoggedContainer], output: &mut Output) -> Result<(), CliError> {
        let watch = self.follow.then(|| LogWatch::new(pod, containers));
        let tail = self.tail.and_then(|lines| usize::try_from(lines).ok());
        let query = LogQuery { since: self.since, tail, follows: self.follow };
        let mut left = self.limit_bytes.unwrap_or(usize::MAX);
        let shown = |container| Ok((container, LogLines::new(&self.files(&pod.pod, container)?, query)));
        let mut shown = containers.iter().map(shown).collect::<Result<Vec<_>, CliError>>()?;
        loop {
            for (container, lines) in &mut shown {
                while left > 0
                    && let Some(line) = lines.next()
                {
                    self.line(&pod.pod, &container.name, &line, &mut left, output)?;
                }
            }
            if left == 0 {
                return Ok(());
            }
            let Some(watch) = watch.as_ref().filter(|_| !containers.iter().all(LoggedContainer::is_removed)) else {
                return ended(shown);
            };
            output.flush()?;
            watch.wait();
            for (container, lines) in &mut shown {
                for fault in lines.faults.drain(..) {
                    warn(&format!("cannot read {}", format::printable(&fault)));
                }
                lines.add_newer(container.list(&mut Vec::new()));
            }
        }
    }

    /// Returns the files of the instances that are to be shown.
    fn files(&self, pod: &PodRef, container: &LoggedContainer) -> Result<Vec<LogFile>, CliError> {
        let attempts = container.attempts();
        let wanted = attempts.last().and_then(|newest| newest.checked_sub(self.previous.unwrap_or_default()));
        let files = container.files.iter().filter(|file| self.all || Some(file.name.attempt) == wanted);
        let files: Vec<_> = files.cloned().collect();
        if files.is_empty() {
            let message = format!("pod {pod} has no log of that instance of container {:?}", container.name);
            return Err(usage(message, format!("it has those of attempt {}", log_list::attempts_text(&attempts))));
        }
        Ok(files)
    }

    /// Prints a line, of which at most `left` bytes, and takes them from it.
    fn line(
        &self,
        pod: &PodRef,
        container: &str,
        line: &LogLine,
        left: &mut usize,
        output: &mut Output,
    ) -> Result<(), CliError> {
        if matches!(output.format, Some(Format::Json | Format::Yaml)) {
            return output.document(&LineView { pod, container, line });
        }
        let mut text = Vec::with_capacity(line.message.len() + 256);
        if self.all_containers || self.prefix {
            text.extend(format!("[pod/{}/{}] ", pod.name, format::printable(container)).into_bytes());
        }
        if self.timestamps {
            text.extend(format!("{:.9} ", line.time).into_bytes());
        }
        text.extend_from_slice(&line.message);
        text.push(b'\n');
        text.truncate(*left);
        *left -= text.len();
        output.bytes(&text)
    }
}

/// Says which lines were left out. It is an error if a file could not be read.
fn ended(shown: Vec<(&LoggedContainer, LogLines)>) -> Result<(), CliError> {
    let mut faults = Vec::new();
    for (container, lines) in shown {
        if lines.omitted() > 0 {
            let count = format::count(lines.omitted(), "line");
            warn(&format!("left out {count} of container {:?} not in the format of the CRI", container.name));
        }
        faults.extend(lines.faults);
    }
    failed("read", &faults)
}

fn failed(action: &str, faults: &[String]) -> Result<(), CliError> {
    let faults: Vec<_> = faults.iter().map(|fault| format!("cannot {action} {}", format::printable(fault))).collect();
    if faults.is_empty() { Ok(()) } else { Err(partial(faults.join("\n"))) }
}

fn partial(message: String) -> CliError {
    CliError::message(ErrorKind::Partial, message)
}

fn usage(message: String, hint: impl Into<String>) -> CliError {
    CliError::message(ErrorKind::Usage, message).hint(hint)
}

fn warn_of(left_out: &[String]) {
    for path in left_out {
        warn(&format!("left out {}", format::printable(path)));
    }
}
