//! Formats results for display: tables, and text with color.

mod collection;
pub(super) mod format;
pub(super) mod grid;
pub(super) mod node_page;
pub(super) mod output;
pub(super) mod plan_tables;
pub(super) mod pod_text;
pub(super) mod tables;

use indicatif::{ProgressBar, ProgressStyle};

use super::args::values::word;
use crate::model::{PodRef, container_of_link, short_id};
use crate::plan::{Action, Kind, Plan};

pub(super) use collection::{collection, named, totals};
pub(super) use output::Screen;
pub(super) use plan_tables::{disks, plan};

#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    /// Whether color is on.
    pub(super) on: bool,
}

/// Formats the kind, id, name and pod of an object. In a table that is not wide, or on a narrow terminal, the name contains the pod, and the id
/// of a log directory is the uid of its pod.
pub(super) fn object(kind: Kind, id: &str, name: Option<&str>, pod: Option<&PodRef>) -> [String; 4] {
    let screen = Screen::current();
    object_on(screen.wide && screen.has_room(), kind, id, name, pod)
}

fn object_on(wide: bool, kind: Kind, id: &str, name: Option<&str>, pod: Option<&PodRef>) -> [String; 4] {
    let name = name.filter(|name| !name.is_empty());
    let name = name.unwrap_or(if kind == Kind::Image { "<none>" } else { "" });
    let of = pod.map(ToString::to_string).unwrap_or_default();
    let full = if of.is_empty() || name.is_empty() { format!("{of}{name}") } else { format!("{of}/{name}") };
    let [id, name, pod] = match (kind, pod) {
        (Kind::LogDir | Kind::LogFile | Kind::LogLink, _) if wide => ["", id, &of],
        (Kind::LogFile, _) => {
            let [_, container, file] = log_file_parts(id);
            return log_row(kind, file, format!("{of}/{container}"));
        }
        (Kind::Leftover, _) if !wide => {
            let [_, directory, file] = log_file_parts(id);
            let name = if of.is_empty() { full } else { format!("{of}/{directory}: {name}") };
            return log_row(kind, short_id(file.strip_prefix("sha256-").unwrap_or(file)), name);
        }
        (Kind::LogDir, Some(pod)) => [short_id(pod.uid.as_str()), &of, ""],
        (Kind::LogDir | Kind::LogLink, _) => return log_name(kind, id.rsplit('/').next().unwrap_or(id)),
        _ if wide => [id, name, &of],
        _ => [short_id(id), &full, ""],
    };
    [&kind.as_str().replace('_', " "), id, name, pod].map(str::to_owned)
}

/// Formats the object of an action as its kind and its name, or its id if it has no name: `container team/pod/name`, `image app:1`.
pub(super) fn action(action: &Action) -> String {
    let (target, pod) = (&action.target, action.pod.as_ref());
    let has_name = pod.is_some() || target.name().is_some_and(|name| !name.is_empty());
    let [kind, id, name, _] = object_on(false, target.kind(), &target.id(), target.name(), pod);
    format!("{kind} {}", if has_name && !name.is_empty() { name } else { id })
}

/// Formats a log entry. The name of a log link contains its pod and its container.
fn log_name(kind: Kind, name: &str) -> [String; 4] {
    let of_container = container_of_link(name).filter(|_| kind == Kind::LogLink);
    let (id, name) = match of_container {
        Some((pod, namespace, container, id)) => (short_id(id), format!("{namespace}/{pod}/{container}")),
        None => ("", name.to_owned()),
    };
    log_row(kind, id, name)
}

fn log_row(kind: Kind, id: &str, name: String) -> [String; 4] {
    [kind.as_str().replace('_', " "), id.to_owned(), name, String::new()]
}

/// Returns the last names of the path of a log file: those of the pod's directory, of the container and of the file.
fn log_file_parts(path: &str) -> [&str; 3] {
    let mut parts = path.rsplit('/');
    let mut next = || parts.next().unwrap_or_default();
    let (file, container) = (next(), next());
    [next(), container, file]
}

/// Formats the kind and the id of an object, as `why` and `collect` accept them: `image/sha256:…`, `log-dir/NAME`.
pub(super) fn reference(kind: Kind, id: &str) -> String {
    let id = match kind {
        Kind::LogDir | Kind::LogLink => id.rsplit('/').next().unwrap_or(id).to_owned(),
        Kind::LogFile => log_file_parts(id).join("/"),
        _ => id.to_owned(),
    };
    format!("{}/{id}", word(kind))
}

/// Formats the number of tags of an image except the first, which is its name; empty = there are no others.
pub(super) fn more_tags(tags: &[String]) -> String {
    if tags.len() > 1 { format!(" +{}", tags.len() - 1) } else { String::new() }
}

/// Formats the number of objects of each kind, as `4 containers and 1 image`; empty = there are none.
fn counts(count: impl Fn(Kind) -> usize) -> String {
    let counts = Kind::ALL.into_iter().map(|kind| (kind, count(kind))).filter(|(_, count)| *count > 0);
    let counts: Vec<_> = counts.map(|(kind, count)| format::count(count, kind.noun())).collect();
    format::list(&counts)
}

/// Formats the number of objects of each kind that a plan removes.
pub(super) fn planned(plan: &Plan) -> String {
    counts(|kind| plan.actions.iter().filter(|action| action.target.kind() == kind).count())
}

/// Returns a progress bar. It is drawn on standard error, and only on a terminal.
pub(super) fn progress(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style)
}

/// Formats a line of text from the node with a title.
fn line(title: &str, text: &str) -> String {
    format!("{title} {}\n", format::printable(text))
}

// === impl Paint ===

impl Paint {
    /// Formats failures and losses.
    pub(super) fn red(self, text: &str) -> String {
        self.escape("31", text)
    }

    /// Formats warnings.
    pub(super) fn yellow(self, text: &str) -> String {
        self.escape("33", text)
    }

    /// Formats reclaimed bytes.
    pub(super) fn green(self, text: &str) -> String {
        self.escape("32", text)
    }

    /// Formats the title of a paragraph.
    pub(super) fn bold(self, text: &str) -> String {
        self.escape("1", text)
    }

    fn escape(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
