//! `kubegc logs` on log roots as a kubelet and its tenants leave them: without a runtime, a store and an API server.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, SystemTime};

use flate2::{Compression, write::GzEncoder};
use serde_json::Value;

use crate::shell::Shell;

/// The longest wait for something that must happen.
const SOON: Duration = Duration::from_mins(2);
const WEB: &str = "pods/default_web-0_0a1b2c3d/app";

/// A shell whose configuration names a log root, with two instances of a container: the first one has rotated files.
fn shell() -> Shell {
    let shell = Shell::new();
    let root = shell.path("pods").display().to_string();
    shell.write("kubegc.toml", &format!("logs.pods_root = \"{root}\"\nruntime.endpoint = \"unix:///none.sock\"\n"));
    compressed(&shell, "0.log.20261121-120000.gz", &lines(&["1", "2"]));
    shell.write(&format!("{WEB}/0.log.20261121-120100"), &(lines(&["3"]) + "2026-11-21T12:00:00Z stdout P 4"));
    compressed(&shell, "0.log.20261121-120100.gz", "not read");
    shell.write(&format!("{WEB}/0.log.20261121-120100.gz.tmp"), "not read");
    shell.write(&format!("{WEB}/0.log"), &lines(&["th", "5"]));
    shell.write(&format!("{WEB}/1.log"), &lines(&["6", "7"]));
    shell
}

