//! The types of settings: for each type how a value is read from TOML, how it is printed, and what is allowed.

use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value as Json, json};
use strum::VariantNames;
use toml::Value;

use super::duration::{self, LONGEST};
use super::{LogFormat, PodSourceName, PodSources};
use crate::model::duration_text;
use crate::plan::{AgeFrom, Pattern, Profile};

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

/// Why a value was rejected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InvalidValue {
    /// The value is not allowed for this key.
    NotAllowed,
    /// A duration without a unit: it may mean seconds or minutes.
    NoUnit,
}

/// The smallest useful message limit, and the largest message size in gRPC.
const MESSAGE_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=(4 << 30) - 1;

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
    || json!({"type": ["string", "integer"]}),
    bytes,
    |bytes| bytes_text(*bytes).into(),
);

/// The size of a gRPC message.
pub(super) const MESSAGE_SIZE: ValueType<usize> = ValueType::other(
    || "bytes from \"64KiB\" to less than \"4GiB\"".to_owned(),
    || json!({"type": ["string", "integer"]}),
    message_size,
    |bytes| bytes_text(*bytes as u64).into(),
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

/// Any path.
pub(super) const FILE: ValueType<PathBuf> =
    ValueType::text(|| "a path".to_owned(), |value| Ok(some_text(value)?.into()), |path| path_text(path));

/// Any path; `None` is written as the empty string.
pub(super) const OPTIONAL_FILE: ValueType<Option<PathBuf>> = ValueType::text(
    || "a path".to_owned(),
    |value| text(value).map(|path| (!path.is_empty()).then(|| path.into())),
    |path| path.as_deref().map_or_else(|| "".into(), path_text),
)
.or_empty();

/// An HTTP or HTTPS address.
pub(super) const HTTP: ValueType<String> = ValueType::text(
    || "an address such as \"https://127.0.0.1:10250\"".to_owned(),
    |value| Ok(http(value)?.to_owned()),
    |address| address.as_str().into(),
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

/// The format of the log.
pub(super) const LOG_FORMAT: ValueType<LogFormat> = ValueType::word();

/// Pod sources, separated by commas.
pub(super) const POD_SOURCES: ValueType<PodSources> = ValueType {
    parse: pod_sources,
    print: |sources| sources.iter().map(<&str>::from).collect::<Vec<_>>().join(",").into(),
    allowed: Allowed {
        text: allowed_pod_sources,
        schema: || json!({"type": "string", "pattern": pod_sources_pattern()}),
        takes: Value::is_str,
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

fn text(value: &Value) -> Result<&str, InvalidValue> {
    value.as_str().ok_or(InvalidValue::NotAllowed)
}

fn some_text(value: &Value) -> Result<&str, InvalidValue> {
    text(value).ok().filter(|text| !text.trim().is_empty()).ok_or(InvalidValue::NotAllowed)
}

fn path_text(path: &Path) -> Value {
    path.display().to_string().into()
}

fn number(value: &Value, most: u64) -> Result<u64, InvalidValue> {
    let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
    number.filter(|number| *number <= most).ok_or(InvalidValue::NotAllowed)
}

/// Prints a number. TOML has no larger integers than an `i64`.
fn integer(number: u64) -> Value {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

/// Parses a duration. 0 needs no unit; any other bare number is ambiguous between seconds and minutes.
fn time(value: &Value, least: Duration) -> Result<Duration, InvalidValue> {
    let time = match value {
        Value::Integer(0) => Duration::ZERO,
        Value::Integer(_) | Value::Float(_) => return Err(InvalidValue::NoUnit),
        other => {
            let text = text(other)?.trim();
            if text != "0" && text.parse::<f64>().is_ok() {
                return Err(InvalidValue::NoUnit);
            }
            duration::parse(text).ok_or(InvalidValue::NotAllowed)?
        }
    };
    Some(time).filter(|time| (least..=LONGEST).contains(time)).ok_or(InvalidValue::NotAllowed)
}

/// Parses a size: an integer, or a string with a unit of 1024.
fn bytes(value: &Value) -> Result<u64, InvalidValue> {
    let bytes = match value {
        Value::Integer(bytes) => u64::try_from(*bytes).ok(),
        other => parse_bytes(text(other)?),
    };
    bytes.ok_or(InvalidValue::NotAllowed)
}

fn message_size(value: &Value) -> Result<usize, InvalidValue> {
    let bytes = Some(bytes(value)?).filter(|bytes| MESSAGE_BYTES.contains(bytes));
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or(InvalidValue::NotAllowed)
}

fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim() {
        "" => 0,
        "Ki" | "KiB" => 10,
        "Mi" | "MiB" => 20,
        "Gi" | "GiB" => 30,
        "Ti" | "TiB" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn bytes_text(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units.into_iter().find(|(shift, _)| bytes != 0 && bytes.trailing_zeros() >= *shift);
    whole.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

fn socket(value: &Value) -> Result<Option<String>, InvalidValue> {
    let text = text(value)?.trim();
    let path = text.strip_prefix("unix://").unwrap_or(text);
    match text {
        "" => Ok(None),
        _ if path.starts_with('/') && path.len() > 1 => Ok(Some(text.to_owned())),
        _ => Err(InvalidValue::NotAllowed),
    }
}

fn absolute(value: &Value) -> Result<PathBuf, InvalidValue> {
    let path = Path::new(text(value)?);
    let plain = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
    plain.then(|| path.components().collect()).ok_or(InvalidValue::NotAllowed)
}

fn log_root(value: &Value) -> Result<PathBuf, InvalidValue> {
    absolute(value).ok().filter(|path| path.parent().is_some()).ok_or(InvalidValue::NotAllowed)
}

/// Parses the address of a server: no path, no user, no query.
fn http(value: &Value) -> Result<&str, InvalidValue> {
    let text = some_text(value)?;
    let host =
        text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).ok_or(InvalidValue::NotAllowed)?;
    let is_plain = !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ']);
    is_plain.then_some(text).ok_or(InvalidValue::NotAllowed)
}

/// Parses a list of names. A single name is a list of one, as in `--set images.keep=…`.
fn patterns(value: &Value) -> Result<Vec<Pattern>, InvalidValue> {
    let one = [value.clone()];
    let list = value.as_array().map_or(&one[..], Vec::as_slice);
    list.iter().map(|name| Ok(Pattern::from(some_text(name)?))).collect()
}

/// Parses words that are separated by commas and allowed together.
fn pod_sources(value: &Value) -> Result<PodSources, InvalidValue> {
    let words = text(value)?.split(',').map(|word| word.trim().parse());
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
    fn a_number_without_a_unit_is_not_a_duration_but_zero_is() {
        assert_eq!(time(&120.into(), Duration::ZERO), Err(InvalidValue::NoUnit));
        assert_eq!(time(&"120".into(), Duration::ZERO), Err(InvalidValue::NoUnit));
        assert_eq!(time(&1.5.into(), Duration::ZERO), Err(InvalidValue::NoUnit));
        assert_eq!(time(&"-5m".into(), Duration::ZERO), Err(InvalidValue::NotAllowed));
        assert_eq!(time(&"200y".into(), Duration::ZERO), Err(InvalidValue::NotAllowed));
        assert_eq!(time(&0.into(), Duration::ZERO), Ok(Duration::ZERO));
        assert_eq!(time(&0.into(), Duration::from_secs(1)), Err(InvalidValue::NotAllowed));
        assert_eq!(time(&"7d".into(), Duration::ZERO), Ok(Duration::from_hours(168)));
    }

    #[test]
    fn bytes_take_units_of_1024() {
        assert_eq!(message_size(&"16MiB".into()), Ok(16 << 20));
        assert_eq!(message_size(&"1 Gi".into()), Ok(1 << 30));
        assert_eq!(bytes(&"2TiB".into()), Ok(2 << 40));
        assert_eq!((bytes(&0.into()), bytes(&(-1).into())), (Ok(0), Err(InvalidValue::NotAllowed)));
        assert_eq!(message_size(&65536.into()), Ok(65536));
        assert_eq!(message_size(&"16MB".into()), Err(InvalidValue::NotAllowed));
        assert_eq!(message_size(&"99999999999999999999GiB".into()), Err(InvalidValue::NotAllowed));
        assert_eq!(bytes_text(256 << 20), "256MiB");
        assert_eq!(bytes_text(65537), "65537");
    }

    #[test]
    fn the_root_of_everything_is_no_log_root() {
        for bad in ["/", "//", "/./", "var/log/pods", "/var/log/../..", ""] {
            assert_eq!(log_root(&bad.into()), Err(InvalidValue::NotAllowed), "{bad:?}");
        }
        assert_eq!(log_root(&"/var/log//pods/".into()), Ok("/var/log/pods".into()));
    }

    #[test]
    fn an_endpoint_is_a_unix_socket() {
        assert_eq!(socket(&"".into()), Ok(None));
        assert_eq!(socket(&"unix:///run/x.sock".into()), Ok(Some("unix:///run/x.sock".to_owned())));
        assert_eq!(socket(&"/run/x.sock".into()), Ok(Some("/run/x.sock".to_owned())));
        assert_eq!(socket(&"tcp://1.2.3.4:5".into()), Err(InvalidValue::NotAllowed));
        assert_eq!(socket(&"containerd.sock".into()), Err(InvalidValue::NotAllowed));
    }
}
