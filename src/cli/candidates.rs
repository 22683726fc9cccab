//! Values that shell completions offer: setting keys, and the objects of this node.

use std::ffi::OsStr;
use std::time::Duration;

use clap_complete::CompletionCandidate;

use super::lookup::Place;
use super::namespace::NamespaceArgs;
use super::session::{block_on, lists};
use super::{CliError, ErrorKind};
use crate::config::{Environment, KEYS, Key, Typed, load};
use crate::model::Snapshot;

/// The longest time that a person waits for the objects of the node.
const LIMIT: Duration = Duration::from_secs(2);

/// Offers the keys for `--set`.
pub(super) fn settings(current: &OsStr) -> Vec<CompletionCandidate> {
    keys_then("=", current)
}

/// Offers the keys for `config explain`.
pub(super) fn keys(current: &OsStr) -> Vec<CompletionCandidate> {
    keys_then("", current)
}

fn keys_then(suffix: &str, current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let keys = KEYS.iter().filter(|key| key.name.starts_with(&*current));
    let help = |key: &Key| Some(key.summary().into());
    keys.map(|key| CompletionCandidate::new(format!("{}{suffix}", key.name)).help(help(key))).collect()
}

/// Offers the pods, containers and images of this node. Without a runtime it offers nothing.
pub(super) fn objects(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let names = |snapshot| Place { snapshot: &snapshot, namespace: &NamespaceArgs::default() }.names();
    let names = observed().map(names).unwrap_or_default();
    names.into_iter().filter(|name| name.starts_with(&*current)).map(CompletionCandidate::new).collect()
}

fn observed() -> Result<Snapshot, CliError> {
    let environment = Environment::read();
    let loaded = load(&Typed::default(), &environment)?.for_command(&environment);
    block_on(async {
        let late = |_| CliError::message(ErrorKind::Runtime, "the runtime does not answer in time");
        tokio::time::timeout(LIMIT, lists(&loaded)).await.map_err(late)?
    })
}
