//! The types of settings: for each type how a value is read from TOML, how it is printed, and what is allowed.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value as Json, json};
use strum::VariantNames;
use toml::Value;

use super::entry::WrongValue::{self, NotAllowed};
use super::parse::{
    absolute, bytes, duration, fleet, http, leftovers, limits, log_root, number, own_file, pace, patterns, pod_sources,
    quiet_hours, socket, texts,
};
use super::rule_tables::{self as rules, order};
use super::settings::{LogFormat, LogLevel, Mode};
use crate::controller::ResourceName;
use crate::fleet::{FleetPart, QuietHours};
use crate::model::{ImageName, LeftoverKind, PodSourceName, duration_text, exact_size_text};
use crate::plan::{AgeFrom, ArchiveLimit, ImageOrder, ImageTarget, Leftovers, LogLimit, Pace, Profile};
use crate::rules::Rules;

pub(super) struct ValueType<T> {
    /// Reads a value from TOML.
    pub(super) read: fn(&Value) -> Result<T, WrongValue>,
    /// Prints a value as TOML.
    pub(super) print: fn(&T) -> Value,
    pub(super) allowed: Allowed,
}

/// Which values a type allows.
pub(super) struct Allowed {
    /// Describes them, as the object of "expected", unless they are `words`.
    text: &'static str,
    words: &'static [&'static str],
    /// Returns their JSON Schema, unless they are `words`.
    schema: fn() -> Json,
}

/// A duration, possibly 0.
pub(super) const DURATION: ValueType<Duration> = ValueType::text(
    "a duration such as \"90s\", \"2m\", \"168h\" or \"7d\", at most 100 years",
    |value| duration(value, Duration::ZERO),
    |time| duration_text(*time).into(),
);

/// A duration to wait for: at least one second, to prevent a busy loop.
pub(super) const INTERVAL: ValueType<Duration> = ValueType {
    read: |value| duration(value, Duration::from_secs(1)),
    allowed: Allowed {
        text: "a duration of at least 1s, such as \"90s\", \"2m\" or \"1h\", at most 100 years",
        ..DURATION.allowed
    },
    ..DURATION
};

pub(super) const SWITCH: ValueType<bool> = ValueType::other(
    "true or false",
    || json!({"type": "boolean"}),
    |value| value.as_bool().ok_or(NotAllowed),
    |switch| (*switch).into(),
);

/// A number of objects; `None` = no limit, written as a negative number.
pub(super) const LIMIT: ValueType<Option<u64>> = ValueType::other(
    "an integer; negative = no limit",
    || json!({"type": "integer"}),
    |value| value.as_integer().map(|limit| u64::try_from(limit).ok()).ok_or(NotAllowed),
    |limit| limit.map_or_else(|| (-1).into(), integer),
);

pub(super) const PERCENT: ValueType<u64> = ValueType::other(
    "an integer from 0 to 100",
    || json!({"type": "integer", "minimum": 0, "maximum": 100}),
    |value| number(value).filter(|percent| *percent <= 100).ok_or(NotAllowed),
    |percent| integer(*percent),
);

/// A number from 0.
pub(super) const COUNT: ValueType<u64> = ValueType::other(
    "an integer from 0",
    || json!({"type": "integer", "minimum": 0}),
    |value| number(value).ok_or(NotAllowed),
    |count| integer(*count),
);

/// Space on a disk, possibly 0.
pub(super) const BYTES: ValueType<u64> = ValueType::other(
    "bytes, such as \"10GiB\" or 0",
    || json!({"type": ["string", "integer"], "maximum": 0}),
    bytes,
    |bytes| bytes_text(*bytes).into(),
);

pub(super) const TEXT: ValueType<String> = ValueType::text(
    "a string",
    |value| value.as_str().map(str::to_owned).ok_or(NotAllowed),
    |text| text.as_str().into(),
);

