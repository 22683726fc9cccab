//! Formats what a plan shows as groups: hundreds of objects of one absent owner are one row.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use clap::ValueEnum;

use super::GROUPS;
use super::cluster_tables::{action_text, detail, finding_text, reason};
use crate::cli::render::Paint;
use crate::model::Identity;
use crate::owners::{ClusterAction, ClusterPlan};

/// What the objects of a group have in common.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum GroupBy {
    /// Namespace and owners
    Owner,
    /// Namespace
    Namespace,
    /// Kind
    Kind,
}

/// What is done or found, the object, and why.
type Row<'p> = ([String; 2], &'p Identity, String);
/// What the rows of a group have: kinds, namespaces, reasons, and how many rows there are.
type Group = (BTreeSet<String>, BTreeSet<String>, BTreeSet<String>, usize);

/// The most different values in a cell.
const SHOWN: usize = 3;

/// Formats the actions, the predicted actions and the findings of a plan as groups.
pub(super) fn groups(plan: &ClusterPlan, by: GroupBy, paint: Paint) -> String {
    let findings = plan.findings.iter();
    let findings = findings.map(|it| ([String::new(), finding_text(it.kind).to_owned()], &it.object, detail(it)));
    let mut text = part("", plan.actions.iter().map(row), by);
    text += &part(&format!("{}\n", paint.bold("Then (predicted):")), plan.predicted.iter().map(row), by);
    text + &part(&format!("{}\n", paint.bold("Findings:")), findings, by)
}

fn row(action: &ClusterAction) -> Row<'_> {
    ([action_text(action), String::new()], &action.object, reason(action))
}

fn part<'p>(head: &str, rows: impl Iterator<Item = Row<'p>>, by: GroupBy) -> String {
    let mut groups = BTreeMap::<([String; 2], String, String), Group>::new();
    for (what, object, why) in rows {
        let (kind, namespace) = (object.kind.kind.to_string(), object.namespace.to_string());
        let key = match by {
            GroupBy::Owner => (what, namespace.clone(), why.clone()),
            GroupBy::Namespace => (what, namespace.clone(), String::new()),
            GroupBy::Kind => (what, kind.clone(), String::new()),
        };
        let (kinds, namespaces, reasons, count) = groups.entry(key).or_default();
        kinds.insert(kind);
        namespaces.insert(namespace);
        reasons.insert(why);
        *count += 1;
    }
    if groups.is_empty() {
        return String::new();
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    // The largest first.
    groups.sort_by_key(|(_, (.., count))| std::cmp::Reverse(*count));
    let rows = groups.into_iter().map(|(([action, finding], ..), (kinds, namespaces, reasons, count))| {
        [action, finding, count.to_string(), some(&kinds), some(&namespaces), some(&reasons)]
    });
    format!("{head}{}\n", GROUPS.text(rows))
}

/// Formats a few of some values, and how many more there are.
fn some(values: &BTreeSet<String>) -> String {
    let mut text = values.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if values.len() > SHOWN {
        let _ = write!(text, " and {} more", values.len() - SHOWN);
    }
    text
}
