//! The images that a file names: lines, or a report of Trivy. All commands with a list of images read it here.
//!
//! A report names an image by what cannot mean another one: its digests, else its id, else its tags, else what was scanned. A name counts
//! only with a tag or a digest: without them it may be that of a file, and would mean a whole repository.

use std::path::Path;

use serde_json::Value;

use super::one_document;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::render::format;
use crate::model::{cut_text, is_image_pattern};

/// Reads the names in a file: lines, or a report of Trivy.
pub fn of_file(path: &Path) -> Result<Vec<String>, CliError> {
    let text = text_of(path)?;
    if !text.trim_start().starts_with(['{', '[']) {
        return of_lines(path, &text);
    }
    let report: Value = serde_json::from_str(&text).map_err(|error| of_no_report(path, &error.to_string()))?;
    of_report(&report).map_err(|cause| of_no_report(path, &cause))
}

/// Reads the names in a file with lines.
pub(in crate::cli) fn of_plain_file(path: &Path) -> Result<Vec<String>, CliError> {
    of_lines(path, &text_of(path)?)
}

fn text_of(path: &Path) -> Result<String, CliError> {
    let text = one_document::text(path)
        .map_err(|error| CliError::message(ErrorKind::Usage, format!("cannot read {}: {error}", path.display())))?;
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

fn of_no_report(path: &Path, cause: &str) -> CliError {
    let cause = format::printable(&cut_text(cause, 200));
    CliError::message(ErrorKind::Usage, format!("{} is no report of Trivy about images: {cause}", path.display()))
}

/// Returns the name on each line. Empty lines and those with `#` have none.
fn of_lines(path: &Path, text: &str) -> Result<Vec<String>, CliError> {
    let lines = text.lines().map(str::trim).zip(1..).filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(line, number)| name(line).ok_or_else(|| no_name(path, number, line))).collect()
}

/// Returns the name on a line. A wildcard would be a condition, and a list names images. A table may have shortened a name with `…`,
/// and other commands print `image/ID`.
fn name(line: &str) -> Option<String> {
    let line_of = line.split_once("://").map_or(line, |(_, id)| id);
    let is_name = !line.contains('*') && !line.contains(char::is_whitespace);
    (is_name && is_image_pattern(&line_of.replace('…', ""))).then(|| line.to_owned())
}

fn no_name(path: &Path, number: usize, line: &str) -> CliError {
    let line = format::printable(&cut_text(line, 80));
    let error = CliError::message(ErrorKind::Usage, format!("{}:{number}: {line:?} names no image", path.display()));
    error.hint("a line has a name with tag or digest, such as registry.example.com/app:1, or an id")
}

/// Returns the images with a vulnerability in a report, in several in a list, or in one of a cluster (`trivy k8s`).
fn of_report(report: &Value) -> Result<Vec<String>, String> {
    let parts = report.as_array().or_else(|| report.get("Resources").and_then(Value::as_array));
    if let Some(parts) = parts {
        let of_parts: Result<Vec<_>, _> = parts.iter().map(of_report).collect();
        return of_parts.map(|names| names.concat());
    }
    let found: Vec<_> = list(report, "Results").filter(|result| list(result, "Vulnerabilities").count() > 0).collect();
    // A resource of a cluster has a list: an image for each container.
    let images: Vec<_> = match report.get("Metadata") {
        Some(Value::Array(images)) => images.iter().filter(|image| images.len() == 1 || is_in(image, &found)).collect(),
        image => image.into_iter().collect(),
    };
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let artifact = ["ArtifactName", "Name"].into_iter().find_map(|key| report.get(key)?.as_str()).unwrap_or_default();
    match report.get("ArtifactType").and_then(Value::as_str) {
        None | Some("container_image") => {}
        Some(other) => return Err(format!("{artifact:?} is a {other}")),
    }
    let mut names: Vec<_> = images.into_iter().flat_map(names_of).collect();
    names.extend(names.is_empty().then(|| artifact.to_owned()));
    match names.iter().find(|it| !is_of_one_image(it)) {
        Some(other) => Err(format!("{other:?} has no digest, image id or tag")),
        None => Ok(names),
    }
}

/// Returns whether a name cannot mean a repository. An archive has any names of images.
fn is_of_one_image(text: &str) -> bool {
    name(text).is_some() && text.rsplit('/').next().is_some_and(|last| last.contains([':', '@']))
}

/// Returns the names of an image: its digests, else its id, else its tags.
fn names_of(image: &Value) -> Vec<String> {
    let texts = |key: &str| list(image, key).filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
    let id = image.get("ImageID").and_then(Value::as_str).filter(|id| !id.is_empty());
    let names = [texts("RepoDigests"), id.map(str::to_owned).into_iter().collect(), texts("RepoTags")];
    names.into_iter().find(|names| !names.is_empty()).unwrap_or_default()
}

/// Returns whether results are of this image: their targets begin with one of its names.
fn is_in(image: &Value, results: &[&Value]) -> bool {
    let known = ["RepoTags", "RepoDigests"].into_iter().flat_map(|key| list(image, key)).chain(image.get("ImageID"));
    let known: Vec<_> = known.filter_map(Value::as_str).filter(|name| !name.is_empty()).collect();
    let targets = results.iter().filter_map(|result| result.get("Target").and_then(Value::as_str));
    let first_words = targets.filter_map(|target| target.split(' ').next());
    first_words.into_iter().any(|target| known.contains(&target))
}

