//! The types of settings: for each type how a value is read from TOML, how it is printed, and what is allowed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value as Json, json};
use strum::VariantNames;
use toml::Value;

use super::parse::{
    absolute, bytes, http, image_targets, log_root, no_image_name, no_unit, number, of_system, own_file, pace,
    patterns, pod_sources, socket, texts, time, wrong_pace, wrong_target,
};
use super::position::OfPart;
use super::rule_tables::{self as rules, order};
use super::settings::{LogFormat, LogLevel, Mode};
use crate::model::{PodSourceName, duration_text, exact_size_text};
use crate::plan::{AgeFrom, ImageOrder, ImageTarget, Pace, Pattern, Profile};
use crate::pod_gc::PodOrder;
use crate::rules::Rules;

/// A type of setting.
pub(super) struct ValueType<T> {
    /// Reads a value from TOML; `None` = it is not allowed.
    pub(super) read: fn(&Value) -> Option<T>,
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
    /// Says more exactly what is wrong with a value, if it can.
    wrong: fn(&Value) -> Option<String>,
    /// Says instead what is wrong with parts of a value, if it can.
    wrong_parts: fn(&Value) -> Vec<OfPart>,
}

/// A duration, possibly 0.
pub(super) const DURATION: ValueType<Duration> = ValueType::text(
    "a duration such as \"90s\", \"2m\", \"168h\" or \"7d\", at most 100 years",
    |value| time(value, Duration::ZERO),
    |time| duration_text(*time).into(),
)
.explained_by(|value| no_unit::<f64>(value, "\"Ns\" for seconds, \"Nm\" for minutes"));

/// A duration to wait for: at least one second, to prevent a busy loop.
pub(super) const INTERVAL: ValueType<Duration> = ValueType {
    read: |value| time(value, Duration::from_secs(1)),
    allowed: Allowed {
        text: "a duration of at least 1s, such as \"90s\", \"2m\" or \"1h\", at most 100 years",
        ..DURATION.allowed
    },
    ..DURATION
};

/// On or off.
pub(super) const SWITCH: ValueType<bool> =
    ValueType::other("true or false", || json!({"type": "boolean"}), Value::as_bool, |switch| (*switch).into());

/// A number of objects; `None` = no limit, written as a negative number.
pub(super) const LIMIT: ValueType<Option<u64>> = ValueType::other(
    "an integer; negative = no limit",
    || json!({"type": "integer"}),
    |value| value.as_integer().map(|limit| u64::try_from(limit).ok()),
    |limit| limit.map_or_else(|| (-1).into(), integer),
);

/// A percentage.
pub(super) const PERCENT: ValueType<u64> = ValueType::other(
    "an integer from 0 to 100",
    || json!({"type": "integer", "minimum": 0, "maximum": 100}),
    |value| number(value).filter(|percent| *percent <= 100),
    |percent| integer(*percent),
);

/// A number from 0.
pub(super) const COUNT: ValueType<u64> =
    ValueType::other("an integer from 0", || json!({"type": "integer", "minimum": 0}), number, |count| integer(*count));

/// Space on a disk, possibly 0.
pub(super) const BYTES: ValueType<u64> = ValueType::other(
    "bytes, such as \"10GiB\" or 0",
    || json!({"type": ["string", "integer"], "maximum": 0}),
    bytes,
    |bytes| bytes_text(*bytes).into(),
)
.explained_by(|value| no_unit::<u64>(value, "\"NMiB\" or \"NGiB\""));

/// Any text.
pub(super) const TEXT: ValueType<String> =
    ValueType::text("a string", |value| value.as_str().map(str::to_owned), |text| text.as_str().into());

/// A name, which is not empty.
pub(super) const NAME: ValueType<String> = ValueType::text(
    "a name",
    |value| value.as_str().filter(|name| !name.trim().is_empty()).map(str::to_owned),
    |name| name.as_str().into(),
);

