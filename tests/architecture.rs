//! Checks the dependencies between modules against the table in ARCHITECTURE.md, and the pages against the source.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]
#![allow(clippy::disallowed_methods, reason = "tests spawn programs")]

#[path = "architecture/pages.rs"]
mod pages;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use pages::{rows, text};

/// Words that must not occur in `src/core`. Its dependencies exclude a runtime, clients, system calls and a log.
const IMPURE: [&str; 6] = ["std::fs", "std::env", "std::io", "std::process", "SystemTime", "Instant"];

/// The crates for protobuf, and the modules that may use them.
const PROTOBUF: [&str; 3] = ["tonic", "prost", "generated"];
const SPEAK_PROTOBUF: [&str; 2] = ["cri", "sim"];

/// The crates for HTTP and TLS, and the modules that may use them. `record` may, for the events that it writes; `serve`, for the socket.
const HTTP: [&str; 5] = ["hyper", "hyper_util", "rustls", "tokio_rustls", "kube"];
const SPEAK_HTTP: [&str; 5] = ["cri", "sim", "kubernetes", "record", "serve"];

/// The modules of `plan` from the lowest on: each uses only those before it. What a plan needs to know lies below what decides.
const PLAN: [&str; 14] = [
    "policy",
    "times",
    "disk_usage",
    "document",
    "pods",
    "rules",
    "step",
    "logs",
    "leftover",
    "containers",
    "images",
    "decide",
    "confirm",
    "update_memory",
];

