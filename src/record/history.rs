//! The history: every removal with its reason and its outcome, for `kubegc history`.

use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Row, Transaction, params_from_iter};
use serde::Serialize;

use super::database::copy::StoreReader;
use super::database::rows::{count, from_json, integer, json, moment, nanos};
use super::log::word_and_values;
use super::runs::RunId;
use super::store_error::StoreError;
use crate::model::{ImageId, PodRef, RemovedImage};
use crate::plan::{Kind, Outcome, RemoveReason, Report, Target};

/// One removal in the history.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistoryEntry {
    /// The run that made it.
    pub run: RunId,
    pub at: Timestamp,
    /// The kind of the object.
    pub kind: Kind,
    /// The id of the object; the path for logs.
    pub id: String,
    /// The container's name, or the image's first tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The image's tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The pod of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// Seconds since the object was created; for an image, since it was first seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<i64>,
    /// The rule that selected the object, as in plans.
    pub reason: String,
    /// The values that the rule used, as in plans.
    #[serde(flatten)]
    pub reason_values: serde_json::Map<String, serde_json::Value>,
    /// The outcome, as in [`Outcome::kind`].
    pub outcome: String,
    /// Why the removal was refused or failed, and other details.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The size of the image as the runtime counts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_bytes: Option<u64>,
    /// Reclaimed bytes, measured; `null` = not measured. Containers are measured together: see the run.
    pub freed_bytes: Option<u64>,
    /// The first pass that had the image again, within 14 days; `null` = none had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pulled_again_at: Option<Timestamp>,
    /// The pod source that confirmed the pod as deleted, if the object was removed for that reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proven_by: Option<String>,
}

/// Selects removals. The default selects all.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HistoryFilter {
    /// At most this many; `None` = all.
    pub limit: Option<usize>,
    /// Only removals at this time or later; `None` = from the beginning.
    pub since: Option<Timestamp>,
    /// Only objects of this kind.
    pub kind: Option<Kind>,
    /// Only objects of pods of this namespace.
    pub namespace: Option<String>,
    /// Only removals of this run.
    pub run: Option<RunId>,
    /// Only objects with this text in the id, path, name, tags, pod uid or `namespace/name`. Case does not matter.
    pub text: Option<String>,
    /// Only images that were pulled again.
    pub pulled_again: bool,
}

// === impl HistoryEntry ===

impl HistoryEntry {
    /// Returns the rule as people read it.
    pub fn phrase(&self) -> String {
        let mut reason = self.reason_values.clone();
        reason.insert("reason".to_owned(), self.reason.as_str().into());
        let reason = serde_json::from_value::<RemoveReason>(reason.into());
        reason.map_or_else(|_| self.reason.replace('_', " "), |reason| reason.explain().phrase.into_owned())
    }
}

// === impl StoreReader ===

impl StoreReader {
    /// Returns the removals that `filter` selects, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn history(&self, filter: &HistoryFilter) -> Result<Vec<HistoryEntry>, StoreError> {
        self.read("the history", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT run, at, kind, object, name, tags, pod_namespace, pod_name, pod_uid, age_seconds, reason,
                     reason_values, outcome, detail, estimated_bytes, freed_bytes, proven_by, pulled_again_at
                     FROM removals
                 WHERE at >= ?1 AND (?2 IS NULL OR kind = ?2) AND (?3 IS NULL OR instr(lower(
                     object || ' ' || coalesce(name, '') || ' ' || tags || ' ' || coalesce(pod_uid, '') || ' '
                         || coalesce(pod_namespace || '/' || pod_name, '')), lower(?3)))
                     AND (?5 IS NULL OR run = ?5) AND (?6 IS NULL OR pod_namespace = ?6)
                     AND (NOT ?7 OR pulled_again_at IS NOT NULL)
                 ORDER BY at DESC, id DESC LIMIT ?4",
            )?;
            let since = filter.since.map_or(i64::MIN, nanos);
            let limit = filter.limit.map_or(-1, |limit| integer(limit as u64));
            let rows = statement.query_map(
                (
                    since,
                    filter.kind.map(Kind::as_str),
                    &filter.text,
                    limit,
                    filter.run.map(|run| run.0),
                    &filter.namespace,
                    filter.pulled_again,
                ),
                entry,
            )?;
            rows.filter_map(Result::transpose).collect()
        })
    }
}

