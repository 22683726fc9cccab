//! The lock of the node: its path, which processes it excludes, and that it needs no space on the disks.
//!
//! The tests of the default path need root: they have a `/run` of their own in a mount namespace.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use kubegc::sim::{MIB, Node, Sim};

use crate::shell::Shell;

const WEB: &str = "docker.io/library/web:1";

/// Returns a node with a running pod, and a pod that has left a container.
fn sim() -> Sim {
    let node = Node::new().now(kubegc::daemon::now()).ago(Duration::from_hours(5)).image(WEB, &[("web", MIB)]);
    let node = node.pod("default", "live-0", "live-0").running("app", WEB);
    Sim::start(node.pod("default", "old-0", "old-0").exited("app", WEB).exited("app", WEB)).unwrap()
}

/// Returns a shell with a configuration without the lock settings.
fn shell(sim: &Sim) -> Shell {
    let roots = sim.log_roots();
    let config = format!(
        "images.high_threshold_percent = 100\npods.source = \"none\"\nguards.settle = \"0s\"\nguards.sandbox_grace = \"0s\"\n\
         runtime.endpoint = \"{}\"\nkubelet_root = \"{}\"\nleftovers.networks_root = \"/nowhere\"\nlogs.pods_root = \"{}\"\nlogs.containers_root = \"{}\"\n",
        sim.endpoint(),
        sim.dir().join("kubelet").display(),
        roots.pods.display(),
        roots.containers.display(),
    );
    Shell::new().with("kubegc.toml", &config)
}

#[test]
fn a_lock_creation_error_has_path_and_hint() {
    let sim = sim();
    let shell = shell(&sim).with("file", "");
    let lock = shell.path("file/kubegc.lock");
    let text = shell.run(&["collect", "--state", "state/kubegc.db", "--lock", lock.to_str().unwrap()]);
    insta::assert_snapshot!(text, @"
    exit Some(2)
    ! warning: no history yet: ages count from this command; run the service, or `kubegc collect --wait`
    ! error: cannot create the lock directory file: File exists (os error 17)
    ! hint: run kubegc as root, or set state.lock (--lock) to a file that all agents of this node share
    ");
}

#[test]
fn agents_with_different_locks_do_not_exclude_each_other() {
    let sim = sim();
    let shell = shell(&sim);
    let _lock = kubegc::record::Lock::take(&shell.path("a/kubegc.lock"), "run").unwrap();
    let collect = |lock: &str| shell.run(&["collect", "--state", "state/kubegc.db", "--lock", lock]);
    assert!(collect("a/kubegc.lock").contains("another kubegc (pid "), "the same lock, another state directory");
    assert!(collect("b/kubegc.lock").contains("Removed: 1 container"));
    assert_eq!(shell.path("b").metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

mod as_root {
    use std::process::{Command, Stdio};

    use super::*;

    /// Runs a script with a `/run` of its own and `$kubegc`. Returns its exit status and its output.
    fn with_own_run(shell: &Shell, script: &str) -> (Option<i32>, String) {
        let setup = "set -eu; exec 2>&1; mount -t tmpfs -o mode=755 tmpfs /run\n";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &format!("{setup}{script}")]);
        command.current_dir(shell.path("")).env("kubegc", assert_cmd::cargo::cargo_bin!("kubegc"));
        command.env("KUBEGC_CONFIG", shell.path("kubegc.toml")).stdin(Stdio::null());
        let output = command.env("CRI_CONFIG_FILE", shell.path("crictl.yaml")).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }

    #[test]
    fn the_first_start_on_a_full_disk_collects() {
        let sim = sim();
        let shell = shell(&sim);
        let (code, text) = with_own_run(
            &shell,
            "truncate -s 2M disk.ext4; mkfs.ext4 -q -F -m 0 -O ^has_journal disk.ext4; mkdir disk
             mount -o loop disk.ext4 disk; dd if=/dev/zero of=disk/ballast bs=1k 2>/dev/null || true
             ! mkdir disk/state 2>/dev/null
             $kubegc collect --state disk/state/kubegc.db",
        );
        assert!(text.contains("Removed: 1 container"), "{text}");
        assert!(text.contains("cannot use the store disk/state/kubegc.db: No space left on device"), "{text}");
        assert_eq!(code, Some(1), "{text}");
    }

    #[test]
    fn a_read_only_state_directory_does_not_stop_collection() {
        let sim = sim();
        let shell = shell(&sim);
        let script = "mkdir state; mount -t tmpfs -o ro tmpfs state; $kubegc collect --state state/kubegc.db";
        let (code, text) = with_own_run(&shell, script);
        assert!(text.contains("Removed: 1 container") && text.contains("Read-only file system"), "{text}");
        assert_eq!(code, Some(1), "{text}");
    }

    #[test]
    fn two_agents_with_different_state_directories_exclude_each_other() {
        let sim = sim();
        let shell = shell(&sim);
        let (code, text) = with_own_run(
            &shell,
            "$kubegc run --state a/kubegc.db >service.log 2>&1 & service=$!
             trap 'kill $service; wait $service' EXIT
             for _ in $(seq 600); do ! grep -q 'pass done' service.log || break; sleep 0.05; done
             stat -c 'mode %a' /run/kubegc
             $kubegc status --state b/kubegc.db | grep '^Agent: *pid .*, run, up '
             $kubegc run --state b/kubegc.db",
        );
        assert!(text.contains("mode 700\n") && text.contains("Agent: "), "{text}");
        assert!(text.contains("run) holds /run/kubegc/kubegc.lock"), "{text}");
        assert_eq!(code, Some(5), "{text}");
    }

    /// Without root the lock, the socket and the store are closed. The status names them.
    #[test]
    fn the_status_names_what_a_user_may_not_read() {
        let sim = sim();
        let shell = shell(&sim);
        let (_, text) = with_own_run(
            &shell,
            "$kubegc collect --quiet --state $PWD/state/kubegc.db
             exec setpriv --reuid=65534 --clear-groups --inh-caps=-all $kubegc status --state $PWD/state/kubegc.db",
        );
        let state = shell.path("state/kubegc.db");
        let closed = format!("/run/kubegc/kubegc.lock, /run/kubegc/kubegc.sock and {} (run as root)", state.display());
        assert!(text.lines().any(|line| line.starts_with("Unreadable:") && line.ends_with(&closed)), "{text}");
    }

    #[test]
    fn a_lock_permission_error_has_a_hint() {
        let sim = sim();
        let shell = shell(&sim);
        let (code, text) = with_own_run(
            &shell,
            "exec setpriv --reuid=65534 --clear-groups --inh-caps=-all $kubegc collect --state /nowhere/kubegc.db",
        );
        assert!(text.contains("cannot create the lock directory /run/kubegc: Permission denied"), "{text}");
        assert!(text.contains("hint: run kubegc as root, or set state.lock (--lock) to"), "{text}");
        assert_eq!(code, Some(2), "{text}");
    }
}
