//! Reads a saved plan.

use std::io::{self, Read as _};
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize as _;
use serde_json::Value as Json;

use super::{CliError, ErrorKind};
use crate::plan::Plan;

/// Reads a plan; `-` is standard input.
pub(super) fn read(path: &Path) -> Result<Plan, CliError> {
    let name = path.display();
    let text = text(path).with_context(|| format!("cannot read {name}"));
    let plan = text.and_then(|text| parse(&text).with_context(|| format!("{name} is not a plan to carry out")));
    plan.map_err(|error| CliError::new(ErrorKind::Usage, error).hint("`kubegc plan -o json` prints one"))
}

fn text(path: &Path) -> io::Result<String> {
    if path.as_os_str() != "-" {
        return std::fs::read_to_string(path);
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map(|_| text)
}

/// Checks the kind of the document first. Otherwise the error for another document would be a missing field.
fn parse(text: &str) -> anyhow::Result<Plan> {
    let document: Json = serde_json::from_str(text)?;
    match document.get("kind").and_then(Json::as_str) {
        Some("Plan") => {}
        Some(other) => anyhow::bail!("it is a {other}"),
        None => anyhow::bail!("it does not say what kind of document it is"),
    }
    match document.get("version").and_then(Json::as_u64) {
        Some(1) => Ok(Plan::deserialize(document)?),
        version => anyhow::bail!("it has version {}, and this program reads version 1", version.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_documents_are_distinguished() {
        let error = |text: &str| format!("{:#}", parse(text).unwrap_err());
        assert_eq!(error("{\"kind\":\"Snapshot\",\"version\":1}"), "it is a Snapshot");
        assert_eq!(error("{}"), "it does not say what kind of document it is");
        assert_eq!(error("{\"kind\":\"Plan\",\"version\":2}"), "it has version 2, and this program reads version 1");
        assert!(error("{\"kind\":\"Plan\",\"version\":1}").starts_with("missing field"));
    }
}
