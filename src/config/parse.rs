//! Readers of TOML values. `None` = the value is not what the type of its setting allows.

use std::collections::{BTreeSet, HashSet};
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use toml::Value;

use super::entry::WrongValue;
use crate::fleet::{FleetPart, QuietHours};
use crate::model::{ImageName, LeftoverKind, PodSourceName, bytes_of_text};
use crate::plan::{Leftovers, Pace};

/// The longest allowed duration: 100 years. A longer one could overflow the arithmetic with times.
pub(super) const LONGEST: Duration = Duration::from_hours(100 * 8766);

/// The directories of the file hierarchy standard. A log root there would expose the files of other programs to removal.
const SYSTEM_DIRECTORIES: &[&str] = &[
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/lib32",
    "/lib64",
    "/media",
    "/mnt",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/run/containerd",
    "/run/crio",
    "/sbin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/usr/local",
    "/usr/sbin",
    "/usr/share",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/kubelet",
    "/var/log",
    "/var/run",
    "/var/spool",
    "/var/tmp",
];

/// Reads a list of texts, or a text with a separator between them.
pub(super) fn texts(value: &Value, separator: char) -> Option<Vec<&str>> {
    match value {
        Value::Array(list) => list.iter().map(Value::as_str).collect(),
        value => Some(value.as_str()?.split(separator).collect()),
    }
}

pub(super) fn number(value: &Value) -> Option<u64> {
    u64::try_from(value.as_integer()?).ok()
}

/// Reads a duration. 0 needs no unit; any other bare number is ambiguous between seconds and minutes.
pub(super) fn time(value: &Value, least: Duration) -> Option<Duration> {
    let time = match value {
        Value::Integer(0) => Duration::ZERO,
        value => humantime::parse_duration(value.as_str()?.trim()).ok()?,
    };
    Some(time).filter(|time| (least..=LONGEST).contains(time))
}

/// Reads a duration of a setting.
pub(super) fn duration(value: &Value, least: Duration) -> Result<Duration, WrongValue> {
    time(value, least).ok_or_else(|| no_unit::<f64>(value, "\"Ns\" for seconds, \"Nm\" for minutes"))
}

/// Reads a size: 0, or a string with a unit.
pub(super) fn bytes(value: &Value) -> Result<u64, WrongValue> {
    let bytes = if value.as_integer() == Some(0) { Some(0) } else { value.as_str().and_then(bytes_of_text) };
    bytes.ok_or_else(|| no_unit::<u64>(value, "\"NMiB\" or \"NGiB\""))
}

/// Says that a number lacks a unit, if it is a number. `units` has the letter N in place of the number.
fn no_unit<N: FromStr + Default + PartialOrd>(value: &Value, units: &str) -> WrongValue {
    let text = value.to_string();
    let number = text.trim_matches('"');
    match number.parse::<N>() {
        Ok(read) if read > N::default() => {
            WrongValue::Whole(format!("expected a unit: {}", units.replace('N', number)))
        }
        _ => WrongValue::NotAllowed,
    }
}

/// Reads limits, each of which begins with a word of its own.
pub(super) fn limits<T: FromStr<Err = String>>(value: &Value) -> Result<Vec<T>, WrongValue> {
    let parts = parts(value)?;
    let limits = parts.iter().map(|text| text.parse().map_err(WrongValue::Whole)).collect::<Result<_, _>>()?;
    let words: HashSet<_> = parts.iter().map(|text| text.split(' ').next()).collect();
    if words.len() == parts.len() { Ok(limits) } else { Err(WrongValue::NotAllowed) }
}

/// Reads the pace of passes over images, each part at most once.
pub(super) fn pace(value: &Value) -> Result<Pace, WrongValue> {
    let parts = parts(value)?;
    let pace = parts.iter().try_fold(Pace::default(), |pace, part| pace.with(part).map_err(WrongValue::Whole))?;
    if pace.parts().len() == parts.len() { Ok(pace) } else { Err(WrongValue::NotAllowed) }
}

