//! Reads one document, from a file or standard input.

use std::io::{self, Read as _};
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::document_table::Content;
use crate::cli::verbs::controller::plan_cluster::WholePlan;
use crate::owners::ClusterSnapshot;
use crate::plan::Plan;

/// What distinguishes documents.
#[derive(Deserialize)]
#[serde(expecting = "an object with `kind` and `version`")]
struct Head {
    kind: Option<String>,
    version: Option<u32>,
}

/// Reads a plan; `-` is standard input.
pub(in crate::cli) fn plan(path: &Path) -> Result<Plan, CliError> {
    let plan = read::<Plan, _>(path, "a plan to carry out");
    plan.map_err(|error| CliError::new(ErrorKind::Usage, error).hint("`kubegc plan -o json` prints one"))
}

/// Reads a snapshot of a cluster; `-` is standard input.
pub(in crate::cli) fn cluster_snapshot(path: &Path) -> Result<ClusterSnapshot, CliError> {
    let snapshot = read::<ClusterSnapshot, _>(path, "a snapshot of a cluster");
    snapshot.map_err(|error| CliError::new(ErrorKind::Usage, error).hint("`kubegc controller snapshot` prints one"))
}

/// Reads a plan of a cluster; `-` is standard input.
pub(in crate::cli) fn cluster_plan(path: &Path) -> Result<WholePlan, CliError> {
    let plan = read::<WholePlan, _>(path, "a plan of a cluster");
    plan.map_err(|error| CliError::new(ErrorKind::Usage, error).hint("`kubegc controller plan -o json` prints one"))
}

fn read<C: Content, T: DeserializeOwned>(path: &Path, what: &str) -> anyhow::Result<T> {
    let name = path.display();
    let text = text(path).with_context(|| format!("cannot read {name}"))?;
    parse::<C, _>(&text).with_context(|| format!("{name} is not {what}"))
}

/// Reads a file; `-` is standard input.
pub(in crate::cli) fn text(path: &Path) -> io::Result<String> {
    if path.as_os_str() != "-" {
        return std::fs::read_to_string(path);
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map(|_| text)
}

/// Checks the kind of the document first. Otherwise the error for another document would be a missing field.
fn parse<C: Content, T: DeserializeOwned>(text: &str) -> anyhow::Result<T> {
    let Head { kind: found, version } = serde_json::from_str(text)?;
    match found.as_deref() {
        Some(known) if known == C::KIND => {}
        Some(other) => anyhow::bail!("it is a {other}"),
        None => anyhow::bail!("it does not say what kind of document it is"),
    }
    match version {
        Some(version) if version == C::VERSION => Ok(serde_json::from_str(text)?),
        version => {
            let version = version.unwrap_or_default();
            anyhow::bail!("it has version {version}, and this program reads version {}", C::VERSION)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_documents_are_distinguished() {
        let error = |text: &str| format!("{:#}", parse::<Plan, Plan>(text).unwrap_err());
        assert_eq!(error("{\"kind\":\"Snapshot\",\"version\":1}"), "it is a Snapshot");
        assert_eq!(error("{}"), "it does not say what kind of document it is");
        assert_eq!(error("{\"kind\":\"Plan\",\"version\":2}"), "it has version 2, and this program reads version 1");
        assert!(error("{\"kind\":\"Plan\",\"version\":1}").starts_with("missing field"));
        assert!(error("{\"kind\":1}").starts_with("invalid type"));
    }
}
