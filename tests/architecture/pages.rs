//! The pages name only what exists.

use std::path::Path;

use super::{gather, root};

/// Each statement about what is never removed has tests, and each of these exists.
#[test]
fn what_is_never_removed_is_tested() {
    let stated = rows(&text("README.md"), "| kept | by |");
    let tested = rows(&text("CONTRIBUTING.md"), "| statement | tests |");
    let (code, help) = (code(), text("src/cli/verbs/collect.rs"));
    let statements: Vec<_> = tested.iter().map(|row| &row[0]).collect();
    for row in &stated {
        assert!(statements.contains(&&row[0]), "CONTRIBUTING.md names no test of: {}", row[0]);
    }
    for row in &tested {
        let is_stated = stated.iter().any(|stated| stated[0] == row[0]) || help.contains(&row[0]);
        assert!(is_stated, "neither README.md nor the help says: {}", row[0]);
        for name in row[1].split('`').skip(1).step_by(2) {
            assert!(code.contains(&format!("fn {name}(")), "there is no test {name}");
        }
    }
}

/// Returns the cells of a table, by its first line.
pub(super) fn rows(page: &str, head: &str) -> Vec<Vec<String>> {
    let rows = page.lines().skip_while(|line| *line != head).skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// The page says where upstream's cases are tested.
#[test]
fn tests_and_files_named_in_cluster_gc_cases_exist() {
    let (page, code) = (text("docs/cluster-gc-cases.md"), code());
    let named = page.split('`').skip(1).step_by(2);
    let is_there = |name: &&str| match name.split_once(".rs") {
        Some(_) => root().join(name).exists(),
        None if name.contains(' ') => true, // a command
        None => code.contains(&format!("fn {name}(")) || root().join(name).exists(),
    };
    let (there, missing): (Vec<_>, Vec<_>) = named.filter(|name| !name.starts_with('-')).partition(is_there);
    assert!(missing.is_empty() && there.len() > 30, "{missing:?}");
}

pub(super) fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// Returns all code, with that of the tests.
fn code() -> String {
    let mut paths = Vec::new();
    for dir in ["src", "tests/it"] {
        gather(&root().join(dir), &mut paths);
    }
    paths.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

/// Files and folders that pages name exist, apart from those that their examples add. The changelog also names former ones.
#[test]
fn files_that_pages_name_exist() {
    const ADDED: [&str; 2] = ["src/observe/pods/inventory.rs", "src/cli/verbs/sandboxes.rs"];
    let is_there = |path: &str| {
        let bases = ["", "src", "src/core"].map(|base| root().join(base));
        bases.iter().any(|base| base.join(path).exists() || base.join(format!("{path}.rs")).exists())
    };
    let mut missing = Vec::new();
    for (page, text) in pages().into_iter().filter(|(page, _)| page != "CHANGELOG.md") {
        let named = text.split('`').skip(1).step_by(2).map(|name| name.trim_end_matches('*'));
        let paths = named.filter(|name| is_path(name) && !ADDED.contains(name));
        missing.extend(paths.filter(|path| !is_there(path)).map(|path| format!("{page}: {path}")));
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Returns whether a word in code is a path below the root, `src` or `src/core`: a file of Rust, or in a folder of the source.
fn is_path(word: &str) -> bool {
    let is_file = Path::new(word).extension().is_some_and(|extension| extension == "rs");
    let Some((first, _)) = word.split_once('/') else { return is_file };
    let is_plain = word.chars().all(|c| c.is_alphanumeric() || "/_.-".contains(c));
    is_plain
        && !first.is_empty()
        && first != "target"
        && ["", "src", "src/core"].iter().any(|base| root().join(base).join(first).is_dir())
}

/// The links between pages, also those to a heading.
#[test]
fn links_between_pages_have_targets() {
    let pages = pages();
    let mut broken = Vec::new();
    for (page, text) in &pages {
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        for target in targets.filter(|target| !target.contains(':')) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = root().join(page).parent().unwrap().join(file);
            let path = if file.is_empty() { root().join(page) } else { path };
            let has_heading = || anchors(&std::fs::read_to_string(&path).unwrap()).any(|it| it == anchor);
            if !path.exists() || !anchor.is_empty() && !has_heading() {
                broken.push(format!("{page}: {target}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Returns the anchors of the headings of a page, as GitHub makes them.
fn anchors(page: &str) -> impl Iterator<Item = String> {
    let headings = page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    headings.map(|heading| {
        let kept = heading.to_lowercase().replace(' ', "-");
        kept.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
    })
}

/// Returns the pages by their paths.
fn pages() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    gather(&root().join("docs"), &mut paths);
    let root_pages = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"];
    paths.extend(root_pages.iter().map(|page| root().join(page)));
    let short = |path: &Path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    paths.iter().map(|path| (short(path), std::fs::read_to_string(path).unwrap())).collect()
}