/// Adds the outcome of an action to a file. A refusal replaces the previous refusal of the same object if no other outcome
/// was recorded between the two.
pub(super) fn insert_removal(
    transaction: &Transaction<'_>,
    run: RunId,
    at: Timestamp,
    report: &Report,
) -> rusqlite::Result<()> {
    if matches!(report.outcome, Outcome::Refused { .. }) {
        forget_refusal(transaction, report.action.target.kind().as_str(), &report.action.target.id())?;
    }
    let mut insert = transaction.prepare_cached(
        "INSERT INTO removals (run, at, kind, object, name, tags, pod_namespace, pod_name, pod_uid,
             age_seconds, reason, reason_values, outcome, detail, estimated_bytes, freed_bytes, proven_by)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
    )?;
    insert.execute(params_from_iter(columns(run, at, report)?)).map(drop)
}

/// Notes when an image that was removed was first seen again, or that it was restored. A removal that is no longer in the history changes
/// nothing.
pub(super) fn mark_pulled_again(
    transaction: &Transaction<'_>,
    id: &ImageId,
    image: &RemovedImage,
) -> rusqlite::Result<()> {
    let mut mark = transaction.prepare_cached(
        "UPDATE removals SET pulled_again_at = ?3, outcome = iif(?3 IS NULL, 'restored', outcome)
         WHERE at = ?1 AND kind = 'image' AND object = ?2",
    )?;
    mark.execute((nanos(image.at), id.as_str(), image.pulled_again_at.map(nanos))).map(drop)
}

/// Deletes the last outcome of an object if it was a refusal.
fn forget_refusal(transaction: &Transaction<'_>, kind: &str, object: &str) -> rusqlite::Result<()> {
    let mut forget = transaction.prepare_cached(
        "DELETE FROM removals WHERE outcome = 'refused'
             AND id = (SELECT id FROM removals WHERE kind = ?1 AND object = ?2 ORDER BY id DESC LIMIT 1)",
    )?;
    forget.execute([kind, object]).map(drop)
}

/// Returns the values of a report in the order of the columns.
fn columns(run: RunId, at: Timestamp, report: &Report) -> rusqlite::Result<[Value; 17]> {
    let action = &report.action;
    let pod = |field: fn(&PodRef) -> String| action.pod.as_ref().map(field);
    let (tags, estimated) = match &action.target {
        Target::RemoveImage { tags, estimated_bytes, .. } => (tags.as_slice(), Some(integer(*estimated_bytes))),
        _ => (&[][..], None),
    };
    let (reason, values) = word_and_values(&action.reason);
    Ok([
        run.0.into(),
        nanos(at).into(),
        action.target.kind().as_str().to_owned().into(),
        action.target.id().into(),
        action.target.name().map(str::to_owned).into(),
        json(&tags)?.into(),
        pod(|pod| pod.namespace.clone()).into(),
        pod(|pod| pod.name.clone()).into(),
        pod(|pod| pod.uid.to_string()).into(),
        action.age_seconds.into(),
        reason.into(),
        json(&values)?.into(),
        report.outcome.kind().to_owned().into(),
        detail(report).into(),
        estimated.into(),
        report.measured_bytes().map(integer).into(),
        report.proven_by.clone().into(),
    ])
}

fn detail(report: &Report) -> Option<String> {
    let why = match &report.outcome {
        Outcome::Refused { refusal } => Some(refusal.to_string()),
        Outcome::Failed { error, .. } => Some(error.clone()),
        _ => None,
    };
    match (why, &report.note) {
        (Some(why), Some(note)) => Some(format!("{why}: {note}")),
        (why, note) => why.or_else(|| note.clone()),
    }
}

/// Reads a row. `None` = it is of a kind that this version does not know: a newer one wrote it before a rollback.
fn entry(row: &Row<'_>) -> rusqlite::Result<Option<HistoryEntry>> {
    let word: String = row.get(2)?;
    let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.as_str() == word) else { return Ok(None) };
    Ok(Some(HistoryEntry {
        run: RunId(row.get(0)?),
        at: moment(row.get(1)?),
        kind,
        id: row.get(3)?,
        name: row.get(4)?,
        tags: from_json(5, &row.get::<_, String>(5)?)?,
        pod: pod(row.get(6)?, row.get(7)?, row.get(8)?),
        age_seconds: row.get(9)?,
        reason: row.get(10)?,
        reason_values: from_json(11, &row.get::<_, String>(11)?)?,
        outcome: row.get(12)?,
        detail: row.get(13)?,
        estimated_bytes: row.get::<_, Option<i64>>(14)?.map(count),
        freed_bytes: row.get::<_, Option<i64>>(15)?.map(count),
        proven_by: row.get(16)?,
        pulled_again_at: row.get::<_, Option<i64>>(17)?.map(moment),
    }))
}

fn pod(namespace: Option<String>, name: Option<String>, uid: Option<String>) -> Option<PodRef> {
    let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
    uid.map(|uid| PodRef { uid: uid.into(), namespace, name })
}
