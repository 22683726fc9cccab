//! What the nodes answer to a list of images.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::{Instant, sleep};

use super::overview_page::Fleet;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::render::format;
use crate::cli::render::output::Output;
use crate::daemon::now;
use crate::fleet::{ListAnswer, NodeAnswer, NodeSelector};
use crate::kubernetes::Connection;

const INTERVAL: Duration = Duration::from_secs(2);

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
        let missing = self.waiting + self.not_reached.len();
        if missing == 0 {
            return Ok(());
        }
        let silent: Vec<_> = self.not_reached.iter().take(3).cloned().collect();
        let named = if silent.is_empty() { String::new() } else { format!(", not heard: {}", format::list(&silent)) };
        let message = format!("{} did not answer{named}", format::count(missing, "node"));
        let error = CliError::message(ErrorKind::Partial, message);
        Err(error.hint("kubegc fleet shows why"))
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