/// A name, which is not empty.
pub(super) const NAME: ValueType<String> = ValueType::text(
    "a name",
    |value| value.as_str().filter(|name| !name.trim().is_empty()).map(str::to_owned).ok_or(NotAllowed),
    |name| name.as_str().into(),
);

/// A unix socket; `None` is written as the empty string.
pub(super) const SOCKET: ValueType<Option<String>> = ValueType::text(
    "a unix socket such as \"unix:///run/containerd/containerd.sock\"",
    |value| match value.as_str().map(str::trim) {
        Some("") => Ok(None),
        text => text.and_then(socket).map(|socket| Some(socket.to_owned())).ok_or(NotAllowed),
    },
    |socket| socket.clone().unwrap_or_default().into(),
);

pub(super) const DIRECTORY: ValueType<PathBuf> = ValueType::text(
    "an absolute path without \"..\"",
    |value| absolute(value).ok_or(NotAllowed),
    |path| path_text(path),
);

/// An absolute path under which kubegc removes files, so never the file system root.
pub(super) const LOG_ROOT: ValueType<PathBuf> =
    ValueType::text("an absolute path without \"..\", and not \"/\"", log_root, |path| path_text(path));

/// The path of a file that kubegc creates, so never a directory of the system.
pub(super) const FILE: ValueType<PathBuf> = ValueType::text("a path", own_file, |path| path_text(path));

/// Any path; `None` is written as the empty string.
pub(super) const OPTIONAL_FILE: ValueType<Option<PathBuf>> = ValueType::text(
    "a path",
    |value| value.as_str().map(|path| (!path.is_empty()).then(|| path.into())).ok_or(NotAllowed),
    |path| path.as_deref().map_or_else(|| "".into(), path_text),
);

/// Any paths: a list, or a text with colons between them, as it is printed.
pub(super) const KUBECONFIGS: ValueType<Vec<PathBuf>> = ValueType::other(
    "a path, or several with \":\" between them",
    || json!({"type": ["string", "array"], "items": {"type": "string"}}),
    |value| {
        let paths = texts(value, ':').ok_or(NotAllowed)?.into_iter();
        Ok(paths.filter(|path| !path.is_empty()).map(PathBuf::from).collect())
    },
    |paths| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(":").into(),
);

/// An HTTP or HTTPS address.
pub(super) const HTTP: ValueType<String> = ValueType::text(
    "an address such as \"https://127.0.0.1:10250\"",
    |value| http(value).map(str::to_owned).ok_or(NotAllowed),
    |address| address.as_str().into(),
);

/// An address of this host to listen on; `None` is written as the empty string.
pub(super) const ADDRESS: ValueType<Option<SocketAddr>> = ValueType::text(
    "an IP address with a port, such as \"127.0.0.1:10273\" or \"[::1]:10273\", or \"\"",
    |value| match value.as_str() {
        Some("") => Ok(None),
        address => address.and_then(|address| address.parse().ok()).map(Some).ok_or(NotAllowed),
    },
    |address| address.map(|address| address.to_string()).unwrap_or_default().into(),
);

const IMAGE_NAMES: &str = "a list of image names such as [\"registry.k8s.io/pause:*\"]";

/// Image names with `*` as a wildcard: a list, or one name as in `--set images.keep=…`.
pub(super) const PATTERNS: ValueType<Vec<ImageName>> = ValueType::other(
    IMAGE_NAMES,
    || json!({"type": "array", "items": {"type": "string", "minLength": 1}}),
    |value| patterns(value, IMAGE_NAMES),
    |patterns| patterns.iter().map(ImageName::as_str).collect::<Vec<_>>().into(),
);

/// Resources of a cluster: a list, or a text with commas between them.
pub(super) const RESOURCES: ValueType<Vec<ResourceName>> = ValueType::other(
    "a list of resources such as [\"jobs.batch\", \"configmaps\"]",
    || json!({"type": "array", "items": {"type": "string", "minLength": 1}}),
    |value| {
        let names = texts(value, ',').ok_or(NotAllowed)?.into_iter().map(str::trim).filter(|name| !name.is_empty());
        names.map(str::parse).collect::<Result<_, _>>().map_err(|_| NotAllowed)
    },
    |names| names.iter().map(ToString::to_string).collect::<Vec<_>>().into(),
);

