//! Garbage-collection settings from a kubelet's configuration file: `--kubelet-config`.
//!
//! Only the fields below are read, in the kubelet's spelling and meaning. All other fields are ignored. `sockets` reads
//! the endpoints of this file, because crictl's file has precedence over them.

use std::path::Path;

use serde_json::Value as Json;
use toml::Value;

use super::duration;
use super::entry::Entry;
use super::error::{ConfigFault, Origin};
use crate::model::duration_text;

/// A field of `KubeletConfiguration` and its parser.
struct Field {
    name: &'static str,
    key: &'static str,
    read: fn(&Json) -> Read,
}

/// The result of reading a field.
enum Read {
    /// The kubelet treats it as unset.
    Unset,
    /// A value.
    Value(Value),
    /// The kubelet would reject it.
    Wants(&'static str),
}

const FIELDS: [Field; 5] = [
    Field { name: "imageGCHighThresholdPercent", key: "images.high_threshold_percent", read: percent },
    Field { name: "imageGCLowThresholdPercent", key: "images.low_threshold_percent", read: percent },
    Field { name: "imageMinimumGCAge", key: "images.min_age", read: minimum_age },
    Field { name: "imageMaximumGCAge", key: "images.max_age", read: age },
    Field { name: "podLogsDir", key: "logs.pods_root", read: text },
];

/// Reads the text of the file. Returns all faults at once.
pub(super) fn entries(path: &Path, text: &str) -> (Vec<Entry>, Vec<ConfigFault>) {
    let document = match serde_saphyr::from_str::<Json>(text) {
        Ok(document) => document,
        Err(error) => {
            let fault = ConfigFault::whole(Origin::File(path.to_owned()), format!("not YAML: {error}"));
            return (Vec::new(), vec![fault]);
        }
    };
    let mut faults = header(path, &document);
    let mut entries = Vec::new();
    for field in &FIELDS {
        let Some(written) = document.get(field.name).filter(|written| !written.is_null()) else { continue };
        match (field.read)(written) {
            Read::Unset => {}
            Read::Value(value) => entries.push(field.entry(path, value)),
            Read::Wants(wants) => {
                let origin = Origin::File(path.to_owned());
                faults.push(ConfigFault::of(origin, field.name, written, format!("wants {wants}")));
            }
        }
    }
    (entries, faults)
}

/// Checks the header. Another kind of document has no image settings, and would look like the defaults.
fn header(path: &Path, document: &Json) -> Vec<ConfigFault> {
    let wanted = [("kind", "KubeletConfiguration"), ("apiVersion", "kubelet.config.k8s.io/v1beta1")];
    let wrong = wanted.into_iter().filter(|(name, value)| document.get(name).and_then(Json::as_str) != Some(value));
    let fault = |(name, value)| {
        let written = document.get(name).unwrap_or(&Json::Null);
        ConfigFault::of(Origin::File(path.to_owned()), name, written, format!("wants {value}"))
    };
    wrong.map(fault).collect()
}

// === impl Field ===

impl Field {
    fn entry(&self, path: &Path, value: Value) -> Entry {
        Entry { key: self.key.to_owned(), value, origin: Origin::OtherProgram(path.to_owned(), self.name), line: None }
    }
}

fn percent(written: &Json) -> Read {
    let percent = written.as_i64().filter(|percent| (0..=100).contains(percent));
    percent.map_or(Read::Wants("an integer from 0 to 100"), |percent| Read::Value(percent.into()))
}

/// The kubelet cannot distinguish 0 from unset, so 0 means its default.
fn minimum_age(written: &Json) -> Read {
    match age(written) {
        Read::Value(value) if value.as_str() == Some("0s") => Read::Value("2m".into()),
        other => other,
    }
}

fn age(written: &Json) -> Read {
    let age = written.as_str().and_then(duration::parse_go);
    age.map_or(Read::Wants("a duration as Go writes it, such as \"2m0s\""), |age| {
        Read::Value(duration_text(age).into())
    })
}

fn text(written: &Json) -> Read {
    match written.as_str() {
        Some("") => Read::Unset,
        Some(text) => Read::Value(text.into()),
        None => Read::Wants("a string"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

    fn read_all(body: &str) -> (Vec<(String, String)>, Vec<String>) {
        let (entries, faults) = entries(Path::new("k"), &format!("{HEADER}{body}"));
        let entries = entries.into_iter().map(|entry| (entry.key, entry.value.to_string())).collect();
        (entries, faults.iter().map(ConfigFault::to_string).collect())
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
        let (entries, faults) = entries(
            Path::new("k.yaml"),
            "apiVersion: v1\nkind: Pod\nimageGCHighThresholdPercent: 120\nimageMaximumGCAge: 7d\npodLogsDir: 3\n",
        );
        assert_eq!(entries, Vec::new());
        let faults: Vec<_> = faults.iter().map(ConfigFault::to_string).collect();
        assert_eq!(
            faults,
            [
                "k.yaml: kind = \"Pod\": wants KubeletConfiguration",
                "k.yaml: apiVersion = \"v1\": wants kubelet.config.k8s.io/v1beta1",
                "k.yaml: imageGCHighThresholdPercent = 120: wants an integer from 0 to 100",
                "k.yaml: imageMaximumGCAge = \"7d\": wants a duration as Go writes it, such as \"2m0s\"",
                "k.yaml: podLogsDir = 3: wants a string",
            ]
        );
    }
}
