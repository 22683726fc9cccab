//! `kubegc logs` beside a kubelet: what `kubectl logs` shows, and what it does not.

use kube::api::LogParams;

use crate::rig::{Manifest, NodeRig, Options, Ran, becomes_true};

/// The lines of an instance, some of which the runtime writes in parts.
const LINES: u32 = 300;

fn logs(node: &NodeRig, flags: &[&str]) -> Ran {
    node.kubegc(&[&["logs", "numbers", "-c", "app"], flags].concat())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_are_those_of_the_kubelet_and_do_not_need_the_api_server() {
    let node = super::start(Options::default()).await;
    let long = "printf '%20000s' x | busybox tr ' ' y; echo";
    let write =
        format!("i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo \"$0 line $i\"; done; echo error >&2; {long}");
    let script = format!(
        "{write}; if ! [ -e /dev/shm/again ]; then : >/dev/shm/again; exit 1; fi; printf end; exec sleep 1000000"
    );
    node.create(&Manifest::new("numbers").container("app", &script)).await;
    node.await_container("numbers", "app", "restarted", |it| {
        it.restart_count == 1 && it.state.as_ref().is_some_and(|state| state.running.is_some())
    })
    .await;
    for (previous, flags) in [(false, &[][..]), (true, &["--previous"])] {
        let which = LogParams { container: Some("app".to_owned()), previous, timestamps: true, ..LogParams::default() };
        let mut shown = Ran { code: -1, stdout: String::new(), stderr: String::new() };
        let is_same = async || {
            shown = logs(&node, &[&["--timestamps"], flags].concat());
            let kubelets = node.pods().logs("numbers", &which).await.unwrap();
            kubelets == shown.stdout && kubelets.lines().count() >= LINES as usize + 2
        };
        assert!(becomes_true(is_same).await, "{previous}: {}\n{}", shown.stdout, shown.stderr);
    }
    let both = logs(&node, &["--all"]).stdout;
    assert_eq!(both.lines().filter(|line| line.ends_with(&format!(" line {LINES}"))).count(), 2);
}
