//! Garbage-collection settings from a kubelet's configuration: `--kubelet-config`, and its drop-in directory.
//!
//! The files are read as by kubelet 1.36. Only the fields below are read, in the kubelet's spelling and meaning. All
//! other fields are ignored. `sockets` reads the endpoints of this file, because crictl's file has precedence over them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value as Json;
use serde_saphyr::options::DuplicateKeyPolicy;
use toml::Value;
use walkdir::WalkDir;

use crate::config::config_error::{ConfigFault, Origin};
use crate::config::entry::Entry;
use crate::config::parse::LONGEST;
use crate::model::{duration_text, yaml_error_text};

/// The units of Go's `time.ParseDuration`.
const GO_UNITS: [&str; 7] = ["ns", "us", "µs", "ms", "s", "m", "h"];

/// Fields of `KubeletConfiguration`, their keys here, and their readers.
const FIELDS: [(&str, &str, Read); 5] = [
    ("imageGCHighThresholdPercent", "images.high_threshold_percent", percent),
    ("imageGCLowThresholdPercent", "images.low_threshold_percent", percent),
    ("imageMinimumGCAge", "images.min_age", minimum_age),
    ("imageMaximumGCAge", "images.max_age", maximum_age),
    ("podLogsDir", "logs.pods_root", text),
];

/// Reads a field; `None` = the kubelet treats it as unset. The error says what the kubelet wants instead.
type Read = fn(&Json) -> Result<Option<Value>, &'static str>;

/// The kubelet's configuration: its file, and the files of its drop-in directory, the later ones stronger.
#[derive(Debug, Default)]
pub(super) struct KubeletFiles {
    files: Vec<(PathBuf, Json)>,
    /// All faults at once.
    pub(super) faults: Vec<ConfigFault>,
    /// What the kubelet accepts and a person should look at.
    pub(super) warnings: Vec<String>,
}

/// The entries of a map, each with the file that sets it.
type Entries<'a> = BTreeMap<&'a str, (&'a Path, &'a Json)>;

// === impl KubeletFiles ===

impl KubeletFiles {
    /// Adds a file, which must be later in the kubelet's order than those before.
    pub(super) fn add(&mut self, path: &Path, text: &str) {
        match decode(text) {
            Ok((document, doubt)) => {
                self.faults.extend(header(path, &document));
                self.warnings.extend(doubt.map(|doubt| format!("{}: {doubt}", path.display())));
                self.files.push((path.to_owned(), document));
            }
            Err(error) => {
                let right = format!("not YAML: {}", yaml_error_text(&error));
                self.faults.push(ConfigFault::whole(Origin::File(path.to_owned(), None), right));
            }
        }
    }

    /// Returns the value of a field, and the file that sets it. The kubelet merges its files as RFC 7386 says, so `null` takes
    /// back what an earlier file has set.
    pub(super) fn get(&self, name: &str) -> Option<(&Path, &Json)> {
        let mut set = self.files.iter().rev().filter_map(|(path, file)| Some((&**path, file.get(name)?)));
        set.next().filter(|(_, value)| !value.is_null())
    }

    /// Returns the entries of a field that is a map of what `wanted` says, each with the file that sets it; `None` = no file has the
    /// field.
    ///
    /// # Errors
    /// The last file that has it has no map.
    pub(super) fn map(&self, name: &str, wanted: &str) -> Result<Option<Entries<'_>>, ConfigFault> {
        if let Some((path, written)) = self.get(name).filter(|(_, written)| !written.is_object()) {
            return Err(ConfigFault::of(Origin::File(path.to_owned(), None), name, written, wanted));
        }
        let mut merged: Option<BTreeMap<_, _>> = None;
        for (path, file) in &self.files {
            let Some(written) = file.get(name) else { continue };
            let Some(entries) = written.as_object() else {
                merged = None;
                continue;
            };
            let merged = merged.get_or_insert_default();
            merged.extend(entries.iter().map(|(key, value)| (key.as_str(), (&**path, value))));
            merged.retain(|_, (_, value)| !value.is_null());
        }
        Ok(merged)
    }

    pub(super) fn entries(&mut self) -> Vec<Entry> {
        let (mut entries, mut faults) = (Vec::new(), Vec::new());
        for (name, key, read) in FIELDS {
            let Some((path, written)) = self.get(name) else { continue };
            match read(written) {
                Ok(value) => entries.extend(value.map(|value| {
                    let origin = Origin::OtherProgram(path.to_owned(), name);
                    Entry { key: key.to_owned(), value, origin, file: None }
                })),
                Err(wants) => {
                    let origin = Origin::File(path.to_owned(), None);
                    faults.push(ConfigFault::of(origin, name, written, format!("expected {wants}")));
                }
            }
        }
        self.faults.append(&mut faults);
        entries
    }
}

/// Lists the files of the kubelet's drop-in directory in its order: those that end with `.conf`, in subdirectories too.
pub(super) fn drop_ins(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in WalkDir::new(directory).sort_by_file_name() {
        let entry = entry?;
        let is_drop_in = entry.path().extension().is_some_and(|extension| extension == "conf");
        paths.extend((is_drop_in && !entry.file_type().is_dir()).then(|| entry.into_path()));
    }
    Ok(paths)
}

