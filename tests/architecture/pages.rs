//! The pages name only what exists.

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
fn rows(page: &str, head: &str) -> Vec<Vec<String>> {
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

fn text(path: &str) -> String {
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
