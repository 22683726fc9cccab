//! `kubegc history`: one run, sums, and new entries as they are recorded.

use super::*;

/// A shell with a store of one run.
fn recorded() -> Shell {
    let shell = Shell::new();
    store(&shell.path("kubegc.db"), &decide(&full_disk(), &Policy::default(), Scope::All));
    shell
}

fn history(shell: &Shell, arguments: &[&str]) -> String {
    shell.run(&[&["history", "--state", "kubegc.db"], arguments].concat())
}

#[test]
fn one_run_is_shown_with_its_removals_oldest_first() {
    let shell = recorded();
    insta::assert_snapshot!(history(&shell, &["1"]), @"
    RUN  STARTED               TOOK  SCOPE  REMOVED  FAILED  FREED     ERROR
    1    2026-11-21T12:00:00Z  75s   all    3        1       200.0MiB  1 removal failed

    TIME                  KIND       ID             NAME                          OUTCOME  FREED     WHY
    2026-11-21T12:00:01Z  container  f019e610bfc59  shop/old-6c5b9/app            removed            pod deleted
    2026-11-21T12:00:02Z  sandbox    8a3c0e1cba8dd  shop/migrate-29x              refused            pod has a newer sandbox; the sandbox is ready
    2026-11-21T12:00:03Z  log dir    a6173aaf-ad5f  shop/gone-1                   removed  8.0KiB    pod deleted
    2026-11-21T12:00:04Z  image      5db2c03fbaa9f  <none>                        removed  200.0MiB  disk usage 91% >= 85%
    2026-11-21T12:00:05Z  image      9b0ff0bc1b2ce  registry.example.com/web:0.9  failed             disk usage 91% >= 85%; RemoveImage: disk quota exceeded
    ");
    let document: serde_json::Value = serde_json::from_str(&history(&shell, &["1", "-o", "json"])).unwrap();
    assert_eq!((&document["run"]["id"], &document["run"]["error"]), (&1.into(), &"1 removal failed".into()));
    let kinds: Vec<_> = document["removals"].as_array().unwrap().iter().map(|entry| &entry["kind"]).collect();
    assert_eq!(kinds, ["container", "sandbox", "log_dir", "image", "image"]);
    let wide = history(&shell, &["1", "-o", "wide"]);
    let header = wide.lines().find(|line| line.starts_with("TIME")).unwrap();
    let image = wide.lines().find(|line| line.contains("<none>")).unwrap();
    let estimated = image[header.find("ESTIMATED").unwrap()..].split_whitespace().take(2);
    assert_eq!(estimated.collect::<Vec<_>>(), ["88.0MiB", "200.0MiB"], "the estimate beside the measured bytes");
    assert_eq!(history(&shell, &["77777"]), "no entry matches\n", "a number that is no run is a text");
}

#[test]
fn sums_count_removals_by_day_and_reason() {
    let shell = recorded();
    insta::assert_snapshot!(history(&shell, &["--sums"]), @"
    DAY         KIND       REMOVED  FREED     WHY
    2026-11-21  container  1                  pod deleted
    2026-11-21  log dir    1        8.0KiB    pod deleted
    2026-11-21  image      1        200.0MiB  disk usage
    ");
    let image = r#"{"day":"2026-11-21","kind":"image","reason":"space","removed":1,"freed_bytes":209715200,"pulled_again":0,"pulled_again_bytes":0}"#;
    assert_eq!(history(&shell, &["--sums", "--kind", "image", "-o", "json"]), format!("{image}\n"));
    assert_eq!(history(&shell, &["--sums", "--since", "2026-11-22"]), "no entry matches\n");
}

/// A shell with a store in which the removed image was pulled again three hours later.
pub(super) fn pulled_again() -> Shell {
    let shell = recorded();
    let store = Store::open_blocking(&shell.path("kubegc.db")).unwrap();
    store.change_blocking(|state| {
        state.learn(|mut memory| {
            for image in memory.removed_images.values_mut() {
                let image = std::sync::Arc::make_mut(image);
                image.pulled_again_at = Some(image.at + jiff::SignedDuration::from_hours(3));
            }
            memory
        })
    });
    shell
}

#[test]
fn the_history_shows_what_was_pulled_again() {
    let shell = pulled_again();
    insta::assert_snapshot!(history(&shell, &["--pulled-again"]), @"
    TIME                  KIND   ID             NAME    OUTCOME  FREED     WHY
    2026-11-21T12:00:04Z  image  5db2c03fbaa9f  <none>  removed  200.0MiB  disk usage 91% >= 85%; pulled again after 3h (88.0MiB)
    ");
    insta::assert_snapshot!(history(&shell, &["--sums", "--pulled-again"]), @"
    DAY         KIND   REMOVED  FREED     PULLED AGAIN  WHY
    2026-11-21  image  1        200.0MiB  1 (88.0MiB)   disk usage
    ");
    let sum: serde_json::Value =
        serde_json::from_str(&history(&shell, &["--sums", "--pulled-again", "-o", "json"])).unwrap();
    assert_eq!((&sum["pulled_again"], &sum["pulled_again_bytes"]), (&1.into(), &(88_u64 << 20).into()));
    assert_eq!(history(&recorded(), &["--pulled-again"]), "no entry matches\n");
}

/// The bytes of containers and sandboxes are in the run alone.
#[test]
fn sums_include_the_bytes_measured_by_a_pass() {
    let mut plan = decide(&full_disk(), &Policy::default(), Scope::All);
    if let kubegc::plan::Target::RemoveImage { tags, .. } = &mut plan.actions[9].target {
        *tags = vec!["a:1".to_owned(), "a:2".to_owned()];
    }
    let mut summary = Summary::default();
    summary.add_step(kubegc::plan::Kind::Container, 101 << 20, Measure::Measured);
    let shell = Shell::new();
    store_with(&shell.path("kubegc.db"), &plan, summary);
    let sums = history(&shell, &["--sums"]);
    let row = "2026-11-21  container           101.0MiB  all containers and sandboxes (measured by pass)\n";
    assert!(sums.contains(row) && sums.contains("container  1                  pod deleted\n"), "{sums}");
    assert!(history(&shell, &["--sums", "--kind", "container"]).contains("101.0MiB"));
    assert!(!history(&shell, &["--sums", "shop"]).contains("101.0MiB"), "the figure is about all");
    let json = history(&shell, &["--sums", "-o", "json"]);
    assert!(json.contains(r#""reason":"measured_by_pass","removed":0,"freed_bytes":105906176,"#), "{json}");
    assert!(history(&shell, &[]).contains("  a:1 +1  "), "an image with its other tags");
}

#[test]
fn follow_prints_each_new_entry_once() {
    let shell = recorded();
    let arguments = ["history", "--state", "kubegc.db", "--follow", "-o", "json"];
    let mut child = shell.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| {
        let entry: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        (entry["run"].as_i64().unwrap(), entry["kind"].as_str().unwrap().to_owned())
    });
    let kinds = ["container", "sandbox", "log_dir", "image", "image"];
    let run = |run| kinds.map(|kind| (run, kind.to_owned()));
    assert_eq!(lines.by_ref().take(5).collect::<Vec<_>>(), run(1), "the entries so far, oldest first");
    let mut later = decide(&full_disk(), &Policy::default(), Scope::All);
    later.taken_at += jiff::SignedDuration::from_hours(1);
    store(&shell.path("kubegc.db"), &later);
    assert_eq!(lines.by_ref().take(5).collect::<Vec<_>>(), run(2), "the new ones, and no other again");
    child.kill().unwrap();
    child.wait().unwrap();
}
