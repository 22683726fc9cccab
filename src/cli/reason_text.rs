//! Phrases for tables: disk pressure, lists, errors of a plan, ids and names of objects. Those of reasons are in
//! `plan/explain.rs`.

use super::format;
use crate::model::{ListReceipt, short_id};
use crate::plan::{Kind, ListNote, PlanError, Pressure};

/// The widest a name may be in a narrow table.
const NAME_WIDTH: usize = 40;

/// Why everything goes that nothing needs.
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

/// How a list was received that does not fit into one message.
pub(super) fn list_note(note: &ListNote) -> String {
    let ListNote { list, parts, bytes, complete, cause } = note;
    let incomplete = if *complete { "" } else { "; parts are missing" };
    let parts = format::count(*parts, "part");
    format!("{list} received in {parts} of {} together{incomplete}: {cause}", format::size(*bytes))
}

/// A list that soon does not fit into one message, or does not fit any more.
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

/// Why a step could not do its work.
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

/// An object's id in a table. A log has no id but its path, and that is its name.
pub(super) fn object_id(kind: Kind, id: &str, wide: bool) -> String {
    match kind {
        Kind::LogDir | Kind::LogLink => String::new(),
        _ if wide => id.to_owned(),
        _ => short_id(id).to_owned(),
    }
}

/// An object's name in a table: of a log the last part of its path, in a wide table all of it.
pub(super) fn object_name(kind: Kind, id: &str, name: Option<&str>, wide: bool) -> String {
    match (kind, name.filter(|name| !name.is_empty())) {
        (Kind::LogDir | Kind::LogLink, _) if wide => id.to_owned(),
        (Kind::LogDir | Kind::LogLink, _) => fit(id.rsplit('/').next().unwrap_or(id), wide),
        (Kind::Image, None) => "<none>".to_owned(),
        (_, name) => fit(name.unwrap_or_default(), wide),
    }
}

/// A name that is not too wide for the narrow table.
pub(super) fn fit(text: &str, wide: bool) -> String {
    if wide { text.to_owned() } else { format::middle(text, NAME_WIDTH) }
}

/// What kind of object it is.
pub(super) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Container => "container",
        Kind::Sandbox => "sandbox",
        Kind::LogDir => "log directory",
        Kind::LogLink => "log link",
        Kind::Image => "image",
    }
}
