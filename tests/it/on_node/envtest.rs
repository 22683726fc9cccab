//! The page `docs/envtest.md`: its script runs as it is written there, and so do the commands of its Go code.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

use crate::rig::{NodeRig, becomes_true, kubernetes_bins, unique_address};

const BINARY: &str = env!("CARGO_BIN_EXE_kubegc");

/// Returns the blocks of a language on the page.
fn blocks(language: &str) -> Vec<String> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/envtest.md")).unwrap();
    let opening = format!("```{language}\n");
    page.split(&opening).skip(1).map(|rest| rest.split_once("```\n").unwrap().0.to_owned()).collect()
}

#[test]
fn the_script_on_the_page_collects() {
    let [script] = &blocks("sh")[..] else { panic!("more or fewer than one script") };
    let bins = kubernetes_bins().into_iter().chain([Path::new(BINARY).parent().unwrap().to_owned()]);
    let path: Vec<_> = bins.map(|bin| bin.display().to_string()).chain(["/usr/bin".into(), "/bin".into()]).collect();
    let temporary = tempfile::tempdir().unwrap();
    // The programs that it starts end with it, even if this test is killed.
    let mut command = assert_cmd::Command::new("/usr/bin/unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-c", script]);
    command.env_clear().env("PATH", path.join(":")).env("ADDRESS", unique_address()).env("TMPDIR", temporary.path());
    let ran = command.timeout(std::time::Duration::from_mins(2)).output().unwrap();
    let (output, error) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{output}\n{error}");
    let collected: Vec<_> = output.lines().take(4).map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(
        collected[1],
        ["delete", "ConfigMap", "default", "dependent", "removed", "owners", "absent"],
        "{output}"
    );
    assert_eq!(collected[3], ["1", "object", "deleted,", "0", "changed."], "{output}");
    assert!(output.contains("object=\"ConfigMap.v1/dependent in namespace default\""), "the log of run: {output}");
    let left: Vec<_> = std::fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}\n{error}");
}

/// The arguments of each `exec.Command("kubegc", …)` on the page.
fn commands_in_go(kubeconfig: &str) -> Vec<Vec<String>> {
    let code = blocks("go").join("\n");
    let calls = code.split("exec.Command(\"kubegc\", ").skip(1).map(|rest| rest.split_once(')').unwrap().0);
    let argument = |text: &str| match text.trim() {
        "kubeconfig" => kubeconfig.to_owned(),
        literal => literal.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap().to_owned(),
    };
    calls.map(|arguments| arguments.split(',').map(argument).collect()).collect()
}

#[tokio::test]
async fn the_go_commands_collect_with_an_envtest_kubeconfig() {
    let node = NodeRig::start_api_alone().await;
    let kubeconfig = kubeconfig_of_envtest(&node);
    let [collect, run] = &commands_in_go(&kubeconfig)[..] else { panic!("{:?}", commands_in_go("")) };

    leave_garbage(&node).await;
    assert_eq!(collect[..2], ["controller", "collect"]);
    let ran = node.kubegc(&collect.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((ran.code, exists(&node).await), (0, false), "{ran:#?}");

    leave_garbage(&node).await;
    assert_eq!(run[..2], ["controller", "run"]);
    let mut service = Command::new(BINARY);
    let mut service = service.env_clear().args(run).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let collected = becomes_true(async || !exists(&node).await).await;
    let pid = nix::unistd::Pid::from_raw(i32::try_from(service.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let status = service.wait().unwrap();
    assert!(collected && status.success(), "{status}");
}

/// The package for tests in Go starts kubegc, which collects, and stops it.
#[tokio::test]
#[ignore = "make test-release: it needs Go"]
async fn the_go_helper_starts_and_stops_a_collector() {
    let node = NodeRig::start_api_alone().await;
    let absent = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "absent",
        "uid": "00000000-0000-4000-8000-000000000001" }]);
    let dangling = json!({ "metadata": { "name": "dangling", "ownerReferences": absent } });
    maps(&node).create(&PostParams::default(), &serde_json::from_value(dangling).unwrap()).await.unwrap();
    let (helper, pki) = (concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/envtest"), node.dir().join("pki"));
    let mut go = Command::new("go");
    go.args(["test", "-count=1", "./..."]).current_dir(helper).env("GOFLAGS", "-mod=mod").env("GOPROXY", "off");
    go.env("HOST", format!("https://{}:6443", node.name())).env("CA", pki.join("ca.crt"));
    go.env("CERT", pki.join("apiserver-client.crt")).env("KEY", pki.join("apiserver-client.key"));
    go.env("KUBEBUILDER_ASSETS", Path::new(BINARY).parent().unwrap());
    let ran = tokio::task::spawn_blocking(move || go.output()).await.unwrap().unwrap();
    let output = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && output.contains("ok "), "{output}");
    let left = Command::new("pgrep").args(["-f", "controller run --kubeconfig /tmp/TestStart"]).output().unwrap();
    assert!(left.stdout.is_empty(), "kubegc is stopped");
    let code = std::fs::read_to_string(format!("{helper}/kubegc.go")).unwrap();
    assert!(code.lines().count() <= 80);
}

/// `AuthenticatedUser.KubeConfig` of controller-runtime: the certificates are inline, and the URL ends with a slash.
fn kubeconfig_of_envtest(node: &NodeRig) -> String {
    let inline = |name: &str| {
        let encoded = Command::new("base64").arg("-w0").arg(node.dir().join("pki").join(name)).output().unwrap();
        String::from_utf8(encoded.stdout).unwrap()
    };
    let text = format!(
        "apiVersion: v1\n\
         clusters:\n\
         - cluster:\n    certificate-authority-data: {}\n    server: https://{}:6443/\n  name: envtest\n\
         contexts:\n\
         - context:\n    cluster: envtest\n    user: kubegc\n  name: envtest\n\
         current-context: envtest\n\
         kind: Config\n\
         preferences: {{}}\n\
         users:\n\
         - name: kubegc\n  user:\n    client-certificate-data: {}\n    client-key-data: {}\n",
        inline("ca.crt"),
        node.name(),
        inline("apiserver-client.crt"),
        inline("apiserver-client.key"),
    );
    let path = node.dir().join("kubeconfig/envtest");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    path.display().to_string()
}

fn maps(node: &NodeRig) -> Api<ConfigMap> {
    Api::namespaced(node.kube(), "default")
}

/// Creates an owner and a dependent, and deletes the owner.
async fn leave_garbage(node: &NodeRig) {
    let create = async |metadata| {
        let object: ConfigMap = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
        maps(node).create(&PostParams::default(), &object).await.unwrap().metadata.uid
    };
    let uid = create(json!({ "name": "owner" })).await;
    let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid });
    create(json!({ "name": "dependent", "ownerReferences": [owner] })).await;
    maps(node).delete("owner", &DeleteParams::default()).await.unwrap();
}

async fn exists(node: &NodeRig) -> bool {
    maps(node).get_opt("dependent").await.unwrap().is_some()
}