/// Reads a document as the kubelet does: the first of several, and if its strict decoder refuses it, by its lenient one, which
/// takes the last of repeated keys. The second value says what is doubtful.
///
/// It reads YAML 1.1, in which a leading zero makes a number octal: `0122` is 82.
fn decode(text: &str) -> Result<(Json, Option<String>), serde_saphyr::Error> {
    let strict = serde_saphyr::options! { legacy_octal_numbers: true };
    let (documents, cause) = match serde_saphyr::from_multiple_with_options::<Json>(text, strict) {
        Ok(documents) => (documents, None),
        Err(error) => {
            let lenient =
                serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins, legacy_octal_numbers: true };
            let documents = serde_saphyr::from_multiple_with_options(text, lenient)?;
            (documents, Some(format!("of repeated keys the last counts ({})", first_line(&yaml_error_text(&error)))))
        }
    };
    let others = (documents.len() > 1).then(|| "of several documents the first counts".to_owned());
    let doubts: Vec<_> = cause.into_iter().chain(others).collect();
    let doubt = (!doubts.is_empty()).then(|| format!("{}, as for the kubelet", doubts.join(", ")));
    Ok((documents.into_iter().next().unwrap_or_default(), doubt))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Checks the header. Another kind of document has no image settings, and would look like the defaults.
fn header(path: &Path, document: &Json) -> Vec<ConfigFault> {
    let wanted = [("kind", "KubeletConfiguration"), ("apiVersion", "kubelet.config.k8s.io/v1beta1")];
    let wrong = wanted.into_iter().filter(|(name, value)| document.get(name).and_then(Json::as_str) != Some(value));
    let fault = |(name, value)| {
        let written = document.get(name).unwrap_or(&Json::Null);
        ConfigFault::of(Origin::File(path.to_owned(), None), name, written, format!("expected {value}"))
    };
    wrong.map(fault).collect()
}

fn percent(written: &Json) -> Result<Option<Value>, &'static str> {
    // A float without a fraction is an integer for the kubelet too.
    let percent = written.as_f64().filter(|percent| (0.0..=100.0).contains(percent) && percent.fract() == 0.0);
    #[expect(clippy::cast_possible_truncation, reason = "it is at most 100")]
    percent.map(|percent| Some((percent as i64).into())).ok_or("an integer from 0 to 100")
}

/// The kubelet cannot distinguish 0 from unset, so 0 means its default.
fn minimum_age(written: &Json) -> Result<Option<Value>, &'static str> {
    age(written).map(|age| Some(if age.is_zero() { "2m".into() } else { duration_text(age).into() }))
}

fn maximum_age(written: &Json) -> Result<Option<Value>, &'static str> {
    age(written).map(|age| Some(duration_text(age).into()))
}

fn age(written: &Json) -> Result<Duration, &'static str> {
    written.as_str().and_then(go_duration).ok_or("a duration as Go writes it, such as \"2m0s\"")
}

/// Reads a duration in Go's notation, which has no days and longer units, and no spaces.
fn go_duration(text: &str) -> Option<Duration> {
    let mut units = text.split(|c: char| c.is_ascii_digit() || c == '.').filter(|unit| !unit.is_empty());
    let is_go = units.all(|unit| GO_UNITS.contains(&unit));
    humantime::parse_duration(text).ok().filter(|time| is_go && *time <= LONGEST)
}

