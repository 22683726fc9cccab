//! Parsers of TOML values.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use toml::Value;

use super::duration::{self, LONGEST};
use super::error::InvalidValue;
use crate::plan::Pattern;

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

pub(super) fn text(value: &Value) -> Result<&str, InvalidValue> {
    value.as_str().ok_or(InvalidValue::NotAllowed)
}

pub(super) fn some_text(value: &Value) -> Result<&str, InvalidValue> {
    text(value).ok().filter(|text| !text.trim().is_empty()).ok_or(InvalidValue::NotAllowed)
}

pub(super) fn number(value: &Value, most: u64) -> Result<u64, InvalidValue> {
    let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
    number.filter(|number| *number <= most).ok_or(InvalidValue::NotAllowed)
}

/// Parses a duration. 0 needs no unit; any other bare number is ambiguous between seconds and minutes.
pub(super) fn time(value: &Value, least: Duration) -> Result<Duration, InvalidValue> {
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

/// Parses a size: 0, or a string with a unit of 1024. Any other bare number is a fault: it may mean MiB or GiB.
pub(super) fn bytes(value: &Value) -> Result<u64, InvalidValue> {
    let bytes = match value {
        Value::Integer(0) => Some(0),
        Value::Integer(1..) => return Err(InvalidValue::NoSizeUnit),
        other => {
            let text = text(other)?.trim();
            if text != "0" && text.parse::<u64>().is_ok() {
                return Err(InvalidValue::NoSizeUnit);
            }
            parse_bytes(text)
        }
    };
    bytes.ok_or(InvalidValue::NotAllowed)
}

fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "Ki" | "KiB" => 10,
        "Mi" | "MiB" => 20,
        "Gi" | "GiB" => 30,
        "Ti" | "TiB" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

pub(super) fn socket(value: &Value) -> Result<Option<String>, InvalidValue> {
    let text = text(value)?.trim();
    let path = text.strip_prefix("unix://").unwrap_or(text);
    match text {
        "" => Ok(None),
        _ if path.starts_with('/') && path.len() > 1 => Ok(Some(text.to_owned())),
        _ => Err(InvalidValue::NotAllowed),
    }
}

pub(super) fn absolute(value: &Value) -> Result<PathBuf, InvalidValue> {
    let path = Path::new(text(value)?);
    let plain = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
    plain.then(|| path.components().collect()).ok_or(InvalidValue::NotAllowed)
}

pub(super) fn log_root(value: &Value) -> Result<PathBuf, InvalidValue> {
    let path = absolute(value)?;
    if path.parent().is_none() {
        return Err(InvalidValue::NotAllowed);
    }
    if is_of_system(&path) { Err(InvalidValue::SystemDirectory) } else { Ok(path) }
}

/// Parses the path of a file that kubegc creates.
pub(super) fn own_file(value: &Value) -> Result<PathBuf, InvalidValue> {
    let path: PathBuf = Path::new(some_text(value)?).into();
    if is_of_system(&path) { Err(InvalidValue::SystemDirectory) } else { Ok(path) }
}

/// Returns whether a path is a directory that every host has and that belongs to no single program.
fn is_of_system(path: &Path) -> bool {
    let path: PathBuf = path.components().collect();
    path == Path::new("/") || SYSTEM_DIRECTORIES.iter().any(|directory| path == Path::new(directory))
}

/// Parses the address of a server: no path, no user, no query.
pub(super) fn http(value: &Value) -> Result<&str, InvalidValue> {
    let text = some_text(value)?;
    let host =
        text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).ok_or(InvalidValue::NotAllowed)?;
    let is_plain = !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ']);
    is_plain.then_some(text).ok_or(InvalidValue::NotAllowed)
}

/// Parses a list of names. A single name is a list of one, as in `--set images.keep=…`.
pub(super) fn patterns(value: &Value) -> Result<Vec<Pattern>, InvalidValue> {
    let one = [value.clone()];
    let list = value.as_array().map_or(&one[..], Vec::as_slice);
    let patterns = list.iter().map(|name| Ok(Pattern::from(some_text(name)?))).collect::<Result<Vec<_>, _>>()?;
    if patterns.iter().all(Pattern::can_match) { Ok(patterns) } else { Err(InvalidValue::NoImageName) }
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
        assert_eq!(bytes(&"16MiB".into()), Ok(16 << 20));
        assert_eq!(bytes(&"1 Gi".into()), Ok(1 << 30));
        assert_eq!(bytes(&"2TiB".into()), Ok(2 << 40));
        assert_eq!((bytes(&0.into()), bytes(&(-1).into())), (Ok(0), Err(InvalidValue::NotAllowed)));
        assert_eq!(
            (bytes(&65536.into()), bytes(&"10".into())),
            (Err(InvalidValue::NoSizeUnit), Err(InvalidValue::NoSizeUnit))
        );
        assert_eq!((bytes(&"65537B".into()), bytes(&"0".into())), (Ok(65537), Ok(0)));
        assert_eq!(bytes(&"16MB".into()), Err(InvalidValue::NotAllowed));
        assert_eq!(bytes(&"99999999999999999999GiB".into()), Err(InvalidValue::NotAllowed));
    }

    #[test]
    fn the_root_of_everything_is_no_log_root() {
        for bad in ["/", "//", "/./", "var/log/pods", "/var/log/../..", ""] {
            assert_eq!(log_root(&bad.into()), Err(InvalidValue::NotAllowed), "{bad:?}");
        }
        assert_eq!(log_root(&"/var/log//pods/".into()), Ok("/var/log/pods".into()));
        for system in ["/etc", "/var/", "/var/log", "//usr", "/var/lib/kubelet"] {
            assert_eq!(log_root(&system.into()), Err(InvalidValue::SystemDirectory), "{system}");
            assert_eq!(own_file(&system.into()), Err(InvalidValue::SystemDirectory), "{system}");
        }
        assert_eq!(own_file(&"/".into()), Err(InvalidValue::SystemDirectory));
        assert_eq!(own_file(&"kubegc.db".into()), Ok("kubegc.db".into()));
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
