//! The type and the field of a setting: reads it from TOML, writes it to TOML, and describes it for messages.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use toml::Value;

use super::duration::{self, LONGEST};
use super::{LogFormat, PodSourceName, PodSources, Settings};
use crate::model::duration_text;
use crate::plan::{AgeFrom, Pattern, Profile};

/// The field of a setting, by the kind of its value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    /// A duration, possibly 0.
    Duration(Field<Duration>),
    /// A duration to wait for: at least one second, to prevent a busy loop.
    Wait(Field<Duration>),
    /// On or off.
    Switch(Field<bool>),
    /// A number; less than 0 means no limit.
    Limit(Field<Option<u64>>),
    /// 0 to 100.
    Percent(Field<u64>),
    /// A number from 0.
    Count(Field<u64>),
    /// A size in memory.
    Bytes(Field<usize>),
    /// Space on a disk, perhaps 0.
    Space(Field<u64>),
    /// Any text.
    Text(Field<String>),
    /// A unix socket, or empty.
    Endpoint(Field<Option<String>>),
    /// An absolute path.
    Directory(Field<PathBuf>),
    /// An absolute path under which kubegc removes files, so never the file system root.
    LogRoot(Field<PathBuf>),
    /// Any path.
    File(Field<PathBuf>),
    /// Any path, or empty.
    OptionalFile(Field<Option<PathBuf>>),
    /// An HTTP or HTTPS address.
    Http(Field<String>),
    /// Image names with `*` as a wildcard.
    Patterns(Field<Vec<Pattern>>),
    /// One of a few words.
    AgeFrom(Field<AgeFrom>),
    /// One of a few words.
    Profile(Field<Profile>),
    /// Words, separated by commas.
    PodSources(Field<PodSources>),
    /// One of a few words.
    LogFormat(Field<LogFormat>),
}

/// A function that returns one field.
type Field<T> = fn(&mut Settings) -> &mut T;

/// Why a value was rejected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InvalidValue {
    /// The value is not allowed for this key.
    NotAllowed,
    /// A duration without a unit: it may mean seconds or minutes.
    NoUnit,
}

/// Values that are written as one of a few words.
trait Word: Copy + PartialEq + 'static {
    const WORDS: &'static [(&'static str, Self)];
}

impl Word for AgeFrom {
    const WORDS: &'static [(&'static str, Self)] = &[("created", Self::Created), ("finished", Self::Finished)];
}

impl Word for Profile {
    const WORDS: &'static [(&'static str, Self)] = &[("safe", Self::Safe), ("kubelet", Self::Kubelet)];
}

impl Word for PodSourceName {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("none", Self::None),
        ("runtime", Self::Runtime),
        ("kube-api", Self::KubeApi),
        ("kubelet", Self::Kubelet),
        ("kubelet-dir", Self::KubeletDir),
    ];
}

impl Word for LogFormat {
    const WORDS: &'static [(&'static str, Self)] = &[("text", Self::Text), ("json", Self::Json)];
}

/// The smallest useful message limit, and the largest message size in gRPC.
const MESSAGE_BYTES: std::ops::RangeInclusive<usize> = 64 << 10..=(4 << 30) - 1;

// === impl Slot ===

impl Slot {
    /// Sets the field to a value from TOML.
    pub(super) fn set(self, s: &mut Settings, value: &Value) -> Result<(), InvalidValue> {
        match self {
            Self::Duration(field) => put(field(s), time(value, Duration::ZERO)?),
            Self::Wait(field) => put(field(s), time(value, Duration::from_secs(1))?),
            Self::Switch(field) => put(field(s), value.as_bool().ok_or(InvalidValue::NotAllowed)?),
            Self::Limit(field) => put(field(s), u64::try_from(value.as_integer().ok_or(InvalidValue::NotAllowed)?).ok()),
            Self::Percent(field) => put(field(s), number(value, 100)?),
            Self::Count(field) => put(field(s), number(value, u64::MAX)?),
            Self::Bytes(field) => put(field(s), bytes(value)?),
            Self::Space(field) => put(field(s), space(value)?),
            Self::Text(field) => put(field(s), text(value)?.to_owned()),
            Self::Endpoint(field) => put(field(s), endpoint(value)?),
            Self::Directory(field) => put(field(s), absolute(value)?),
            Self::LogRoot(field) => put(field(s), log_root(value)?),
            Self::File(field) => put(field(s), some_text(value)?.into()),
            Self::OptionalFile(field) => put(field(s), optional_file(value)?),
            Self::Http(field) => put(field(s), http(value)?.to_owned()),
            Self::Patterns(field) => put(field(s), patterns(value)?),
            Self::AgeFrom(field) => put(field(s), word(value)?),
            Self::Profile(field) => put(field(s), word(value)?),
            Self::PodSources(field) => put(field(s), pod_sources(value)?),
            Self::LogFormat(field) => put(field(s), word(value)?),
        }
        Ok(())
    }

