//! Phrases for disk pressure, lists and errors of a plan. Those of reasons are in `plan/explain.rs`.

use super::format;
use crate::model::ListReceipt;
use crate::plan::{ListNote, PlanError, Pressure};

/// Returns why a pass removes everything unused.
pub(super) fn pressure(pressure: &Pressure) -> String {
    match pressure {
        Pressure::Asked {} => "requested by a flag: removing everything unused".to_owned(),
        Pressure::FreeBytes { mountpoint, free_bytes, limit_bytes } => {
            let (free, limit) = (format::size(*free_bytes), format::size(*limit_bytes));
            format!("{} has {free} free, pressure.free_bytes = {limit}", mountpoint.display())
        }
        other => other.to_string(),
    }
}

/// Describes how a list was received that does not fit into one message.
pub(super) fn list_note(note: &ListNote) -> String {
    let ListNote { list, parts, bytes, complete, cause } = note;
    let incomplete = if *complete { "" } else { "; parts are missing" };
    let parts = format::count(*parts, "part");
    format!("{list} received in {parts} of {} together{incomplete}: {cause}", format::size(*bytes))
}

/// Warns of a list that soon does not fit into one message, or no longer does.
pub(super) fn large_list(list: &str, receipt: &ListReceipt, limit: u64) -> String {
    let size = format!(
        "list of {list} is {}, usual limit on one message is {}",
        format::size(receipt.bytes),
        format::size(limit)
    );
    let hint = "hint: lower containers.max_containers, or raise max_send_message_size in the runtime's configuration";
    match &receipt.refused {
        Some(cause) => format!("{size}; received in parts: {cause}; {hint}"),
        None => format!("{size}; the kubelet fails above it; {hint}"),
    }
}

/// Returns why a step failed.
pub(super) fn plan_error(error: &PlanError) -> String {
    match error {
        PlanError::FreeDiskSpaceFailed { target_bytes, estimated_bytes, used_percent } => format!(
            "image disk usage is {used_percent}%: {} must be freed, and all removable images have {}",
            format::size(*target_bytes),
            format::size(*estimated_bytes)
        ),
        other => other.to_string(),
    }
}
