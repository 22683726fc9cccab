//! `config check`, keep rules, and the README's examples.

use kubegc::sim::{FakeSocket, MIB, Node};
use nix::sys::signal::Signal;

use super::Host;
use crate::agent::Home;
use crate::shell::Shell;

const NGINX: &str = "docker.io/library/nginx:1.27";

#[test]
fn a_short_image_name_keeps_the_image() {
    let host = Host::with(Node::new().image(NGINX, &[("nginx", MIB)]).image("quay.io/team/web:1", &[("web", MIB)]));
    let keep = |rule: &str| {
        let set = format!("images.keep=[\"{rule}\"]");
        host.run(&["plan", "--set", &set, "--set", "images.all_unused=true", "--set", "images.min_age=0", "-o", "wide"])
    };
    for rule in ["nginx", "nginx:1.27", "library/nginx:1.27", "docker.io/nginx", "ngin*"] {
        let plan = keep(rule);
        let kept = plan.lines().find(|line| line.contains(NGINX) && line.contains("images.keep"));
        assert!(kept.is_some() && !plan.contains("matches no image"), "{rule}: {plan}");
    }
    let plan = keep("nginx:1.26");
    assert!(plan.contains("! warning: images.keep \"nginx:1.26\" matches no image on this node now\n"), "{plan}");
}

#[test]
fn config_check_reports_misleading_settings_with_file_and_line() {
    let config = "[images]\nkeep = [\"Nginx\"]\n\n[logs]\npods_root = \"/etc\"\n[pods]\nkubeconfig = \"/no/such\"\n[state]\npath = \"/var\"\n[pressure]\nfree_bytes = 10\n";
    let shell = Shell::new().with("bad.toml", config).with("missing.toml", "pods.kubeconfig = \"/no/such\"\n");
    insta::assert_snapshot!(shell.run(&["config", "check", "bad.toml"]), @r#"
    exit Some(2)
    ! error: 4 faults in the configuration:
    !   bad.toml:2:1: images.keep = ["Nginx"]: a pattern is not an image name, so it matches nothing; expected a list of image names such as ["registry.k8s.io/pause:*"]
    !   bad.toml:5:1: logs.pods_root = "/etc": is a directory of the system; choose another path
    !   bad.toml:11:1: pressure.free_bytes = 10: expected a unit: "10MiB" or "10GiB"
    !   bad.toml:9:1: state.path = "/var": is a directory of the system; choose another path
    ! hint: `kubegc config default` prints every setting with its default
    "#);
    insta::assert_snapshot!(shell.run(&["config", "check", "missing.toml"]), @r#"
    exit Some(2)
    ! error: missing.toml:1:6: pods.kubeconfig = "/no/such": no such file
    ! hint: `kubegc config default` prints every setting with its default
    "#);
    insta::assert_snapshot!(shell.run(&["config", "check", "missing.toml", "-o", "json"]), @r#"
    exit Some(2)
    {"kind":"ConfigCheck","version":1,"valid":false,"faults":[{"origin":"missing.toml","line":1,"column":6,"key":"pods.kubeconfig","value":"\"/no/such\"","message":"no such file"}],"warnings":[]}
    ! error: 1 fault in the configuration
    "#);
    insta::assert_snapshot!(shell.run(&["config", "check", "-o", "json"]), @r#"{"kind":"ConfigCheck","version":1,"valid":true,"faults":[],"warnings":[]}"#);
}

#[tokio::test]
async fn a_service_without_a_runtime_names_its_address() {
    let host = Host::new();
    let home = Home::new(&host.sim, "");
    let deserted = FakeSocket::deserted().unwrap();
    let mut service = home.start(&["run", "-r", &deserted.endpoint()]);
    let before = service.says(&format!("waiting for the runtime at {}", deserted.endpoint())).await;
    assert!(!before.iter().any(|line| line.contains("runtime found")), "{before:?}");
    service.signal(Signal::SIGTERM);
    service.ended().await;
    let rest = service.rest().await;
    assert!(!rest.iter().any(|line| line.contains("waiting for the runtime")), "once: {rest:?}");
}

#[test]
fn the_readme_example_changes_the_plan() {
    let readme = include_str!("../../../README.md");
    let unit = include_str!("../../../systemd/kubegc.service");
    assert!(unit.contains("ExecStart=kubegc run\n"));
    let install = "install -m 0755 target/release/kubegc /usr/local/bin/\n";
    let by_hand = include_str!("../../../docs/installation.md");
    assert!(by_hand.contains("\nmake build\n") && by_hand.contains(install));
    let example = readme.lines().find(|line| line.starts_with("kubegc ") && line.contains("--set")).unwrap();
    let example = example.split('#').next().unwrap().trim();
    let root = env!("CARGO_MANIFEST_DIR");
    let arguments: Vec<_> =
        example.split_whitespace().skip(1).map(|word| word.replace("tests/", &format!("{root}/tests/"))).collect();
    let with: Vec<_> = arguments.iter().map(String::as_str).collect();
    let set = with.iter().position(|word| *word == "--set").unwrap();
    let without = [&with[..set], &with[set + 2..]].concat();
    let last = |arguments: &[&str]| Shell::new().run(arguments).lines().last().unwrap().to_owned();
    assert_ne!(last(&with), last(&without), "{example}");
}
