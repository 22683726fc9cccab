//! The types of settings: for each type how a value is read from TOML, how it is printed, and what is allowed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value as Json, json};
use strum::VariantNames;
use toml::Value;

use super::error::InvalidValue;
use super::parse::{absolute, bytes, http, log_root, number, own_file, patterns, socket, text, time};
use super::settings::{LogFormat, LogLevel, Mode, PodSources};
use crate::model::{PodSourceName, duration_text};
use crate::plan::{AgeFrom, Pattern, Profile};
use crate::pod_gc::PodOrder;

/// A type of setting.
pub(super) struct ValueType<T> {
    /// Reads a value from TOML.
    pub(super) parse: fn(&Value) -> Result<T, InvalidValue>,
    /// Prints a value as TOML.
    pub(super) print: fn(&T) -> Value,
    pub(super) allowed: Allowed,
}

/// Which values a type allows.
#[derive(Clone, Copy)]
pub(super) struct Allowed {
    /// Describes them, as the object of "wants".
    pub(super) text: fn() -> String,
    /// Returns their JSON Schema.
    pub(super) schema: fn() -> Json,
    /// Returns whether the type can take this kind of TOML value if the input has no types, as on the command line.
    pub(super) takes: fn(&Value) -> bool,
    /// Whether the empty string means that the setting is unset.
    pub(super) may_be_empty: bool,
}

/// A duration, possibly 0.
pub(super) const DURATION: ValueType<Duration> = ValueType::other(
    || "a duration such as \"90s\", \"2m\", \"168h\" or \"7d\", at most 100 years".to_owned(),
    || json!({"type": "string"}),
    |value| time(value, Duration::ZERO),
    |time| duration_text(*time).into(),
);

/// A duration to wait for: at least one second, to prevent a busy loop.
pub(super) const INTERVAL: ValueType<Duration> = ValueType::other(
    || "a duration of at least 1s, such as \"90s\", \"2m\" or \"1h\", at most 100 years".to_owned(),
    || json!({"type": "string"}),
    |value| time(value, Duration::from_secs(1)),
    |time| duration_text(*time).into(),
);

/// On or off.
pub(super) const SWITCH: ValueType<bool> = ValueType::other(
    || "true or false".to_owned(),
    || json!({"type": "boolean"}),
    |value| value.as_bool().ok_or(InvalidValue::NotAllowed),
    |switch| (*switch).into(),
);

/// A number of objects; `None` = no limit, written as a negative number.
pub(super) const LIMIT: ValueType<Option<u64>> = ValueType::other(
    || "an integer; negative = no limit".to_owned(),
    || json!({"type": "integer"}),
    |value| value.as_integer().map(|limit| u64::try_from(limit).ok()).ok_or(InvalidValue::NotAllowed),
    |limit| limit.map_or_else(|| (-1).into(), integer),
);

/// A percentage.
pub(super) const PERCENT: ValueType<u64> = ValueType::other(
    || "an integer from 0 to 100".to_owned(),
    || json!({"type": "integer", "minimum": 0, "maximum": 100}),
    |value| number(value, 100),
    |percent| integer(*percent),
);

/// A number from 0.
pub(super) const COUNT: ValueType<u64> = ValueType::other(
    || "an integer from 0".to_owned(),
    || json!({"type": "integer", "minimum": 0}),
    |value| number(value, u64::MAX),
    |count| integer(*count),
);

/// Space on a disk, possibly 0.
pub(super) const BYTES: ValueType<u64> = ValueType::other(
    || "bytes, such as \"10GiB\" or 0".to_owned(),
    || json!({"type": ["string", "integer"], "maximum": 0}),
    bytes,
    |bytes| bytes_text(*bytes).into(),
);

/// Any text.
pub(super) const TEXT: ValueType<String> =
    ValueType::text(|| "a string".to_owned(), |value| Ok(text(value)?.to_owned()), |text| text.as_str().into())
        .or_empty();

/// A unix socket; `None` is written as the empty string.
pub(super) const SOCKET: ValueType<Option<String>> = ValueType::text(
    || "a unix socket such as \"unix:///run/containerd/containerd.sock\"".to_owned(),
    socket,
    |socket| socket.clone().unwrap_or_default().into(),
)
.or_empty();

/// An absolute path.
pub(super) const DIRECTORY: ValueType<PathBuf> =
    ValueType::text(|| "an absolute path without \"..\"".to_owned(), absolute, |path| path_text(path));

/// An absolute path under which kubegc removes files, so never the file system root.
pub(super) const LOG_ROOT: ValueType<PathBuf> =
    ValueType::text(|| "an absolute path without \"..\", and not \"/\"".to_owned(), log_root, |path| path_text(path));

/// The path of a file that kubegc creates, so never a directory of the system.
pub(super) const FILE: ValueType<PathBuf> = ValueType::text(|| "a path".to_owned(), own_file, |path| path_text(path));

/// Any path; `None` is written as the empty string.
pub(super) const OPTIONAL_FILE: ValueType<Option<PathBuf>> = ValueType::text(
    || "a path".to_owned(),
    |value| text(value).map(|path| (!path.is_empty()).then(|| path.into())),
    |path| path.as_deref().map_or_else(|| "".into(), path_text),
)
.or_empty();

/// Any paths, with colons between them.
pub(super) const KUBECONFIGS: ValueType<Vec<PathBuf>> = ValueType::text(
    || "a path, or several with \":\" between them".to_owned(),
    |value| Ok(text(value)?.split(':').filter(|path| !path.is_empty()).map(PathBuf::from).collect()),
    |paths: &Vec<PathBuf>| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(":").into(),
)
.or_empty();