#[test]
fn rooms_use_only_what_the_table_allows() {
    let table = table();
    let mut faults = Vec::new();
    for file in files() {
        let Some(room) = file.room.as_deref() else { continue };
        let allowed = table.get(room).unwrap_or_else(|| panic!("{room} is not in the table of ARCHITECTURE.md"));
        for (number, line) in &file.lines {
            let used = rooms_named(line).into_iter().filter(|used| table.contains_key(used));
            for used in used.filter(|used| used != room && !allowed.contains(used)) {
                faults.push(format!("{}:{number}: uses crate::{used}", file.path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_decides_reads_no_file_and_no_clock() {
    let faults = faults(
        |file| file.path.starts_with("src/core"),
        |line| IMPURE.iter().find(|word| line.contains(*word)).map(|word| (*word).to_owned()),
    );
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_module_of_plan_uses_only_those_below_it() {
    let mut faults = Vec::new();
    for file in files().iter().filter(|file| file.room.as_deref() == Some("plan")) {
        let below = file.path.strip_prefix("src/core/plan").ok().and_then(|path| path.components().next());
        let Some(module) = below.map(|part| part.as_os_str().to_str().unwrap().trim_end_matches(".rs")) else {
            continue;
        };
        let height = PLAN.iter().position(|it| *it == module).unwrap_or_else(|| panic!("{module} is not in PLAN"));
        let is_whole = file.path.components().count() == 3;
        for (number, line) in &file.lines {
            let paths = if is_whole { &["crate::plan::", " super::"][..] } else { &["crate::plan::"] };
            let used = paths.iter().flat_map(|path| line.split(path).skip(1)).map(word);
            let above = used.filter(|used| PLAN.iter().position(|it| it == used).is_some_and(|used| used > height));
            faults.extend(above.map(|used| format!("{}:{number}: uses {used}", file.path.display())));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn protobuf_and_http_stay_in_their_rooms() {
    for (crates, rooms) in [(&PROTOBUF[..], &SPEAK_PROTOBUF[..]), (&HTTP, &SPEAK_HTTP)] {
        let outside = |file: &File| file.room.as_deref().is_none_or(|room| !rooms.contains(&room));
        let faults = faults(outside, |line| {
            // The types of kube and its derive for resource definitions are no client.
            let line = line.replace("kube::core::", "").replace("kube::{CustomResource", "");
            let names = |word: &&&str| line.contains(&format!("{word}::"));
            crates.iter().find(names).map(|word| (*word).to_owned())
        });
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}

#[test]
fn only_execute_is_given_a_writer() {
    let others = |file: &File| !matches!(file.room.as_deref(), Some("cri" | "execute"));
    let mut takers: BTreeSet<_> = faults(others, |line| line.contains("RuntimeWriter").then(String::new))
        .iter()
        .map(|fault| fault.split(':').next().unwrap().to_owned())
        .collect();
    // The module that builds the executor creates the writer and the remover.
    takers.retain(|path| !path.ends_with("src/daemon/cycle.rs"));
    assert!(takers.is_empty(), "{takers:?}");
}

#[test]
fn the_table_and_the_rooms_match() {
    let rooms: BTreeSet<_> = files().into_iter().filter_map(|file| file.room).collect();
    assert_eq!(rooms, table().into_keys().collect());
}

#[test]
fn no_module_is_a_mod_rs() {
    let old: Vec<_> = files().into_iter().filter(|file| file.path.ends_with("mod.rs")).map(|file| file.path).collect();
    assert!(old.is_empty(), "{old:?}");
}

/// A file that no other one declares is compiled by nothing.
#[test]
fn each_file_is_declared_beside_it() {
    let mut paths = Vec::new();
    gather(&root().join("src"), &mut paths);
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let is_declared = |path: &PathBuf| {
        let (dir, name) = (path.parent().unwrap(), path.file_stem().unwrap().to_str().unwrap());
        let above = [dir.with_extension("rs"), dir.join("lib.rs"), dir.join("main.rs")];
        let declares = |line: &str| line.ends_with(&format!("mod {name};"));
        let reads = |path: &PathBuf| std::fs::read_to_string(path).is_ok_and(|text| text.lines().any(declares));
        ["lib", "main"].contains(&name) || above.iter().any(reads)
    };
    paths.retain(|path| !is_declared(path));
    assert!(paths.is_empty(), "{paths:?}");
}

/// Each wing has a limit of lines, by the counting of `scripts/count.sh`.
#[test]
fn no_wing_is_over_its_limit() {
    let counted = Command::new(root().join("scripts/count.sh")).arg("wings").output().unwrap();
    let counted = String::from_utf8(counted.stdout).unwrap();
    let wings = rows(&text("ARCHITECTURE.md"), "| wing | rooms and folders | limit |");
    assert_eq!(counted.lines().count(), wings.len(), "{counted}");
    for line in counted.lines() {
        let (lines, wing) = line.trim().split_once("  ").unwrap();
        let limit = &wings.iter().find(|row| row[0] == wing).unwrap_or_else(|| panic!("no limit of {wing}"))[2];
        let limit: usize = limit.replace(',', "").parse().unwrap();
        assert!(lines.parse::<usize>().unwrap() <= limit, "{wing} has {lines} lines, its limit is {limit}");
    }
}

/// A folder is read at a glance, and a name says which file is meant.
#[test]
fn folders_are_small_and_names_tell_files_apart() {
    let mut paths = Vec::new();
    gather(&root().join("src"), &mut paths);
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let (mut folders, mut names) = (BTreeMap::<_, usize>::new(), BTreeMap::<_, usize>::new());
    for path in &paths {
        *folders.entry(path.parent().unwrap()).or_default() += 1;
        if !is_test(path) {
            *names.entry(path.file_name().unwrap()).or_default() += 1;
        }
    }
    folders.remove(&*root().join("src"));
    folders.retain(|_, files| *files > 20);
    names.retain(|_, files| *files > 2);
    assert!(folders.is_empty() && names.is_empty(), "{folders:?} {names:?}");
}

/// A source file without its comments and its tests.
struct File {
    path: PathBuf,
    room: Option<String>,
    lines: Vec<(usize, String)>,
}

fn faults(of: impl Fn(&File) -> bool, fault: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut faults = Vec::new();
    for file in files().iter().filter(|file| of(file)) {
        for (number, line) in &file.lines {
            faults.extend(fault(line).map(|word| format!("{}:{number}: {word}", file.path.display())));
        }
    }
    faults
}

/// Returns for each module the modules that it may use, from the table in ARCHITECTURE.md.
fn table() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let rows = text.lines().skip_while(|line| !line.starts_with("| room |")).skip(2);
    rows.take_while(|line| line.starts_with('|'))
        .map(|row| {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
            (words(cells[1]).remove(0), words(cells[3]).into_iter().collect())
        })
        .collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files() -> Vec<File> {
    let mut paths = Vec::new();
    gather(&root().join("src"), &mut paths);
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "rs") && !is_test(path));
    paths.iter().map(|path| read(path)).collect()
}

fn gather(dir: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            gather(&entry.path(), paths);
        } else {
            paths.push(entry.path());
        }
    }
}

/// `x/tests.rs`, the files beneath `x/tests/` and the test doubles in `src/testing/` may use any module.
fn is_test(path: &Path) -> bool {
    let names = ["tests", "tests.rs", "testing", "testing.rs"];
    path.components().any(|part| names.iter().any(|name| part.as_os_str() == *name))
}

fn read(path: &Path) -> File {
    let text = std::fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = (1..).zip(code.lines()).filter(|(_, line)| !line.trim_start().starts_with("//"));
    let short = path.strip_prefix(root()).unwrap().to_owned();
    let first = short
        .strip_prefix("src/core")
        .or_else(|_| short.strip_prefix("src"))
        .unwrap()
        .components()
        .next()
        .unwrap()
        .as_os_str()
        .to_str()
        .unwrap();
    let room = first.strip_suffix(".rs").unwrap_or(first);
    let room = (!["lib", "main"].contains(&room)).then(|| room.to_owned());
    File { lines: lines.map(|(number, line)| (number, line.to_owned())).collect(), path: short, room }
}

fn word(text: &str) -> String {
    text.trim().split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap().to_owned()
}

/// Returns the modules that a line uses: `crate::x`, `crate::{x, y::z}`.
fn rooms_named(line: &str) -> Vec<String> {
    let mut rooms = Vec::new();
    for rest in line.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(braced) => rooms.extend(braced.split(',').map(word)),
            None => rooms.push(word(rest)),
        }
    }
    rooms.retain(|room| !room.is_empty());
    rooms
}