/// Parts of the fleet: a list, or a text with commas between them.
pub(super) const FLEET: ValueType<BTreeSet<FleetPart>> = ValueType::other(
    "a list of \"policies\", or \"\"",
    || {
        json!({"anyOf": [
            {"type": "string"},
            {"type": "array", "uniqueItems": true, "items": {"enum": FleetPart::VARIANTS}},
        ]})
    },
    |value| fleet(value).ok_or(NotAllowed),
    |parts| parts.iter().map(|part| <&str>::from(*part)).collect::<Vec<_>>().into(),
);

/// Hours of the week: a list, or a text with semicolons between them.
pub(super) const QUIET: ValueType<Vec<QuietHours>> = ValueType::other(
    "a list of hours such as [\"Mo-Fr 08:00-18:00 Europe/Berlin\"]",
    || json!({"type": "array", "items": {"type": "string", "minLength": 1}}),
    quiet_hours,
    |hours| hours.iter().map(ToString::to_string).collect::<Vec<_>>().into(),
);

/// Targets for images: a list, or a text with commas between them.
pub(super) const IMAGE_TARGETS: ValueType<Vec<ImageTarget>> = ValueType::other(
    "a list of targets such as [\"free 10GiB..20GiB\", \"inodes 90%..80%\", \"total 200GiB..150GiB\"], each kind once",
    || json!({"type": "array", "items": {"type": "string", "pattern": ImageTarget::PATTERN}}),
    limits,
    |targets| targets.iter().map(ToString::to_string).collect::<Vec<_>>().into(),
);

/// Limits on log files: a list, or a text with commas between them.
pub(super) const LOG_LIMITS: ValueType<Vec<LogLimit>> = ValueType::other(
    "a list of limits such as [\"pod 200MiB\", \"namespace 2GiB\", \"node 10GiB\"], each kind once",
    || json!({"type": "array", "items": {"type": "string", "pattern": LogLimit::PATTERN}}),
    limits,
    |limits| limits.iter().map(ToString::to_string).collect::<Vec<_>>().into(),
);

/// Limits of the archive: a list, or a text with commas between them.
pub(super) const ARCHIVE: ValueType<Vec<ArchiveLimit>> = ValueType::other(
    "a list of limits such as [\"keep 24h\", \"node 5GiB\", \"namespace 512MiB\", \"pod 64MiB\"], each kind once",
    || json!({"type": "array", "items": {"type": "string", "pattern": ArchiveLimit::PATTERN}}),
    limits,
    |limits| limits.iter().map(ToString::to_string).collect::<Vec<_>>().into(),
);

/// The pace of passes over images: a list, or a text with commas between the parts.
pub(super) const PACE: ValueType<Pace> = ValueType::other(
    "a list such as [\"images 20\", \"bytes 50GiB\", \"pause 5s\", \"start 10m\"], each at most once",
    || json!({"type": "array", "items": {"type": "string", "pattern": Pace::PATTERN}}),
    pace,
    |pace| pace.parts().into(),
);

/// The order of images: a word, or an expression in CEL.
pub(super) const IMAGE_ORDER: ValueType<ImageOrder> =
    ValueType::text("\"least-recently-used\" or an expression in CEL that gives a number", order::read, order::print);

/// Rules of the operator: a list of tables.
pub(super) const RULES: ValueType<Rules> =
    ValueType::other("tables [[rule]]", rules::schema, rules::read, rules::print);