/// An HTTP or HTTPS address.
pub(super) const HTTP: ValueType<String> = ValueType::text(
    || "an address such as \"https://127.0.0.1:10250\"".to_owned(),
    |value| Ok(http(value)?.to_owned()),
    |address| address.as_str().into(),
);

/// An address of this host to listen on; `None` is written as the empty string.
pub(super) const ADDRESS: ValueType<Option<SocketAddr>> = ValueType::text(
    || "an IP address with a port, such as \"127.0.0.1:10273\" or \"[::1]:10273\", or \"\"".to_owned(),
    |value| match text(value)? {
        "" => Ok(None),
        address => address.parse().map(Some).map_err(|_| InvalidValue::NotAllowed),
    },
    |address| address.map(|address: SocketAddr| address.to_string()).unwrap_or_default().into(),
);

/// Image names with `*` as a wildcard.
pub(super) const PATTERNS: ValueType<Vec<Pattern>> = ValueType {
    parse: patterns,
    print: |patterns| patterns.iter().map(Pattern::as_str).collect::<Vec<_>>().into(),
    allowed: Allowed {
        text: || "a list of image names such as [\"registry.k8s.io/pause:*\"]".to_owned(),
        schema: || json!({"type": "array", "items": {"type": "string", "minLength": 1}}),
        takes: |value| value.is_str() || value.is_array(),
        may_be_empty: false,
    },
};

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

/// Pod sources, separated by commas.
pub(super) const POD_SOURCES: ValueType<PodSources> = ValueType {
    parse: pod_sources,
    print: |sources| sources.iter().map(<&str>::from).collect::<Vec<_>>().join(",").into(),
    allowed: Allowed {
        text: allowed_pod_sources,
        schema: || {
            let words = json!({"enum": PodSourceName::VARIANTS});
            json!({"anyOf": [
                {"type": "string", "pattern": pod_sources_pattern()},
                {"type": "array", "minItems": 1, "uniqueItems": true, "items": words},
            ]})
        },
        takes: |value| value.is_str() || value.is_array(),
        may_be_empty: false,
    },
};

// === impl ValueType ===

impl<T> ValueType<T> {
    /// Creates a type whose values are strings in TOML.
    const fn text(text: fn() -> String, parse: fn(&Value) -> Result<T, InvalidValue>, print: fn(&T) -> Value) -> Self {
        let schema = || json!({"type": "string"});
        Self { parse, print, allowed: Allowed { text, schema, takes: Value::is_str, may_be_empty: false } }
    }

    /// Creates a type whose values are not only strings in TOML.
    const fn other(
        text: fn() -> String,
        schema: fn() -> Json,
        parse: fn(&Value) -> Result<T, InvalidValue>,
        print: fn(&T) -> Value,
    ) -> Self {
        Self { parse, print, allowed: Allowed { text, schema, takes: |_| true, may_be_empty: false } }
    }

    const fn or_empty(mut self) -> Self {
        self.allowed.may_be_empty = true;
        self
    }
}

impl<T: FromStr + VariantNames + Copy + Into<&'static str>> ValueType<T> {
    /// Creates a type whose values are words.
    const fn word() -> Self {
        Self {
            parse: |value| text(value)?.parse().map_err(|_| InvalidValue::NotAllowed),
            print: |word| (*word).into().into(),
            allowed: Allowed {
                text: || quoted(T::VARIANTS.iter().copied()).join(" or "),
                schema: || json!({"enum": T::VARIANTS}),
                takes: Value::is_str,
                may_be_empty: false,
            },
        }
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
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units.into_iter().find(|(shift, _)| bytes != 0 && bytes.trailing_zeros() >= *shift);
    let plain = || if bytes == 0 { "0".to_owned() } else { format!("{bytes}B") };
    whole.map_or_else(plain, |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// Parses words that are allowed together: a list, or a text with commas between them.
fn pod_sources(value: &Value) -> Result<PodSources, InvalidValue> {
    let one = [value.clone()];
    let texts = value.as_array().map_or(&one[..], Vec::as_slice).iter().map(text);
    let texts = texts.collect::<Result<Vec<_>, _>>()?;
    let words = texts.iter().flat_map(|text| text.split(',')).map(|word| word.trim().parse());
    let sources = words.collect::<Result<_, _>>().map_err(|_| InvalidValue::NotAllowed)?;
    PodSources::of(sources).ok_or(InvalidValue::NotAllowed)
}

/// Lists the words of the pod sources that can be combined.
fn combinable() -> impl Iterator<Item = &'static str> {
    PodSourceName::VARIANTS.iter().copied().filter(|word| !["auto", "none"].contains(word))
}

fn allowed_pod_sources() -> String {
    let mut words = quoted(combinable());
    let last = words.pop().unwrap_or_default();
    format!("\"auto\", \"none\", or one or several of {} and {last}, each once, with commas", words.join(", "))
}

/// Returns a regular expression for the JSON Schema.
fn pod_sources_pattern() -> String {
    let one = format!("({})", combinable().collect::<Vec<_>>().join("|"));
    format!("^(auto|none|{one}(,{one})*)$")
}

fn quoted(words: impl Iterator<Item = &'static str>) -> Vec<String> {
    words.map(|word| format!("\"{word}\"")).collect()
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