/// A unix socket; `None` is written as the empty string.
pub(super) const SOCKET: ValueType<Option<String>> = ValueType::text(
    "a unix socket such as \"unix:///run/containerd/containerd.sock\"",
    |value| match value.as_str()?.trim() {
        "" => Some(None),
        text => socket(text).map(|socket| Some(socket.to_owned())),
    },
    |socket| socket.clone().unwrap_or_default().into(),
);

/// An absolute path.
pub(super) const DIRECTORY: ValueType<PathBuf> =
    ValueType::text("an absolute path without \"..\"", absolute, |path| path_text(path));

/// An absolute path under which kubegc removes files, so never the file system root.
pub(super) const LOG_ROOT: ValueType<PathBuf> =
    ValueType::text("an absolute path without \"..\", and not \"/\"", log_root, |path| path_text(path))
        .explained_by(|value| of_system(&absolute(value).filter(|path| path.parent().is_some())?));

/// The path of a file that kubegc creates, so never a directory of the system.
pub(super) const FILE: ValueType<PathBuf> = ValueType::text("a path", own_file, |path| path_text(path))
    .explained_by(|value| of_system(value.as_str()?.as_ref()));

/// Any path; `None` is written as the empty string.
pub(super) const OPTIONAL_FILE: ValueType<Option<PathBuf>> = ValueType::text(
    "a path",
    |value| value.as_str().map(|path| (!path.is_empty()).then(|| path.into())),
    |path| path.as_deref().map_or_else(|| "".into(), path_text),
);

/// Any paths: a list, or a text with colons between them, as it is printed.
pub(super) const KUBECONFIGS: ValueType<Vec<PathBuf>> = ValueType::other(
    "a path, or several with \":\" between them",
    || json!({"type": ["string", "array"], "items": {"type": "string"}}),
    |value| Some(texts(value, ':')?.into_iter().filter(|path| !path.is_empty()).map(PathBuf::from).collect()),
    |paths| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(":").into(),
);

/// An HTTP or HTTPS address.
pub(super) const HTTP: ValueType<String> = ValueType::text(
    "an address such as \"https://127.0.0.1:10250\"",
    |value| http(value).map(str::to_owned),
    |address| address.as_str().into(),
);

/// An address of this host to listen on; `None` is written as the empty string.
pub(super) const ADDRESS: ValueType<Option<SocketAddr>> = ValueType::text(
    "an IP address with a port, such as \"127.0.0.1:10273\" or \"[::1]:10273\", or \"\"",
    |value| match value.as_str()? {
        "" => Some(None),
        address => address.parse().ok().map(Some),
    },
    |address| address.map(|address| address.to_string()).unwrap_or_default().into(),
);

const IMAGE_NAMES: &str = "a list of image names such as [\"registry.k8s.io/pause:*\"]";

/// Image names with `*` as a wildcard: a list, or one name as in `--set images.keep=…`.
pub(super) const PATTERNS: ValueType<Vec<Pattern>> = ValueType::other(
    IMAGE_NAMES,
    || json!({"type": "array", "items": {"type": "string", "minLength": 1}}),
    |value| patterns(value).filter(|patterns| patterns.iter().all(Pattern::can_match)),
    |patterns| patterns.iter().map(Pattern::as_str).collect::<Vec<_>>().into(),
)
.explained_by(|value| no_image_name(value, IMAGE_NAMES));

/// Targets for images: a list, or a text with commas between them.
pub(super) const IMAGE_TARGETS: ValueType<Vec<ImageTarget>> = ValueType::other(
    "a list of targets such as [\"free 10GiB..20GiB\", \"inodes 90%..80%\", \"total 200GiB..150GiB\"], each kind once",
    || {
        let one = "^(free|total) [0-9]+[KMGT]?i?B?\\.\\.[0-9]+[KMGT]?i?B?$|^inodes [0-9]+%\\.\\.[0-9]+%$";
        json!({"type": "array", "items": {"type": "string", "pattern": one}})
    },
    image_targets,
    |targets| targets.iter().map(ToString::to_string).collect::<Vec<_>>().into(),
)
.explained_by(wrong_target);

