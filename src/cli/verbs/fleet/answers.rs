//! Which nodes follow a policy, and what they answer to a list of images.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::{Instant, sleep};

use super::overview_page::Fleet;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::render::format;
use crate::cli::render::output::Output;
use crate::daemon::now;
use crate::fleet::{ListAnswer, NodeAnswer, NodeSelector, NodeStatus};
use crate::kubernetes::Connection;

const INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
pub(super) struct WaitArgs {
    /// Wait for all nodes that are heard, at most this long
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, num_args = 0..=1, default_missing_value = "15m")]
    pub wait: Option<Duration>,
}

// === impl WaitArgs ===

impl WaitArgs {
    /// Prints how many nodes follow a change of a policy, with `--wait` again as more do.
    pub(super) async fn show(
        &self,
        connection: &Connection,
        selector: Option<&NodeSelector>,
        follows: impl Fn(&NodeStatus) -> bool,
        output: &mut Output,
    ) -> Result<(), CliError> {
        let (begun, mut shown) = (Instant::now(), None);
        loop {
            let read = Fleet::read(connection, selector).await;
            let fleet = match (read, self.wait) {
                // The policy is written all the same.
                (Err(error), None) => return output.text(&format!("it is not known which nodes follow: {error}\n")),
                (read, _) => read?,
            };
            let [following, waiting, silent] = by_answer(&fleet, &follows);
            let count = following.len();
            if shown.replace(count) != Some(count) {
                output.text(&format!("{count} of {} follow\n", format::count(fleet.nodes.len(), "node")))?;
                output.flush()?;
            }
            match self.wait {
                None => return Ok(()),
                Some(wait) if waiting.is_empty() || begun.elapsed() >= wait => {
                    return not_reached(waiting.len() + silent.len(), "do not follow", silent.into_iter());
                }
                Some(_) => sleep(INTERVAL).await,
            }
        }
    }
}

/// Returns the nodes that follow, those that do not yet, and those whose agents are not heard.
fn by_answer(fleet: &Fleet, follows: impl Fn(&NodeStatus) -> bool) -> [Vec<&String>; 3] {
    let is_heard = |node: &&String| NodeAnswer::of(fleet.disks.get(*node), "", 0, now()) != NodeAnswer::NotReached;
    let (heard, silent): (Vec<_>, Vec<_>) = fleet.nodes.iter().partition(is_heard);
    let (following, waiting) = heard.into_iter().partition(|node| fleet.disks.get(*node).is_some_and(&follows));
    [following, waiting, silent]
}

fn not_reached<'n>(missing: usize, what: &str, silent: impl Iterator<Item = &'n String>) -> Result<(), CliError> {
    if missing == 0 {
        return Ok(());
    }
    let silent: Vec<_> = silent.take(3).cloned().collect();
    let named = if silent.is_empty() { String::new() } else { format!(", not heard: {}", format::list(&silent)) };
    let message = format!("{} {what}{named}", format::count(missing, "node"));
    Err(CliError::message(ErrorKind::Partial, message).hint("kubegc fleet shows why"))
}

#[derive(Default)]
struct Answers {
    by_node: BTreeMap<String, ListAnswer>,
    waiting: usize,
    not_reached: BTreeSet<String>,
}

/// Prints each answer as it comes, until all nodes have answered that are heard.
pub(super) async fn show_answers(
    connection: &Connection,
    selector: Option<&NodeSelector>,
    policy: &ObjectMeta,
    wait: Duration,
    output: &mut Output,
) -> Result<(), CliError> {
    let (begun, mut shown) = (Instant::now(), BTreeMap::new());
    loop {
        let fleet = Fleet::read(connection, selector).await?;
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

    fn end(&self, output: &mut Output) -> Result<(), CliError> {
        let sum = |of: fn(&ListAnswer) -> u64| self.by_node.values().map(of).sum::<u64>();
        let (removed, absent, kept) = (sum(|it| it.removed), sum(|it| it.absent), sum(|it| it.kept));
        let nodes = format::count(self.by_node.len(), "node");
        output.text(&format!("{nodes} answered: {removed} removed, {absent} absent, {kept} kept.\n"))?;
        not_reached(self.waiting + self.not_reached.len(), "did not answer", self.not_reached.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_follows_if_its_agent_is_heard_and_shows_it() {
        let nodes = ["follows", "waits", "silent", "absent"].map(str::to_owned);
        let status = |policies: &[&str], at| {
            let policies = policies.iter().map(|name| (*name).to_owned()).collect();
            NodeStatus { at: Some(at), policies, ..NodeStatus::default() }
        };
        let long_ago = jiff::Timestamp::UNIX_EPOCH;
        let shown = [status(&["pause"], now()), status(&["other"], now()), status(&["pause"], long_ago)];
        let fleet = Fleet { nodes: nodes.to_vec(), disks: nodes.clone().into_iter().zip(shown).collect() };
        let names = by_answer(&fleet, |node| node.policies.contains(&"pause".to_owned()));
        let names = names.map(|names| names.into_iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(names, [vec!["follows"], vec!["waits"], vec!["silent", "absent"]]);
        let error = not_reached(3, "do not follow", nodes[2..].iter()).unwrap_err();
        assert!(error.to_string().contains("3 nodes do not follow, not heard: silent and absent"), "{error}");
        assert!(not_reached(0, "do not follow", nodes.iter()).is_ok());
    }

    #[test]
    fn a_line_has_what_became_of_the_images() {
        let notes = vec!["app:1: in use by x".to_owned()];
        let mut answer = ListAnswer::default();
        (answer.removed, answer.kept, answer.notes) = (2, 1, notes);
        assert_eq!(line("node-7", &answer), "node-7: removed 2, kept 1 (app:1: in use by x)\n");
    }
}