/// Reads words with commas between them, or a list of them; an empty text is none.
fn words<T: FromStr + Ord>(value: &Value) -> Option<BTreeSet<T>> {
    let words = texts(value, ',')?.into_iter().map(str::trim).filter(|word| !word.is_empty());
    words.map(|word| word.parse().ok()).collect()
}

/// Reads parts of the fleet; an empty text is none.
pub(super) fn fleet(value: &Value) -> Option<BTreeSet<FleetPart>> {
    words(value)
}

/// Reads hours of the week.
pub(super) fn quiet_hours(value: &Value) -> Result<Vec<QuietHours>, WrongValue> {
    let texts = texts(value, ';').ok_or(WrongValue::NotAllowed)?.into_iter().map(str::trim);
    texts.filter(|text| !text.is_empty()).map(|text| text.parse().map_err(WrongValue::Whole)).collect()
}

fn parts(value: &Value) -> Result<Vec<&str>, WrongValue> {
    let texts = texts(value, ',').ok_or(WrongValue::NotAllowed)?.into_iter().map(str::trim);
    Ok(texts.filter(|text| !text.is_empty()).collect())
}

/// Reads the address of a unix socket: a path, with or without a scheme.
pub(super) fn socket(text: &str) -> Option<&str> {
    let path = text.strip_prefix("unix://").unwrap_or(text);
    (path.starts_with('/') && path.len() > 1).then_some(text)
}

pub(super) fn absolute(value: &Value) -> Option<PathBuf> {
    let path = Path::new(value.as_str()?);
    let is_plain = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
    is_plain.then(|| path.components().collect())
}

pub(super) fn log_root(value: &Value) -> Result<PathBuf, WrongValue> {
    not_of_system(absolute(value).filter(|path| path.parent().is_some()))
}

/// Reads the path of a file that kubegc creates.
pub(super) fn own_file(value: &Value) -> Result<PathBuf, WrongValue> {
    not_of_system(value.as_str().filter(|path| !path.trim().is_empty()).map(PathBuf::from))
}

fn not_of_system(path: Option<PathBuf>) -> Result<PathBuf, WrongValue> {
    let path = path.ok_or(WrongValue::NotAllowed)?;
    let wrong = || WrongValue::Whole("is a directory of the system; choose another path".to_owned());
    if is_of_system(&path) { Err(wrong()) } else { Ok(path) }
}

/// Returns whether a path is a directory that every host has and that belongs to no single program.
fn is_of_system(path: &Path) -> bool {
    let path: PathBuf = path.components().collect();
    path == Path::new("/") || SYSTEM_DIRECTORIES.iter().any(|directory| path == Path::new(directory))
}

/// Reads the address of a server: no path, no user, no query.
pub(super) fn http(value: &Value) -> Option<&str> {
    let text = value.as_str()?;
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
    (!host.is_empty() && !host.contains(['/', '?', '#', '@', ' '])).then_some(text)
}

/// Reads a list of names. A single name is a list of one. `wants` describes it.
pub(super) fn patterns(value: &Value, wants: &str) -> Result<Vec<ImageName>, WrongValue> {
    let names = value.as_str().map_or_else(|| texts(value, ','), |name| Some(vec![name]));
    let names = names.filter(|names| names.iter().all(|name| !name.trim().is_empty())).ok_or(WrongValue::NotAllowed)?;
    let patterns: Vec<_> = names.into_iter().map(ImageName::from).collect();
    let wrong = || format!("a pattern is not an image name, so it matches nothing; expected {wants}");
    if patterns.iter().all(ImageName::can_match) { Ok(patterns) } else { Err(WrongValue::Whole(wrong())) }
}

/// Reads sources that fit together: `auto` alone, `none` alone, or one or more others, each once.
pub(super) fn pod_sources(value: &Value) -> Option<Vec<PodSourceName>> {
    let words = texts(value, ',')?.into_iter().map(|word| word.trim().parse());
    let sources: Vec<PodSourceName> = words.collect::<Result<_, _>>().ok()?;
    let stands_alone = |source: &PodSourceName| matches!(source, PodSourceName::Auto | PodSourceName::None);
    let is_alone = sources.len() == 1 || !sources.iter().any(stands_alone);
    let is_new = |(at, source)| !sources.iter().take(at).any(|before| before == source);
    (!sources.is_empty() && is_alone && sources.iter().enumerate().all(is_new)).then_some(sources)
}