fn text(written: &Json) -> Result<Option<Value>, &'static str> {
    let text = written.as_str().ok_or("a string")?;
    Ok((!text.is_empty()).then(|| text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

    /// Reads files of these texts, in their order.
    fn files(texts: &[&str]) -> KubeletFiles {
        let mut files = KubeletFiles::default();
        texts.iter().zip(["k", "1.conf", "2.conf"]).for_each(|(text, name)| files.add(Path::new(name), text));
        files
    }

    fn read(mut files: KubeletFiles) -> (Vec<(String, String)>, Vec<String>) {
        let entries = files.entries().into_iter().map(|entry| (entry.key, entry.value.to_string())).collect();
        (entries, files.faults.iter().map(ConfigFault::to_string).collect())
    }

    fn read_all(body: &str) -> (Vec<(String, String)>, Vec<String>) {
        read(files(&[&format!("{HEADER}{body}")]))
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_fields_are_taken_and_the_others_passed_over() {
        let (entries, faults) = read_all(
            "imageGCHighThresholdPercent: 70\nimageGCLowThresholdPercent: 0\nimageMinimumGCAge: 2m0s\n\
             imageMaximumGCAge: 1h30m\ncontainerRuntimeEndpoint: unix:///run/c.sock\nimageServiceEndpoint: ''\n\
             podLogsDir: /data/pods\nevictionHard: {imagefs.available: 15%}\n",
        );
        assert_eq!(faults, Vec::<String>::new());
        let wanted = [
            ("images.high_threshold_percent", "70"),
            ("images.low_threshold_percent", "0"),
            ("images.min_age", "\"2m\""),
            ("images.max_age", "\"1h30m\""),
            ("logs.pods_root", "\"/data/pods\""),
        ];
        assert_eq!(entries, pairs(&wanted));
    }

    #[test]
    fn a_minimum_age_of_zero_is_the_default() {
        assert_eq!(read_all("imageMinimumGCAge: 0s\n").0, pairs(&[("images.min_age", "\"2m\"")]));
        assert_eq!(read_all("imageMaximumGCAge: 0s\n").0, pairs(&[("images.max_age", "\"0s\"")]));
    }

    #[test]
    fn all_faults_come_at_once() {
        let (entries, faults) = read(files(&[
            "apiVersion: v1\nkind: Pod\nimageGCHighThresholdPercent: 120\nimageMaximumGCAge: 7d\npodLogsDir: 3\n",
        ]));
        assert_eq!(entries, Vec::new());
        assert_eq!(
            faults,
            [
                "k: kind = \"Pod\": expected KubeletConfiguration",
                "k: apiVersion = \"v1\": expected kubelet.config.k8s.io/v1beta1",
                "k: imageGCHighThresholdPercent = 120: expected an integer from 0 to 100",
                "k: imageMaximumGCAge = \"7d\": expected a duration as Go writes it, such as \"2m0s\"",
                "k: podLogsDir = 3: expected a string",
            ]
        );
    }

    /// kubelet 1.36 loads each of these, the doubtful ones with a warning.
    #[test]
    fn what_the_kubelet_loads_is_read() {
        let high = |text: &str| (text.to_owned(), pairs(&[("images.high_threshold_percent", "82")]));
        for (row, (body, entries), is_doubtful) in [
            ("a key twice", high("imageGCHighThresholdPercent: 70\nimageGCHighThresholdPercent: 82\n"), true),
            ("a float", high("imageGCHighThresholdPercent: 82.0\n"), false),
            ("an octal number", high("imageGCHighThresholdPercent: 0122\n"), false),
            ("an octal number of YAML 1.2", high("imageGCHighThresholdPercent: 0o122\n"), false),
            ("a hexadecimal number", high("imageGCHighThresholdPercent: 0x52\n"), false),
            ("a zero before a decimal number", high("imageGCHighThresholdPercent: 082\n"), false),
            ("an end of the document", high("imageGCHighThresholdPercent: 82\n---\n"), false),
            (
                "a second document",
                high("imageGCHighThresholdPercent: 82\n---\nimageGCHighThresholdPercent: 70\n"),
                true,
            ),
        ] {
            let mut files = files(&[&format!("{HEADER}{body}")]);
            let read: Vec<_> = files.entries().into_iter().map(|it| (it.key, it.value.to_string())).collect();
            assert_eq!((read, files.warnings.is_empty()), (entries, !is_doubtful), "{row}: {:?}", files.warnings);
            assert_eq!(files.faults, [], "{row}");
        }
        let (_, faults) = read_all("imageGCHighThresholdPercent: 82.5\n");
        assert_eq!(faults, ["k: imageGCHighThresholdPercent = 82.5: expected an integer from 0 to 100"]);
    }

    #[test]
    fn drop_ins_override_the_file_and_each_other() {
        let text = |body: &str| format!("{HEADER}{body}");
        let main = text("imageGCHighThresholdPercent: 90\nimageGCLowThresholdPercent: 80\nimageMaximumGCAge: 1h\n");
        let first = text("imageGCHighThresholdPercent: 75\nimageMaximumGCAge: null\n");
        let files = files(&[&main, &first, &text("imageGCHighThresholdPercent: 70\n")]);
        assert_eq!(files.get("imageGCLowThresholdPercent").unwrap().0, Path::new("k"));
        assert_eq!(files.get("imageGCHighThresholdPercent").unwrap().0, Path::new("2.conf"));
        let wanted = pairs(&[("images.high_threshold_percent", "70"), ("images.low_threshold_percent", "80")]);
        assert_eq!(read(files).0, wanted, "null takes the age back");
    }

    #[test]
    fn only_files_that_end_with_conf_are_drop_ins() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("15.conf")).unwrap();
        for name in ["20.conf", "10.conf", "README.txt", "30.yaml", "15.conf/1.conf"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let names: Vec<_> = drop_ins(dir.path()).unwrap();
        let names: Vec<_> = names.iter().map(|path| path.strip_prefix(dir.path()).unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["10.conf", "15.conf/1.conf", "20.conf"]);
    }

    #[test]
    fn go_knows_no_days() {
        assert_eq!(go_duration("2m0s"), Some(Duration::from_mins(2)));
        assert_eq!(go_duration("1h30m"), Some(Duration::from_mins(90)));
        assert_eq!(go_duration("1.5h"), Some(Duration::from_mins(90)));
        assert_eq!(go_duration("0"), Some(Duration::ZERO));
        assert_eq!(go_duration("0s"), Some(Duration::ZERO));
        for bad in ["7d", "2 m", "2min", "-5m", "5", ""] {
            assert_eq!(go_duration(bad), None, "{bad:?}");
        }
    }
}