/// Pod sources: a list, or a text with commas between them, as they are printed.
pub(super) const POD_SOURCES: ValueType<Vec<PodSourceName>> = ValueType::other(
    "\"auto\", \"none\", or one or several of \"kube-api\", \"kubelet\" and \"runtime\", each once, with commas",
    || {
        let one = "(kube-api|kubelet|runtime)";
        let words = json!({"enum": PodSourceName::VARIANTS});
        json!({"anyOf": [
            {"type": "string", "pattern": format!("^(auto|none|{one}(,{one})*)$")},
            {"type": "array", "minItems": 1, "uniqueItems": true, "items": words},
        ]})
    },
    |value| pod_sources(value).ok_or(NotAllowed),
    |sources| sources.iter().map(<&str>::from).collect::<Vec<_>>().join(",").into(),
);

/// Kinds of leftovers: a list, or a text with commas between them.
pub(super) const LEFTOVERS: ValueType<Leftovers> = ValueType::other(
    "a list of \"termination_log\", \"pod_directory\" and \"unreferenced\", or \"\"",
    || {
        json!({"anyOf": [
            {"type": "string"},
            {"type": "array", "uniqueItems": true, "items": {"enum": LeftoverKind::REMOVABLE}},
        ]})
    },
    |value| leftovers(value).ok_or(NotAllowed),
    |kinds| kinds.0.iter().map(<&str>::from).collect::<Vec<_>>().into(),
);

/// The start of the age of a container.
pub(super) const AGE_FROM: ValueType<AgeFrom> = ValueType::word();

/// A set of guards.
pub(super) const PROFILE: ValueType<Profile> = ValueType::word();

/// Whether passes remove objects.
pub(super) const MODE: ValueType<Mode> = ValueType::word();

pub(super) const LOG_FORMAT: ValueType<LogFormat> = ValueType::word();

pub(super) const LOG_LEVEL: ValueType<LogLevel> = ValueType::word();

// === impl ValueType ===

impl<T> ValueType<T> {
    /// Creates a type whose values are strings in TOML.
    const fn text(text: &'static str, read: fn(&Value) -> Result<T, WrongValue>, print: fn(&T) -> Value) -> Self {
        Self::other(text, || json!({"type": "string"}), read, print)
    }

    /// Creates a type whose values are not only strings in TOML.
    const fn other(
        text: &'static str,
        schema: fn() -> Json,
        read: fn(&Value) -> Result<T, WrongValue>,
        print: fn(&T) -> Value,
    ) -> Self {
        Self { read, print, allowed: Allowed { text, words: &[], schema } }
    }
}

impl<T: FromStr + VariantNames + Copy + Into<&'static str>> ValueType<T> {
    /// Creates a type whose values are words.
    const fn word() -> Self {
        let mut words = Self::text("", read_word, |word| (*word).into().into());
        words.allowed.words = T::VARIANTS;
        words
    }
}

// === impl Allowed ===

impl Allowed {
    /// Describes the values, as the object of "expected".
    pub(super) fn text(&self) -> String {
        let words: Vec<_> = self.words.iter().map(|word| format!("\"{word}\"")).collect();
        if words.is_empty() { self.text.to_owned() } else { words.join(" or ") }
    }

    pub(super) fn schema(&self) -> Json {
        if self.words.is_empty() { (self.schema)() } else { json!({"enum": self.words}) }
    }
}

fn read_word<T: FromStr>(value: &Value) -> Result<T, WrongValue> {
    value.as_str().and_then(|word| word.parse().ok()).ok_or(NotAllowed)
}

fn path_text(path: &Path) -> Value {
    path.display().to_string().into()
}

/// Prints a number. TOML has no larger integers than an `i64`.
fn integer(number: u64) -> Value {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

fn bytes_text(bytes: u64) -> String {
    if bytes == 0 { "0".to_owned() } else { exact_size_text(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_printed_with_the_largest_whole_unit() {
        assert_eq!(bytes_text(256 << 20), "256MiB");
        assert_eq!((bytes_text(65537).as_str(), bytes_text(0).as_str()), ("65537B", "0"));
    }
}
