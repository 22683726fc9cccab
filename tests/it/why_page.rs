//! docs/why.md: each command gives what the page says, and each test that it names exists.

use std::path::Path;

use serde_json::Value;
use walkdir::WalkDir;

use crate::shell::Shell;

const PAGE: &str = include_str!("../../docs/why.md");
/// The images that look unused and are needed.
const NEEDED: [&str; 4] = ["shop/api:2", "shop/next:5", "library/postgres:16", "pause:3.9"];

/// Returns the cells of the rows of the table below a heading.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let section = PAGE.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let lines = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    lines.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

/// Runs a command of the page.
fn run(command: &str, more: &[&str]) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/");
    let command = command.trim_matches('`').replace("tests/data/", root);
    let words: Vec<_> = command.strip_prefix("kubegc ").unwrap().split(' ').chain(more.iter().copied()).collect();
    let text = Shell::new().run(&words);
    assert!(!text.starts_with("exit"), "{command}: {text}");
    text
}

#[test]
fn the_numbers_are_those_of_the_commands() {
    let rows = rows("In numbers");
    assert_eq!(rows.len(), 3);
    for row in rows {
        let [who, removed, needed, command] = row[..] else { panic!("{row:?}") };
        let shown = run(command, &[]);
        assert!(shown.contains(&format!("To remove: {removed}. ")), "{who}: {shown}");
        let plan: Value = serde_json::from_str(&run(command, &["-o", "json"])).unwrap();
        let tags = plan["actions"].as_array().unwrap().iter().map(|action| action["tags"][0].as_str().unwrap());
        let of_needed = tags.filter(|tag| NEEDED.iter().any(|name| tag.ends_with(name))).count();
        assert_eq!(of_needed.to_string(), needed, "{who}");
    }
}

#[test]
fn each_claim_has_a_command_or_a_test() {
    let rows = rows("Each claim");
    let numbers: Vec<_> = rows.iter().map(|row| row[0].to_owned()).collect();
    assert_eq!(numbers, (1..=11).map(|number| number.to_string()).collect::<Vec<_>>());
    assert!(numbers.iter().all(|number| PAGE.contains(&format!("({number}) |"))), "each is a claim of the comparison");
    for row in rows {
        let (shown_by, output) = (row[1], row[2]);
        if let Some(test) = shown_by.strip_prefix("test ") {
            assert!(is_test(test.trim_matches('`')), "no test {test}");
        } else {
            let shown = run(shown_by, &[]);
            assert!(shown.contains(output), "{shown_by}: {shown}");
        }
    }
}

/// Returns whether a file of the tests has this test.
fn is_test(name: &str) -> bool {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let files = WalkDir::new(tests).into_iter().map(Result::unwrap).filter(|entry| entry.file_type().is_file());
    let mut sources = files.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "rs"));
    sources.any(|entry| std::fs::read_to_string(entry.path()).unwrap().contains(&format!("fn {name}()")))
}