/// Reads kinds of leftovers; an empty text is none. Pull records are left out: they are never removed (I21).
pub(super) fn leftovers(value: &Value) -> Option<Leftovers> {
    let mut kinds: BTreeSet<LeftoverKind> = words(value)?;
    kinds.remove(&LeftoverKind::PullRecord);
    kinds.iter().all(|kind| LeftoverKind::REMOVABLE.contains(kind)).then_some(Leftovers(kinds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::duration_text;

    #[test]
    fn only_zero_is_a_duration_without_a_unit() {
        assert_eq!(time(&120.into(), Duration::ZERO), None);
        assert_eq!(time(&"120".into(), Duration::ZERO), None);
        assert_eq!(time(&1.5.into(), Duration::ZERO), None);
        assert_eq!(time(&"-5m".into(), Duration::ZERO), None);
        assert_eq!(time(&"200y".into(), Duration::ZERO), None);
        assert_eq!(time(&0.into(), Duration::ZERO), Some(Duration::ZERO));
        assert_eq!(time(&0.into(), Duration::from_secs(1)), None);
        assert_eq!(time(&"7d".into(), Duration::ZERO), Some(Duration::from_hours(168)));
    }

    #[test]
    fn bytes_take_units_of_1024() {
        let read = |value: Value| bytes(&value).ok();
        assert_eq!(read("16MiB".into()), Some(16 << 20));
        assert_eq!(read("1 Gi".into()), Some(1 << 30));
        assert_eq!(read("2TiB".into()), Some(2 << 40));
        assert_eq!((read(0.into()), read((-1).into())), (Some(0), None));
        assert_eq!((read(65536.into()), read("10".into())), (None, None));
        assert_eq!((read("65537B".into()), read("0".into())), (Some(65537), Some(0)));
        assert_eq!(read("16MB".into()), None);
        assert_eq!(read("99999999999999999999GiB".into()), None);
    }

    #[test]
    fn the_root_of_everything_is_no_log_root() {
        for bad in ["/", "//", "/./", "var/log/pods", "/var/log/../..", ""] {
            assert_eq!(log_root(&bad.into()).ok(), None, "{bad:?}");
        }
        assert_eq!(log_root(&"/var/log//pods/".into()).ok(), Some("/var/log/pods".into()));
        for system in ["/etc", "/var/", "/var/log", "//usr", "/var/lib/kubelet"] {
            assert_eq!(log_root(&system.into()).ok(), None, "{system}");
            assert_eq!(own_file(&system.into()).ok(), None, "{system}");
        }
        assert_eq!(own_file(&"/".into()).ok(), None);
        assert_eq!(own_file(&"kubegc.db".into()).ok(), Some("kubegc.db".into()));
    }

    #[test]
    fn an_endpoint_is_a_unix_socket() {
        assert_eq!(socket("unix:///run/x.sock"), Some("unix:///run/x.sock"));
        assert_eq!(socket("/run/x.sock"), Some("/run/x.sock"));
        assert_eq!(socket("tcp://1.2.3.4:5"), None);
        assert_eq!(socket("containerd.sock"), None);
    }

    #[test]
    fn what_is_written_is_read_again() {
        for (seconds, want) in [(0, "0s"), (90, "1m30s"), (120, "2m"), (5400, "1h30m"), (30 * 86400, "30d")] {
            let duration = Duration::from_secs(seconds);
            assert_eq!(duration_text(duration), want);
            assert_eq!(time(&want.into(), Duration::ZERO), Some(duration));
        }
        let odd = Duration::new(3_456_789, 123_456_789);
        assert_eq!(time(&duration_text(odd).into(), Duration::ZERO), Some(odd));
    }
}