    /// Returns the value in force, as TOML.
    pub(super) fn get(self, settings: &Settings) -> Value {
        let s = &mut settings.clone();
        match self {
            Self::Duration(field) | Self::Wait(field) => duration_text(*field(s)).into(),
            Self::Switch(field) => (*field(s)).into(),
            Self::Limit(field) => field(s).map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX)).into(),
            Self::Percent(field) | Self::Count(field) => i64::try_from(*field(s)).unwrap_or(i64::MAX).into(),
            Self::Bytes(field) => bytes_text(*field(s)).into(),
            Self::Space(field) => usize::try_from(*field(s)).map_or_else(|_| i64::MAX.into(), |n| bytes_text(n).into()),
            Self::Text(field) | Self::Http(field) => field(s).clone().into(),
            Self::Endpoint(field) => field(s).clone().unwrap_or_default().into(),
            Self::Directory(field) | Self::LogRoot(field) | Self::File(field) => field(s).display().to_string().into(),
            Self::OptionalFile(field) => {
                field(s).as_ref().map_or_else(String::new, |path| path.display().to_string()).into()
            }
            Self::Patterns(field) => Value::Array(field(s).iter().map(|pattern| pattern.as_str().into()).collect()),
            Self::AgeFrom(field) => written(*field(s)),
            Self::Profile(field) => written(*field(s)),
            Self::PodSources(field) => field(s).iter().map(word_of).collect::<Vec<_>>().join(",").into(),
            Self::LogFormat(field) => written(*field(s)),
        }
    }

    /// Describes the allowed values, as the object of "wants".
    pub(super) fn allowed(self) -> String {
        let words = match self {
            Self::Duration(_) => "a duration such as \"90s\", \"2m\", \"168h\" or \"7d\", at most 100 years",
            Self::Wait(_) => "a duration of at least 1s, such as \"90s\", \"2m\" or \"1h\", at most 100 years",
            Self::Switch(_) => "true or false",
            Self::Limit(_) => "an integer; negative = no limit",
            Self::Percent(_) => "an integer from 0 to 100",
            Self::Count(_) => "an integer from 0",
            Self::Space(_) => "bytes, such as \"10GiB\" or 0",
            Self::Bytes(_) => "bytes from \"64KiB\" to less than \"4GiB\"",
            Self::Text(_) => "a string",
            Self::Endpoint(_) => "a unix socket such as \"unix:///run/containerd/containerd.sock\"",
            Self::Directory(_) => "an absolute path without \"..\"",
            Self::LogRoot(_) => "an absolute path without \"..\", and not \"/\"",
            Self::File(_) | Self::OptionalFile(_) => "a path",
            Self::Http(_) => "an address such as \"https://127.0.0.1:10250\"",
            Self::Patterns(_) => "a list of image names such as [\"registry.k8s.io/pause:*\"]",
            Self::AgeFrom(_) => return one_of::<AgeFrom>(),
            Self::Profile(_) => return one_of::<Profile>(),
            Self::PodSources(_) => {
                "\"auto\", \"none\", or one or several of \"kube-api\", \"kubelet\", \"kubelet-dir\" and \"runtime\", each \
                 once, with commas"
            }
            Self::LogFormat(_) => return one_of::<LogFormat>(),
        };
        words.to_owned()
    }

    /// Returns whether the field can take this type of value if the input has no types, as on the command line.
    pub(super) fn can_be(self, value: &Value) -> bool {
        match self {
            Self::Duration(_)
            | Self::Wait(_)
            | Self::Switch(_)
            | Self::Limit(_)
            | Self::Percent(_)
            | Self::Count(_)
            | Self::Bytes(_)
            | Self::Space(_) => true,
            Self::Patterns(_) => value.is_str() || value.is_array(),
            Self::Text(_)
            | Self::Endpoint(_)
            | Self::Directory(_)
            | Self::LogRoot(_)
            | Self::File(_)
            | Self::OptionalFile(_)
            | Self::Http(_)
            | Self::AgeFrom(_)
            | Self::Profile(_)
            | Self::PodSources(_)
            | Self::LogFormat(_) => value.is_str(),
        }
    }

    /// Returns whether the empty string means that the setting is unset.
    pub(super) fn may_be_empty(self) -> bool {
        matches!(self, Self::Text(_) | Self::Endpoint(_) | Self::OptionalFile(_))
    }

    /// Returns the JSON Schema of the value.
    pub(super) fn schema(self) -> serde_json::Value {
        match self {
            Self::Switch(_) => json!({"type": "boolean"}),
            Self::Limit(_) => json!({"type": "integer"}),
            Self::Percent(_) => json!({"type": "integer", "minimum": 0, "maximum": 100}),
            Self::Count(_) => json!({"type": "integer", "minimum": 0}),
            Self::Patterns(_) => json!({"type": "array", "items": {"type": "string", "minLength": 1}}),
            Self::AgeFrom(_) => json!({"enum": words::<AgeFrom>()}),
            Self::Profile(_) => json!({"enum": words::<Profile>()}),
            Self::PodSources(_) => json!({"type": "string", "pattern": pod_sources_pattern()}),
            Self::LogFormat(_) => json!({"enum": words::<LogFormat>()}),
            Self::Bytes(_) | Self::Space(_) => json!({"type": ["string", "integer"]}),
            _ => json!({"type": "string"}),
        }
    }
}

