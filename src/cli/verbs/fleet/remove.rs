//! `kubegc fleet remove`: images that all nodes remove while they are unused.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::{Instant, sleep};

use super::overview_page::Fleet;
use super::selector::SelectorArgs;
use super::written_policy::write_policy;
use crate::cli::args::times;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::cluster::Source;
use crate::cli::input::listed_images;
use crate::cli::input::session::block_on;
use crate::cli::render::format;
use crate::cli::render::output::Output;
use crate::daemon::now;
use crate::fleet::{ImageList, ListAnswer, NodeAnswer, NodeDiskPolicySpec};
use crate::kubernetes::Connection;

/// How often the answers are read.
const INTERVAL: Duration = Duration::from_secs(2);

/// Remove unused images from all nodes, until a time
///
/// The list is a NodeDiskPolicy. Each node removes these images in its passes over images while they are unused, under its own guards, and
/// answers. A node that joins before the list expires does so too. A list of the same name is replaced; `kubegc fleet resume --name NAME` ends
/// it.
#[derive(Debug, clap::Args)]
pub(super) struct RemoveArgs {
    /// Names with a tag or a digest, digests (sha256:…), or repositories
    #[arg(value_name = "IMAGE", required_unless_present = "list")]
    images: Vec<String>,
    /// File with a name on each line, or a report of Trivy in JSON (- for standard input)
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    #[command(flatten)]
    nodes: SelectorArgs,
    /// End of the list: a duration from now, or a time (UTC if it names no zone)
    #[arg(long, value_name = "WHEN", value_parser = times::from_now, default_value = "30d")]
    expires: Timestamp,
    /// Name of the policy
    #[arg(long, value_name = "NAME", default_value = "remove")]
    name: String,
    /// Wait for the answers of all nodes, at most this long
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, num_args = 0..=1, default_missing_value = "15m")]
    wait: Option<Duration>,
}

/// What the nodes answered.
#[derive(Default)]
struct Answers {
    by_node: BTreeMap<String, ListAnswer>,
    waiting: usize,
    not_reached: BTreeSet<String>,
}

// === impl RemoveArgs ===

impl RemoveArgs {
    pub(super) fn run(&self, source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
        let list = self.image_list()?;
        let (node_selector, remove_images) = (self.nodes.selector.clone(), Some(list));
        let spec = NodeDiskPolicySpec { node_selector, remove_images, ..NodeDiskPolicySpec::default() };
        let connection = source.patient_connection();
        block_on(async {
            let written = write_policy(&connection, &self.name, &spec).await?;
            output.text(&format!("nodediskpolicy.kubegc.dev/{} applied until {:.0}\n", self.name, self.expires))?;
            output.flush()?;
            match self.wait {
                Some(wait) => self.answers(&connection, &written, wait, output).await,
                None => Ok(()),
            }
        })
    }

    /// Returns the list. A word without a tag and a digest is a repository.
    fn image_list(&self) -> Result<ImageList, CliError> {
        let mut words = self.images.clone();
        words.extend(self.list.as_deref().map(listed_images::of_file).transpose()?.unwrap_or_default());
        let mut list = ImageList { expires: Some(self.expires), ..ImageList::default() };
        for word in words {
            list.add(word);
        }
        let fault = list.fault().or_else(|| list.is_empty().then(|| "the list names no image".to_owned()));
        match fault {
            Some(fault) => Err(CliError::message(ErrorKind::Usage, format!("cannot remove images: {fault}"))),
            None => Ok(list),
        }
    }

    /// Prints each answer as it comes, until all nodes have answered that are heard.
    async fn answers(
        &self,
        connection: &Connection,
        policy: &ObjectMeta,
        wait: Duration,
        output: &mut Output,
    ) -> Result<(), CliError> {
        let (begun, mut shown) = (Instant::now(), BTreeMap::new());
        loop {
            let fleet = Fleet::read(connection, self.nodes.selector.as_ref()).await?;
            let answers = Answers::of(&fleet, policy);
            for (node, answer) in &answers.by_node {
                if shown.insert(node.clone(), answer.clone()).as_ref() != Some(answer) {
                    output.text(&line(node, answer))?;
                }
            }
            output.flush()?;
            if answers.waiting == 0 || begun.elapsed() >= wait {
                return answers.end(output);
            }
            sleep(INTERVAL).await;
        }
    }
}

/// Returns the line about a node, as `node-7: removed 1, kept 1 (app:1: in use by default/web/app)`.
fn line(node: &str, answer: &ListAnswer) -> String {
    let counts = [("removed", answer.removed), ("absent", answer.absent), ("kept", answer.kept)];
    let counts: Vec<_> =
        counts.iter().filter(|(_, count)| *count > 0).map(|(word, count)| format!("{word} {count}")).collect();
    let notes = if answer.notes.is_empty() { String::new() } else { format!(" ({})", answer.notes.join("; ")) };
    format::printable(&format!("{node}: {}{notes}", counts.join(", "))) + "\n"
}

// === impl Answers ===

impl Answers {
    fn of(fleet: &Fleet, policy: &ObjectMeta) -> Self {
        let (uid, generation) = (policy.uid.as_deref().unwrap_or_default(), policy.generation.unwrap_or_default());
        let mut answers = Self::default();
        for node in &fleet.nodes {
            match NodeAnswer::of(fleet.disks.get(node), uid, generation, now()) {
                NodeAnswer::Answered(answer) => drop(answers.by_node.insert(node.clone(), answer.clone())),
                NodeAnswer::Waiting => answers.waiting += 1,
                NodeAnswer::NotReached => drop(answers.not_reached.insert(node.clone())),
            }
        }
        answers
    }

    /// Prints the sums. Nodes that did not answer are an error.
    fn end(&self, output: &mut Output) -> Result<(), CliError> {
        let sum = |of: fn(&ListAnswer) -> u64| self.by_node.values().map(of).sum::<u64>();
        let (removed, absent, kept) = (sum(|it| it.removed), sum(|it| it.absent), sum(|it| it.kept));
        let nodes = format::count(self.by_node.len(), "node");
        output.text(&format!("{nodes} answered: {removed} removed, {absent} absent, {kept} kept.\n"))?;
        let missing = self.waiting + self.not_reached.len();
        if missing == 0 {
            return Ok(());
        }
        let silent: Vec<_> = self.not_reached.iter().take(3).cloned().collect();
        let named = if silent.is_empty() { String::new() } else { format!(", not heard: {}", format::list(&silent)) };
        let message = format!("{} did not answer{named}", format::count(missing, "node"));
        let error = CliError::message(ErrorKind::Partial, message);
        Err(error
            .hint("they remove the images when their agents are back, until the list expires; kubegc fleet shows why"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_became_of_the_images() {
        let notes = vec!["app:1: in use by x".to_owned()];
        let mut answer = ListAnswer::default();
        (answer.removed, answer.kept, answer.notes) = (2, 1, notes);
        assert_eq!(line("node-7", &answer), "node-7: removed 2, kept 1 (app:1: in use by x)\n");
    }
}
