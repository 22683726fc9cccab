//! Where crictl believes the runtime to be: `/etc/crictl.yaml`.

use std::io::ErrorKind;
use std::path::Path;

use super::fault::Origin;
use super::layers::Entry;

/// Crictl's names for what we want to know.
const FIELDS: [(&str, &str); 2] =
    [("runtime-endpoint", "runtime.endpoint"), ("image-endpoint", "runtime.image_endpoint")];

/// Reads the file; none is fine. What is wrong with it comes back as a note.
pub(super) fn read(path: &Path) -> Result<Vec<Entry>, String> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.map_err(|error| format!("{} is passed over: {error}", path.display()))?,
    };
    entries(path, &text)
}

fn entries(path: &Path, text: &str) -> Result<Vec<Entry>, String> {
    let passed_over = |cause: String| format!("{} is passed over: {cause}", path.display());
    let document: serde_json::Value =
        serde_saphyr::from_str(text).map_err(|error| passed_over(format!("not YAML: {error}")))?;
    let mut entries = Vec::new();
    for (field, key) in FIELDS {
        match document.get(field) {
            None | Some(serde_json::Value::Null) => {}
            Some(serde_json::Value::String(value)) if value.is_empty() => {}
            Some(serde_json::Value::String(value)) => entries.push(Entry {
                key: key.to_owned(),
                value: value.as_str().into(),
                origin: Origin::Crictl(path.to_owned(), field),
            }),
            Some(other) => return Err(passed_over(format!("{field} is {other}"))),
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_endpoints_are_taken() {
        let text = "runtime-endpoint: unix:///run/a.sock\nimage-endpoint: \"\"\ntimeout: 10\ndebug: false\n";
        let entries = entries(Path::new("c"), text).unwrap();
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].key, "runtime.endpoint");
        assert_eq!(entries[0].value.as_str(), Some("unix:///run/a.sock"));
    }

    #[test]
    fn what_cannot_be_read_is_a_note() {
        let note = entries(Path::new("/etc/crictl.yaml"), "runtime-endpoint: [1]\n").unwrap_err();
        assert_eq!(note, "/etc/crictl.yaml is passed over: runtime-endpoint is [1]");
        assert_eq!(read(Path::new("/nowhere/crictl.yaml")), Ok(Vec::new()));
    }
}
