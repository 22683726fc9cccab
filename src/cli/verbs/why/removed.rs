//! Why an object is no longer on the node: the history has its removal.

use crate::cli::args::kubectl_args::NamespaceArgs;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::lookup::{MIN_ID, missing, without_kind};
use crate::cli::input::session;
use crate::cli::render::format;
use crate::cli::verbs::history::pulled_again;
use crate::config::Loaded;
use crate::model::short_id;
use crate::record::{HistoryEntry, HistoryFilter, StoreReader};

/// Returns the newest removal of an object that the word refers to, as in `kubegc history`.
pub(super) fn newest(word: &str, namespace: &NamespaceArgs, loaded: &Loaded) -> Result<Option<HistoryEntry>, CliError> {
    let store = session::recorded_blocking(&loaded.settings)?;
    let (kind, text) = without_kind(word);
    let filter = HistoryFilter {
        kind,
        namespace: namespace.get().map(str::to_owned),
        text: Some(text.to_owned()),
        ..HistoryFilter::default()
    };
    if let Some(found) = first(&store, &filter, |_| true)? {
        return Ok(Some(found));
    }
    // The history has the pod and the container apart.
    let Some((pod, container)) = text.rsplit_once('/') else { return Ok(None) };
    let of_pod = HistoryFilter { text: Some(pod.to_owned()), ..filter };
    first(&store, &of_pod, |entry| entry.name.as_deref() == Some(container))
}

fn first(
    store: &StoreReader,
    filter: &HistoryFilter,
    is_it: impl Fn(&HistoryEntry) -> bool,
) -> Result<Option<HistoryEntry>, CliError> {
    // A shorter text is in too many names.
    if filter.text.as_ref().is_none_or(|text| text.len() < MIN_ID) {
        return Ok(None);
    }
    let is_removed = |entry: &HistoryEntry| ["removed", "already_removed"].contains(&entry.outcome.as_str());
    Ok(store.history(filter)?.into_iter().find(|entry| is_removed(entry) && is_it(entry)))
}

/// Returns the error for a word that refers to a removed object. Its exit status is that of a word that refers to nothing.
pub(super) fn error(word: &str, entry: &HistoryEntry) -> CliError {
    let HistoryEntry { run, at, kind, id, name, pod, .. } = entry;
    let name = match (pod, name) {
        (Some(pod), Some(name)) => format!("{pod}/{name} ({})", short_id(id)),
        (Some(pod), None) => format!("{pod} ({})", short_id(id)),
        (None, Some(name)) => name.clone(),
        (None, None) => id.clone(),
    };
    let pulled_again = pulled_again(entry).map(|text| format!("; it was {text}")).unwrap_or_default();
    let removed =
        format!("{} {name} was removed at {at:.0} by run {run}: {}{pulled_again}", kind.noun(), entry.phrase());
    let message = format!("{}; {}", missing(word), format::printable(&removed));
    CliError::message(ErrorKind::Usage, message).hint(format!("`kubegc history {run}` shows the run"))
}