fn put<T>(field: &mut T, value: T) {
    *field = value;
}

fn text(value: &Value) -> Result<&str, InvalidValue> {
    value.as_str().ok_or(InvalidValue::NotAllowed)
}

fn some_text(value: &Value) -> Result<&str, InvalidValue> {
    text(value).ok().filter(|text| !text.trim().is_empty()).ok_or(InvalidValue::NotAllowed)
}

fn number(value: &Value, most: u64) -> Result<u64, InvalidValue> {
    let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
    number.filter(|number| *number <= most).ok_or(InvalidValue::NotAllowed)
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
fn bytes(value: &Value) -> Result<usize, InvalidValue> {
    size(value)?.filter(|bytes| MESSAGE_BYTES.contains(bytes)).ok_or(InvalidValue::NotAllowed)
}

fn space(value: &Value) -> Result<u64, InvalidValue> {
    size(value)?.map(|bytes| bytes as u64).ok_or(InvalidValue::NotAllowed)
}

fn size(value: &Value) -> Result<Option<usize>, InvalidValue> {
    match value {
        Value::Integer(bytes) => Ok(usize::try_from(*bytes).ok()),
        other => Ok(parse_bytes(text(other)?)),
    }
}

fn parse_bytes(text: &str) -> Option<usize> {
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
    number.parse::<usize>().ok()?.checked_mul(1 << shift)
}

fn bytes_text(bytes: usize) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units.into_iter().find(|(shift, _)| bytes != 0 && bytes.trailing_zeros() >= *shift);
    whole.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

fn endpoint(value: &Value) -> Result<Option<String>, InvalidValue> {
    let text = text(value)?.trim();
    let socket = text.strip_prefix("unix://").unwrap_or(text);
    match text {
        "" => Ok(None),
        _ if socket.starts_with('/') && socket.len() > 1 => Ok(Some(text.to_owned())),
        _ => Err(InvalidValue::NotAllowed),
    }
}

fn absolute(value: &Value) -> Result<PathBuf, InvalidValue> {
    let path = Path::new(text(value)?);
    let plain = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
    plain.then(|| path.components().collect()).ok_or(InvalidValue::NotAllowed)
}

/// Parses the address of a server: no path, no user, no query.
fn http(value: &Value) -> Result<&str, InvalidValue> {
    let text = some_text(value)?;
    let host =
        text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).ok_or(InvalidValue::NotAllowed)?;
    let is_plain = !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ']);
    is_plain.then_some(text).ok_or(InvalidValue::NotAllowed)
}

fn log_root(value: &Value) -> Result<PathBuf, InvalidValue> {
    absolute(value).ok().filter(|path| path.parent().is_some()).ok_or(InvalidValue::NotAllowed)
}

