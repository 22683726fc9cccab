//! The page `docs/control-planes.md` by its literal steps: with the permissions that it gives, each way to run the controller collects.

use std::process::Command;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};

use super::{absent, create};
use crate::manifests::{kubectl, packaging};
use crate::on_node::daemonset::sh;
use crate::rig::{Daemon, NodeRig, becomes_true, binary, run};

const PAGE: &str = include_str!("../../../../docs/control-planes.md");
const UNIT: &str = include_str!("../../../../systemd/kubegc-controller@.service");

/// Returns the block of the page in this language that has a text.
fn block(language: &str, text: &str) -> String {
    let opening = format!("```{language}\n");
    let mut blocks = PAGE.split(&opening).skip(1).map(|rest| rest.split_once("```\n").unwrap().0);
    blocks.find(|block| block.contains(text)).unwrap_or_else(|| panic!("no block with {text:?}")).to_owned()
}

/// The user of the kubeconfig has no permissions before.
pub async fn each_way_on_the_page_collects_with_its_permissions(node: &NodeRig) {
    let permissions = block("sh", "rbac.yaml");
    in_shell(node, &permissions);
    collects(node, &of_the_unit(node)).await;
    collects(node, &of_the_static_pod(node)).await;
    in_shell(node, &permissions.replace("namespace=kubegc-system", "namespace=plane-alpha"));
    collects(node, &of_the_chart(node)).await;
}

/// Runs commands in a directory with the files of a release and the kubeconfig of the administrator.
fn in_shell(node: &NodeRig, script: &str) {
    let dir = node.dir().join("plane");
    if !dir.exists() {
        std::fs::create_dir(&dir).unwrap();
        std::os::unix::fs::symlink(packaging(""), dir.join("packaging")).unwrap();
        std::fs::copy(node.kubeconfig("admin"), dir.join("admin.kubeconfig")).unwrap();
    }
    let script = format!("kubectl() {{ {} \"$@\"; }}\n{script}", kubectl().display());
    run(Command::new("sh").env("HOME", node.dir()).current_dir(dir).args(["-euc", &script]));
}

fn of_the_unit(node: &NodeRig) -> Vec<String> {
    let line = UNIT.lines().find_map(|line| line.strip_prefix("ExecStart=kubegc ")).unwrap();
    let more =
        block("sh", "KUBEGC_ARGS=").split("KUBEGC_ARGS=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let kubeconfig = node.kubeconfig("kubegc").display().to_string();
    let line = line.replace("$KUBEGC_ARGS", &more).replace("${CREDENTIALS_DIRECTORY}/kubeconfig", &kubeconfig);
    line.split(' ').map(str::to_owned).collect()
}

fn of_the_static_pod(node: &NodeRig) -> Vec<String> {
    let pod: Value = serde_saphyr::from_str(&block("yaml", "kind: Pod")).unwrap();
    with_kubeconfig(node, &pod["spec"]["containers"][0]["args"], "/kubeconfig")
}

fn of_the_chart(node: &NodeRig) -> Vec<String> {
    let commands = block("sh", "helm install").replace("\\\n", "");
    let words: Vec<_> = commands.split_whitespace().collect();
    let values = words.windows(2).filter(|pair| pair[0] == "--set").map(|pair| format!("--set {}", pair[1]));
    let values: Vec<_> = values.collect();
    let text = sh(node, &format!("helm template kubegc packaging/chart -n plane-alpha {}", values.join(" ")));
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let of_kind = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
    let config = node.write_config("plane", of_kind("ConfigMap")["data"]["kubegc.toml"].as_str().unwrap());
    let args = &of_kind("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"];
    [with_kubeconfig(node, args, "/var/run/kubegc/kubeconfig"), vec!["--config".to_owned(), config]].concat()
}

fn with_kubeconfig(node: &NodeRig, args: &Value, path: &str) -> Vec<String> {
    let (from, to) = (format!("--kubeconfig={path}"), format!("--kubeconfig={}", node.kubeconfig("kubegc").display()));
    let args: Vec<_> = args.as_array().unwrap().iter().map(|arg| arg.as_str().unwrap().to_owned()).collect();
    assert!(args.contains(&from), "{args:?}");
    args.into_iter().map(|arg| if arg == from { to.clone() } else { arg }).collect()
}

/// The controller deletes what has no owner, and the content of a namespace before it ends it.
async fn collects(node: &NodeRig, args: &[String]) {
    let namespaces: Api<Namespace> = Api::all(node.kube());
    let gone: Namespace = serde_json::from_value(json!({ "metadata": { "name": "gone" } })).unwrap();
    namespaces.create(&PostParams::default(), &gone).await.unwrap();
    node.create_object(
        &json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "content", "namespace": "gone" } }),
    )
    .await;
    namespaces.delete("gone", &DeleteParams::default()).await.unwrap();
    create(node, "garbage", &[absent()]).await;
    let mut command = Command::new(binary());
    command.args(args);
    let run = Daemon::start(command, node.dir().join("plane.log"));
    let maps: Api<ConfigMap> = Api::namespaced(node.kube(), "default");
    let is_done = async || {
        maps.get_opt("garbage").await.unwrap().is_none() && namespaces.get_opt("gone").await.unwrap().is_none()
    };
    let done = becomes_true(is_done).await;
    let log = run.log();
    assert!(done && !log.contains("forbidden"), "{args:?}\n{log}");
    assert_eq!(run.terminate(), 0, "{log}");
}
