//! Readers of TOML values. `None` = the value is not allowed.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use toml::Value;

use crate::model::PodSourceName;
use crate::plan::{ImageTarget, Pace, Pattern};

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

/// Reads a size: 0, or a string with a unit of 1024. Any other bare number may mean MiB or GiB.
pub(super) fn bytes(value: &Value) -> Option<u64> {
    if value.as_integer() == Some(0) {
        return Some(0);
    }
    let text = value.as_str()?.trim();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let number: u64 = number.parse().ok()?;
    let shift = match unit.trim() {
        "" if number == 0 => 0,
        "B" => 0,
        "Ki" | "KiB" => 10,
        "Mi" | "MiB" => 20,
        "Gi" | "GiB" => 30,
        "Ti" | "TiB" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// Reads targets for images, each kind at most once.
pub(super) fn image_targets(value: &Value) -> Option<Vec<ImageTarget>> {
    let targets: Vec<_> = target_texts(value)?.into_iter().map(image_target).collect::<Option<_>>()?;
    let kinds = targets.iter().map(std::mem::discriminant).collect::<HashSet<_>>();
    (kinds.len() == targets.len()).then_some(targets)
}

fn target_texts(value: &Value) -> Option<Vec<&str>> {
    let texts = texts(value, ',')?.into_iter().map(str::trim);
    Some(texts.filter(|text| !text.is_empty()).collect())
}

/// Reads a target: what it is about, where removal begins, and where it ends.
fn image_target(text: &str) -> Option<ImageTarget> {
    let (what, limits) = text.split_once(' ')?;
    let (begin, end) = limits.trim().split_once("..")?;
    let size = |text: &str| bytes(&text.trim().into());
    let percent = |text: &str| text.trim().strip_suffix('%')?.parse().ok().filter(|percent: &u64| *percent <= 100);
    match what {
        "free" => {
            let (below_bytes, until_bytes) = (size(begin)?, size(end)?);
            (below_bytes < until_bytes).then_some(ImageTarget::Free { below_bytes, until_bytes })
        }
        "total" => {
            let (above_bytes, until_bytes) = (size(begin)?, size(end)?);
            (above_bytes > until_bytes && until_bytes > 0).then_some(ImageTarget::Total { above_bytes, until_bytes })
        }
        "inodes" => {
            let (from_percent, until_percent) = (percent(begin)?, percent(end)?);
            (from_percent > until_percent && until_percent > 0)
                .then_some(ImageTarget::Inodes { from_percent, until_percent })
        }
        _ => None,
    }
}

/// Names the first text that is not a target.
pub(super) fn wrong_target(value: &Value) -> Option<String> {
    let wrong = target_texts(value)?.into_iter().find(|text| image_target(text).is_none())?;
    let forms = "\"free BYTES..MORE\", \"inodes PERCENT%..LESS%\" or \"total BYTES..LESS\"";
    Some(format!(
        "{wrong:?} is not a target: expected {forms}, where removal begins and where it ends, which is more than 0"
    ))
}

/// Reads the pace of passes over images, each part at most once.
pub(super) fn pace(value: &Value) -> Option<Pace> {
    let parts: Vec<_> = target_texts(value)?.into_iter().map(|text| text.split_once(' ')).collect::<Option<_>>()?;
    let names = parts.iter().map(|(name, _)| name).collect::<HashSet<_>>();
    (names.len() == parts.len()).then_some(())?;
    parts.into_iter().try_fold(Pace::default(), |pace, (name, limit)| pace_part(pace, name, limit.trim()))
}

/// Adds a part of the pace. Each is more than 0: a part that is absent has no effect.
fn pace_part(pace: Pace, name: &str, limit: &str) -> Option<Pace> {
    let second = Duration::from_secs(1);
    let seconds = |most| Some(time(&limit.into(), second)?.as_secs()).filter(|seconds| *seconds <= most);
    match name {
        "images" => Some(Pace { images: Some(limit.parse().ok().filter(|most| *most > 0)?), ..pace }),
        "bytes" => Some(Pace { bytes: Some(bytes(&limit.into()).filter(|most| *most > 0)?), ..pace }),
        "pause" => Some(Pace { pause_seconds: seconds(60)?, ..pace }),
        "start" => Some(Pace { start_seconds: seconds(24 * 60 * 60)?, ..pace }),
        _ => None,
    }
}

/// Names the first text that is not a part of a pace.
pub(super) fn wrong_pace(value: &Value) -> Option<String> {
    let is_wrong = |text: &&str| pace(&Value::from(vec![*text])).is_none();
    let wrong = target_texts(value)?.into_iter().find(is_wrong)?;
    let forms =
        "\"images NUMBER\", \"bytes SIZE\", \"pause TIME\" up to 1m or \"start TIME\" up to 1day, each more than 0";
    Some(format!("{wrong:?} is not a part of a pace: expected {forms}"))
}

/// Says that a number lacks a unit. `units` has the letter N in place of the number.
pub(super) fn no_unit<N: FromStr + Default + PartialOrd>(value: &Value, units: &str) -> Option<String> {
    let text = value.to_string();
    let number = text.trim_matches('"');
    number.parse::<N>().ok().filter(|number| *number > N::default())?;
    Some(format!("expected a unit: {}", units.replace('N', number)))
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

pub(super) fn log_root(value: &Value) -> Option<PathBuf> {
    absolute(value).filter(|path| !is_of_system(path))
}

/// Reads the path of a file that kubegc creates.
pub(super) fn own_file(value: &Value) -> Option<PathBuf> {
    let path = value.as_str().filter(|path| !path.trim().is_empty())?;
    Some(PathBuf::from(path)).filter(|path| !is_of_system(path))
}

/// Says that a path is a directory of the system.
pub(super) fn of_system(path: &Path) -> Option<String> {
    is_of_system(path).then(|| "is a directory of the system; choose another path".to_owned())
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

/// Reads a list of names. A single name is a list of one.
pub(super) fn patterns(value: &Value) -> Option<Vec<Pattern>> {
    let names = value.as_str().map_or_else(|| texts(value, ','), |name| Some(vec![name]))?;
    names.iter().all(|name| !name.trim().is_empty()).then(|| names.into_iter().map(Pattern::from).collect())
}

/// Says that a pattern can match no image.
pub(super) fn no_image_name(value: &Value, wants: &str) -> Option<String> {
    patterns(value).map(|_| format!("a pattern is not an image name, so it matches nothing; expected {wants}"))
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
        assert_eq!(bytes(&"16MiB".into()), Some(16 << 20));
        assert_eq!(bytes(&"1 Gi".into()), Some(1 << 30));
        assert_eq!(bytes(&"2TiB".into()), Some(2 << 40));
        assert_eq!((bytes(&0.into()), bytes(&(-1).into())), (Some(0), None));
        assert_eq!((bytes(&65536.into()), bytes(&"10".into())), (None, None));
        assert_eq!((bytes(&"65537B".into()), bytes(&"0".into())), (Some(65537), Some(0)));
        assert_eq!(bytes(&"16MB".into()), None);
        assert_eq!(bytes(&"99999999999999999999GiB".into()), None);
    }

    #[test]
    fn the_root_of_everything_is_no_log_root() {
        for bad in ["/", "//", "/./", "var/log/pods", "/var/log/../..", ""] {
            assert_eq!(log_root(&bad.into()), None, "{bad:?}");
        }
        assert_eq!(log_root(&"/var/log//pods/".into()), Some("/var/log/pods".into()));
        for system in ["/etc", "/var/", "/var/log", "//usr", "/var/lib/kubelet"] {
            assert_eq!(log_root(&system.into()), None, "{system}");
            assert_eq!(own_file(&system.into()), None, "{system}");
        }
        assert_eq!(own_file(&"/".into()), None);
        assert_eq!(own_file(&"kubegc.db".into()), Some("kubegc.db".into()));
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