/// Parses a list of names. A single name is a list of one, as in `--set images.keep=…`.
fn patterns(value: &Value) -> Result<Vec<Pattern>, InvalidValue> {
    let one = [value.clone()];
    let list = value.as_array().map_or(&one[..], Vec::as_slice);
    list.iter().map(|name| Ok(Pattern::from(some_text(name)?))).collect()
}

fn optional_file(value: &Value) -> Result<Option<PathBuf>, InvalidValue> {
    let text = text(value)?;
    Ok((!text.is_empty()).then(|| text.into()))
}

/// Parses words that are separated by commas and allowed together.
fn pod_sources(value: &Value) -> Result<PodSources, InvalidValue> {
    let words = text(value)?.split(',').map(|word| known(word.trim())).collect::<Result<Vec<_>, _>>()?;
    PodSources::of(words).ok_or(InvalidValue::NotAllowed)
}

/// Returns a regular expression for the JSON Schema.
fn pod_sources_pattern() -> String {
    let together: Vec<_> =
        words::<PodSourceName>().into_iter().filter(|word| !["auto", "none"].contains(word)).collect();
    let one = format!("({})", together.join("|"));
    format!("^(auto|none|{one}(,{one})*)$")
}

fn word<T: Word>(value: &Value) -> Result<T, InvalidValue> {
    known(text(value)?)
}

fn known<T: Word>(text: &str) -> Result<T, InvalidValue> {
    T::WORDS.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or(InvalidValue::NotAllowed)
}

fn written<T: Word>(value: T) -> Value {
    word_of(value).into()
}

fn word_of<T: Word>(value: T) -> &'static str {
    T::WORDS.iter().find(|(_, known)| *known == value).map_or("", |(word, _)| word)
}

fn words<T: Word>() -> Vec<&'static str> {
    T::WORDS.iter().map(|(word, _)| *word).collect()
}

fn one_of<T: Word>() -> String {
    let quoted: Vec<_> = words::<T>().into_iter().map(|word| format!("\"{word}\"")).collect();
    quoted.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Slot {
        /// Returns an allowed value that differs from the one in force.
        pub(in super::super) fn another_value(self, settings: &Settings) -> Value {
            match self {
                Self::Duration(_) | Self::Wait(_) => "77m".into(),
                Self::Switch(_) => (!self.get(settings).as_bool().unwrap()).into(),
                Self::Limit(_) | Self::Percent(_) | Self::Count(_) => 77.into(),
                Self::Bytes(_) | Self::Space(_) => "77MiB".into(),
                Self::Text(_) | Self::Endpoint(_) | Self::Directory(_) | Self::LogRoot(_) | Self::File(_) => {
                    "/seventy/seven".into()
                }
                Self::OptionalFile(_) => "/seventy/seven".into(),
                Self::Http(_) => "http://127.0.0.1:77".into(),
                Self::Patterns(_) => Value::Array(vec!["77".into()]),
                Self::AgeFrom(_) => "finished".into(),
                Self::Profile(_) => "kubelet".into(),
                Self::PodSources(_) => "kube-api,kubelet".into(),
                Self::LogFormat(_) => "json".into(),
            }
        }
    }

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
        assert_eq!(bytes(&"16MiB".into()), Ok(16 << 20));
        assert_eq!(bytes(&"1 Gi".into()), Ok(1 << 30));
        assert_eq!(space(&"2TiB".into()), Ok(2 << 40));
        assert_eq!((space(&0.into()), space(&(-1).into())), (Ok(0), Err(InvalidValue::NotAllowed)));
        assert_eq!(bytes(&65536.into()), Ok(65536));
        assert_eq!(bytes(&"16MB".into()), Err(InvalidValue::NotAllowed));
        assert_eq!(bytes(&"99999999999999999999GiB".into()), Err(InvalidValue::NotAllowed));
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
        assert_eq!(endpoint(&"".into()), Ok(None));
        assert_eq!(endpoint(&"unix:///run/x.sock".into()), Ok(Some("unix:///run/x.sock".to_owned())));
        assert_eq!(endpoint(&"/run/x.sock".into()), Ok(Some("/run/x.sock".to_owned())));
        assert_eq!(endpoint(&"tcp://1.2.3.4:5".into()), Err(InvalidValue::NotAllowed));
        assert_eq!(endpoint(&"containerd.sock".into()), Err(InvalidValue::NotAllowed));
    }
}