/// The pace of passes over images: a list, or a text with commas between the parts.
pub(super) const PACE: ValueType<Pace> = ValueType::other(
    "a list such as [\"images 20\", \"bytes 50GiB\", \"pause 5s\", \"start 10m\"], each at most once",
    || {
        let one = "^images [1-9][0-9]*$|^bytes [0-9]+ ?[KMGT]?i?B$|^(pause|start) .+$";
        json!({"type": "array", "items": {"type": "string", "pattern": one}})
    },
    pace,
    |pace| pace.parts().into(),
)
.explained_by(wrong_pace);

/// The order of images: a word, or an expression in CEL.
pub(super) const IMAGE_ORDER: ValueType<ImageOrder> =
    ValueType::text("\"least-recently-used\" or an expression in CEL that gives a number", order::read, order::print)
        .with_wrong_parts(order::wrong);

/// Rules of the operator: a list of tables.
pub(super) const RULES: ValueType<Rules> =
    ValueType::other("tables [[rule]]", rules::schema, rules::read, rules::print).with_wrong_parts(rules::wrong);

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
    pod_sources,
    |sources| sources.iter().map(<&str>::from).collect::<Vec<_>>().join(",").into(),
);

/// The start of the age of a container.
pub(super) const AGE_FROM: ValueType<AgeFrom> = ValueType::word();

/// A set of guards.
pub(super) const PROFILE: ValueType<Profile> = ValueType::word();

/// Which terminated pods are deleted first.
pub(super) const POD_ORDER: ValueType<PodOrder> = ValueType::word();

/// Whether passes remove objects.
pub(super) const MODE: ValueType<Mode> = ValueType::word();

/// The format of the log.
pub(super) const LOG_FORMAT: ValueType<LogFormat> = ValueType::word();

/// The level of the log.
pub(super) const LOG_LEVEL: ValueType<LogLevel> = ValueType::word();

// === impl ValueType ===

impl<T> ValueType<T> {
    /// Creates a type whose values are strings in TOML.
    const fn text(text: &'static str, read: fn(&Value) -> Option<T>, print: fn(&T) -> Value) -> Self {
        Self::other(text, || json!({"type": "string"}), read, print)
    }

    /// Creates a type whose values are not only strings in TOML.
    const fn other(
        text: &'static str,
        schema: fn() -> Json,
        read: fn(&Value) -> Option<T>,
        print: fn(&T) -> Value,
    ) -> Self {
        Self {
            read,
            print,
            allowed: Allowed { text, words: &[], schema, wrong: |_| None, wrong_parts: |_| Vec::new() },
        }
    }

    const fn with_wrong_parts(mut self, wrong_parts: fn(&Value) -> Vec<OfPart>) -> Self {
        self.allowed.wrong_parts = wrong_parts;
        self
    }

    const fn explained_by(mut self, wrong: fn(&Value) -> Option<String>) -> Self {
        self.allowed.wrong = wrong;
        self
    }
}

impl<T: FromStr + VariantNames + Copy + Into<&'static str>> ValueType<T> {
    /// Creates a type whose values are words.
    const fn word() -> Self {
        let mut words = Self::text("", |value| value.as_str()?.parse().ok(), |word| (*word).into().into());
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

    /// Returns the JSON Schema of the values.
    pub(super) fn schema(&self) -> Json {
        if self.words.is_empty() { (self.schema)() } else { json!({"enum": self.words}) }
    }

    /// Says what is wrong with each part of a value that is not allowed; none = [`Self::wrong`] says it of the value.
    pub(super) fn wrong_parts(&self, value: &Value) -> Vec<OfPart> {
        (self.wrong_parts)(value)
    }

    /// Says what is wrong with a value that is not allowed.
    pub(super) fn wrong(&self, value: &Value) -> String {
        (self.wrong)(value).unwrap_or_else(|| format!("expected {}", self.text()))
    }
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