fn list<'a>(of: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    of.get(key).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ID: &str = "sha256:82d1e9d7ed48a7523bdebc18cf6290bdb97b82302a8a9c27d4fe885949ea94d1";

    fn report(name: &str, metadata: &Value) -> Value {
        let found = json!([{ "Target": format!("{name} (alpine 3.7.3)"), "Vulnerabilities": [{ "VulnerabilityID": "CVE-1" }] }]);
        json!({ "ArtifactName": name, "ArtifactType": "container_image", "Metadata": metadata, "Results": found })
    }

    #[test]
    fn a_report_names_its_images_with_vulnerabilities_by_what_means_no_other_image() {
        let clean = json!({ "ArtifactName": "clean:1", "Metadata": { "RepoTags": ["clean:1"] }, "Results": [{}] });
        let resource = |images: Value, target: &str| {
            let found = json!([{ "Target": target, "Vulnerabilities": [{}] }, { "Target": "other:1 (alpine)" }]);
            json!({ "Kind": "Deployment", "Name": "web", "Metadata": images, "Results": found })
        };
        let two = json!([{ "ImageID": ID, "RepoTags": ["a:1"] }, { "ImageID": "sha256:02", "RepoTags": ["other:1"] }]);
        for (row, report, expected) in [
            (
                "digests",
                report("a:1", &json!({ "ImageID": ID, "RepoDigests": ["a@sha256:01"], "RepoTags": ["a:1"] })),
                ["a@sha256:01"].as_slice(),
            ),
            ("an archive", report("a.tar", &json!({ "ImageID": ID })), &[ID]),
            ("a directory", report("redis", &json!({ "ImageID": ID, "RepoTags": null, "RepoDigests": null })), &[ID]),
            ("tags alone", report("b:1", &json!({ "RepoTags": ["b:1", "b:2"] })), &["b:1", "b:2"]),
            ("a name with a tag", report("r.example:5000/c:1", &json!({})), &["r.example:5000/c:1"]),
            ("several", json!([report("a:1", &json!({ "ImageID": ID })), clean.clone()]), &[ID]),
            ("none", clean, &[]),
            (
                "a cluster",
                json!({ "ClusterName": "c", "Resources": [resource(json!([{ "ImageID": ID }]), "a:1 (alpine)"), { "Kind": "Role" }] }),
                &[ID],
            ),
            ("a pod of two images", json!({ "Resources": [resource(two, "a:1 (alpine)")] }), &[ID]),
        ] {
            assert_eq!(
                of_report(&report).as_deref(),
                Ok(expected.iter().map(|&it| it.to_owned()).collect::<Vec<_>>().as_slice()),
                "{row}"
            );
        }
    }

    #[test]
    fn a_name_that_would_mean_a_repository_or_a_file_is_an_error() {
        for name in ["redis", "a.tar", "r.example:5000/redis", "", "*", "r.example/*:1"] {
            let fault = Err(format!("{name:?} has no digest, image id or tag"));
            assert_eq!(of_report(&report(name, &json!({}))), fault);
            for list in ["RepoDigests", "RepoTags"] {
                assert_eq!(of_report(&report("a:1", &json!({ list: ["a:1", name] }))), fault, "{list} of an archive");
            }
        }
        let mut files = report("src:1", &json!({}));
        files["ArtifactType"] = json!("filesystem");
        assert_eq!(of_report(&files), Err("\"src:1\" is a filesystem".to_owned()));
    }

    #[test]
    fn a_line_that_names_no_image_is_named() {
        let names = |text: &str| of_lines(Path::new("list"), text).map_err(|error| format!("{error:#}"));
        assert_eq!(
            names("# x\r\nr.example/a:1\r\n\r\nr.example/b:2   \r\n").unwrap(),
            ["r.example/a:1", "r.example/b:2"]
        );
        let error = names("apiVersion: eraser.sh/v1\nkind: ImageList\n").unwrap_err();
        assert!(error.contains("list:1: \"apiVersion: eraser.sh/v1\" names no image"), "{error}");
    }

    #[test]
    fn a_line_names_one_image_in_full() {
        let rows = [
            ("registry.example.com/app:1", true),
            ("nginx", true),
            ("sha256:0123456789012345678901234567890123456789012345678901234567890123", true),
            ("image/sha256:0123456789012345678901234567890123456789012345678901234567890123", true),
            ("5db2c03fbaa9f", true),
            ("sha256:5db2c03fbaa9f", true),
            ("regis…com/app:1", true),
            ("registry.example.com/*", false),
            ("app:1 app:2", false),
            ("{\"image\":\"app\"}", false),
        ];
        for (line, is_name) in rows {
            assert_eq!(name(line).is_some(), is_name, "{line}");
        }
    }

    #[test]
    fn a_bad_line_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# from the scanner\n\napp:1\n  app:2\r\n").unwrap();
        assert_eq!(of_file(file.path()).unwrap(), ["app:1", "app:2"]);
        std::fs::write(file.path(), "app:1\n*\n").unwrap();
        let error = of_file(file.path()).unwrap_err().to_string();
        assert!(error.contains(":2: \"*\" names no image"), "{error}");
        assert!(of_plain_file(Path::new("/does/not/exist")).is_err());
    }
}