fn compressed(shell: &Shell, name: &str, text: &str) {
    shell.write(&format!("{WEB}/{name}"), "");
    let mut encoder = GzEncoder::new(fs::File::create(shell.path(WEB).join(name)).unwrap(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap();
}

fn lines(texts: &[&str]) -> String {
    texts.iter().flat_map(|text| ["2026-11-21T12:00:00.5Z stdout F ", *text, "\n"]).collect()
}

fn written_at(shell: &Shell, path: &str, hours_ago: u64) {
    let at = SystemTime::now() - Duration::from_hours(hours_ago);
    fs::File::open(shell.path(path)).unwrap().set_modified(at).unwrap();
}

fn documents(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_newest_instance_an_earlier_one_or_all_are_shown() {
    let shell = shell();
    for (flags, expected) in [
        (&[][..], "6\n7\n"),
        (&["--previous"], "1\n2\n3\n4th\n5\n"),
        (&["-p", "--tail=2"], "4th\n5\n"),
        (&["--all", "--tail=4"], "4th\n5\n6\n7\n"),
        (&["--all", "-c", "app"], "1\n2\n3\n4th\n5\n6\n7\n"),
        (&["--tail=1", "--timestamps"], "2026-11-21T12:00:00.500000000Z 7\n"),
        (&["--tail=1", "--all-containers"], "[pod/web-0/app] 7\n"),
        (&["--tail=-1"], "6\n7\n"),
        (&["app", "--tail=1", "--prefix"], "[pod/web-0/app] 7\n"),
        (&["--limit-bytes=3"], "6\n7"),
        (&["--since-time=2026-11-21T12:00:00Z"], "6\n7\n"),
        (&["--since=2026-11-22"], ""),
        (&["--since=2026-11-21T12:00:00Z"], "6\n7\n"),
    ] {
        for pod in ["web-0", "default/web-0", "pod/web-0", "0a1b", "web"] {
            assert_eq!(shell.run(&[&["logs", pod], flags].concat()), expected, "{pod} {flags:?}");
        }
    }
    insta::assert_snapshot!(shell.run(&["logs", "web-0", "--previous=2"]), @r#"
    exit Some(2)
    ! error: pod default/web-0 has no log of that instance of container "app"
    ! hint: it has those of attempt 0-1
    "#);
    let shown = documents(&shell.run(&["logs", "web-0", "--all", "--tail=3", "-o", "json"]));
    let row =
        |line: &Value| format!("{} {} {} {}", line["attempt"], line["container"], line["stream"], line["message"]);
    assert_eq!(
        shown.iter().map(row).collect::<Vec<_>>(),
        [5, 6, 7].map(|number| { format!("{} \"app\" \"stdout\" \"{number}\"", u8::from(number > 5)) })
    );
    assert_eq!(shown[0]["time"], "2026-11-21T12:00:00.5Z");
    assert_eq!(shown[0]["pod"]["uid"], "0a1b2c3d");
}

#[test]
fn the_list_names_what_there_is() {
    let shell = shell();
    shell.write("pods/shop_db-0_99/main/3.log", &lines(&["x"]));
    for path in ["0.log", "1.log", "0.log.20261121-120000.gz", "0.log.20261121-120100", "0.log.20261121-120100.gz"] {
        written_at(&shell, &format!("{WEB}/{path}"), 3);
    }
    let text = shell.run(&["logs"]);
    let columns = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let rows: Vec<_> = text.lines().map(columns).collect();
    assert_eq!(rows[0].join(" "), "POD CONTAINER ATTEMPTS FILES SIZE LAST WRITTEN");
    assert_eq!(rows[1][..4].join(" "), "default/web-0 app 0-1 4");
    assert_eq!((&*rows[1][5], rows[2][..5].join(" ")), ("3h", "shop/db-0 main 3 1 34B".to_owned()), "{text}");
    assert_eq!(shell.run(&["logs", "-n", "shop"]).lines().count(), 2);
    let listed: Value = serde_json::from_str(&shell.run(&["logs", "-n", "shop", "-o", "json"])).unwrap();
    assert_eq!((&listed[0]["attempts"], &listed[0]["size_bytes"]), (&serde_json::json!([3]), &34.into()));
    fs::remove_dir_all(shell.path("pods")).unwrap();
    let none = shell.run(&["logs"]);
    assert!(none.starts_with("exit Some(1)") && none.contains("error: cannot list pods: "), "{none}");
}

#[test]
fn several_pods_of_one_name_are_listed_unless_one_alone_has_logs_of_the_time() {
    let shell = shell();
    shell.write("pods/default_web-0_older/app/0.log", &lines(&["old"]));
    written_at(&shell, "pods/default_web-0_older/app/0.log", 48);
    let text = shell.run(&["logs", "web-0"]);
    let text: Vec<_> = text.lines().map(|line| line.split(", last written").next().unwrap()).collect();
    assert_eq!(
        text,
        [
            "exit Some(2)",
            "! error: \"web-0\" matches 2 objects:",
            "!   default/web-0 (uid 0a1b2c3d)",
            "!   default/web-0 (uid older)",
            "! hint: name one by its uid, or limit the time with --since",
        ]
    );
    assert_eq!(shell.run(&["logs", "web-0", "--since=24h", "-o", "json"]), "", "its lines are older");
    assert_eq!(shell.run(&["logs", "older"]), "old\n");
    assert!(shell.run(&["logs", "web-0", "-n", "shop"]).contains("! error: no pod with logs matches \"web-0\"\n"));
}

#[test]
fn of_several_containers_one_must_be_named() {
    let shell = shell();
    shell.write("pods/default_web-0_0a1b2c3d/side/0.log", &lines(&["s"]));
    insta::assert_snapshot!(shell.run(&["logs", "web-0"]), @"
    exit Some(2)
    ! error: pod default/web-0 has several containers: app and side
    ! hint: name one with -c, or show them with --all-containers
    ");
    assert_eq!(shell.run(&["logs", "web-0", "-c", "side"]), "s\n");
    let all = shell.run(&["logs", "web-0", "--all-containers"]);
    assert_eq!(all, "[pod/web-0/app] 6\n[pod/web-0/app] 7\n[pod/web-0/side] s\n");
    let missing = shell.run(&["logs", "web-0", "-c", "none"]);
    assert!(missing.contains("no logs of a container \"none\"\n! hint: it has those of app and side"), "{missing}");
}

/// A full disk or a wrong configuration is when logs are needed.
#[test]
fn logs_are_shown_with_faults_in_the_configuration() {
    let shell = shell();
    let config = fs::read_to_string(shell.path("kubegc.toml")).unwrap();
    shell.write("kubegc.toml", &(config + "images.min_age = \"soon\"\n"));
    let text = shell.run(&["logs", "web-0"]);
    assert!(text.starts_with("exit Some(2)\n6\n7\n! error: ") && text.contains("images.min_age"), "{text}");
}

#[test]
fn what_a_tenant_puts_into_the_log_root_is_refused_and_named() {
    let shell = shell();
    shell.write("secret", &lines(&["secret"]));
    std::os::unix::fs::symlink(shell.path("secret"), shell.path(WEB).join("2.log")).unwrap();
    nix::unistd::mkfifo(&shell.path(WEB).join("3.log"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for name in ["\u{1b}[2J", ".4.log"] {
        shell.write(&format!("{WEB}/{name}"), &lines(&["hidden"]));
    }
    std::os::unix::fs::symlink(shell.path(WEB), shell.path("pods/default_linked_u9")).unwrap();
    shell.write(&format!("{WEB}/1.log"), &(lines(&["6"]) + "damaged\n" + &lines(&["\u{1b}[1m"])));
    let last = shell.run(&["logs", "web-0", "--all", "--tail=1"]);
    insta::assert_snapshot!(last.replace('\u{1b}', "ESC"), @r#"
    exit Some(1)
    ESC[1m
    ! warning: left out pods/default_web-0_0a1b2c3d/app/\u{1b}[2J: it has no name of a log file
    ! warning: left out pods/default_web-0_0a1b2c3d/app/.4.log: it has no name of a log file
    ! warning: left out 1 line of container "app" not in the format of the CRI
    ! error: cannot read pods/default_web-0_0a1b2c3d/app/2.log: it is not a regular file
    ! cannot read pods/default_web-0_0a1b2c3d/app/3.log: it is not a regular file
    "#);
    let previous = shell.run(&["logs", "web-0", "--previous=2"]);
    assert!(
        previous.starts_with("6\n\u{1b}[1m\n") && previous.contains("left out 1 line of container \"app\""),
        "{previous}"
    );
    shell.write("pods/default_web-0_0a1b2c3d/\u{1b}\n/0.log", &lines(&["x"]));
    let all = shell.run(&["logs", "web-0", "--all-containers"]);
    assert!(all.contains("[pod/web-0/\\u{1b}\\n] x\n"), "{all}");
    let list = shell.run(&["logs"]);
    assert!(list.contains("left out pods/default_linked_u9: Not a directory"), "{list}");
}

#[test]
fn an_export_has_the_files_as_they_are_and_replaces_nothing() {
    let shell = shell();
    std::os::unix::fs::symlink("/etc/passwd", shell.path(WEB).join("2.log")).unwrap();
    shell.write(&format!("{WEB}/../../evil/..\\x"), "");
    let text = shell.run(&["logs", "web-0", "--export", "out"]);
    assert!(text.starts_with("exit Some(1)\n4 files copied to out/default_web-0_0a1b2c3d\n"), "{text}");
    assert!(
        text.contains("! error: cannot copy pods/default_web-0_0a1b2c3d/app/2.log: it is not a regular file"),
        "{text}"
    );
    let names = |dir: &Path| {
        let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&shell.path("out")), ["default_web-0_0a1b2c3d"]);
    let copied = shell.path("out/default_web-0_0a1b2c3d/app");
    assert_eq!(names(&copied), ["0.log", "0.log.20261121-120000.gz", "0.log.20261121-120100", "1.log"]);
    for name in names(&copied) {
        assert_eq!(fs::read(copied.join(&name)).unwrap(), fs::read(shell.path(WEB).join(&name)).unwrap(), "{name:?}");
    }
    let root = format!("logs.pods_root={}", shell.path("out").display());
    assert_eq!(shell.run(&["logs", "web-0", "--previous", "--set", &root]), "1\n2\n3\n4th\n5\n", "it is a log root");
    let again = shell.run(&["logs", "web-0", "--export", "out"]);
    assert!(again.contains("! error: cannot create \"out\": File exists"), "{again}");
    std::os::unix::fs::symlink("/nowhere", shell.path("link")).unwrap();
    assert!(shell.run(&["logs", "web-0", "--export", "link"]).contains("File exists"));
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let shell = shell();
    shell.write(&format!("{WEB}/2.log"), &lines(&["x"]).repeat(100_000));
    let mut child = shell.command(&["logs", "web-0"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 2];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), &*ended.stderr), (Some(0), &b""[..]));
}

/// A command that follows the logs, and the lines that it prints.
fn follow(shell: &Shell, arguments: &[&str]) -> (Child, Receiver<String>) {
    let mut child = shell.command(&[&["logs", "-f"], arguments].concat()).stdout(Stdio::piped()).spawn().unwrap();
    let (sender, lines) = channel();
    let output = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || output.lines().try_for_each(|line| sender.send(line.unwrap())));
    (child, lines)
}

#[test]
fn a_follower_shows_new_lines_over_a_rotation_and_a_restart_until_the_pod_is_removed() {
    let shell = shell();
    shell.write("pods/default_web-0_0a1b2c3d/side/0.log", "");
    let append = |path: &str, text: &str| {
        let file = fs::OpenOptions::new().append(true).create(true).open(shell.path(WEB).join(path));
        file.unwrap().write_all(lines(&[text]).as_bytes()).unwrap();
    };
    let (mut child, printed) = follow(&shell, &["web-0", "--tail=1", "--all-containers"]);
    let next = |expected: &str| {
        assert_eq!(printed.recv_timeout(SOON).unwrap(), format!("[pod/web-0/{expected}"));
    };
    next("app] 7");
    append("1.log", "8");
    next("app] 8");
    append("1.log", "9");
    fs::rename(shell.path(WEB).join("1.log"), shell.path(WEB).join("1.log.20261121-120200")).unwrap();
    append("1.log.20261121-120200", "10");
    append("1.log", "11");
    for line in ["app] 9", "app] 10", "app] 11"] {
        next(line);
    }
    append("2.log", "12");
    next("app] 12");
    append("../side/0.log", "s");
    next("side] s");
    fs::remove_dir_all(shell.path("pods/default_web-0_0a1b2c3d")).unwrap();
    assert_eq!(printed.recv_timeout(SOON), Err(RecvTimeoutError::Disconnected));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
