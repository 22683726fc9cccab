//! The Helm chart, rendered by Helm: it gives the objects of the kustomizations, and refuses wrong values.

mod packed;
mod reused_values;
mod values;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::{KUSTOMIZATIONS, packaging, rendered, settings_of, understood};
use crate::rig::run;

/// The values that give each kustomization.
const PRESETS: [(&str, &str); 17] = [
    ("controller", "agent.enabled=false,controller.enabled=true"),
    ("daemonset", "dryRun=true"),
    ("overlays/audit-only", "agent.enabled=false,audit.enabled=true"),
    ("overlays/collect", "dryRun=false"),
    ("overlays/crio", "distribution=crio"),
    ("overlays/fleet", "fleet=true"),
    ("overlays/k0s", "distribution=k0s"),
    ("overlays/k3s", "distribution=k3s"),
    ("overlays/kubelet", "podSource=kubelet"),
    ("overlays/log-archive", r"logArchive=keep 24h\,node 5GiB\,namespace 1GiB"),
    ("overlays/microk8s", "distribution=microk8s"),
    ("overlays/namespaces", "agent.enabled=false,controller.enabled=true,controller.namespaces=true"),
    ("overlays/openshift", "distribution=openshift"),
    ("overlays/pods-only", "agent.enabled=false,controller.enabled=true,controller.podsOnly=true"),
    ("overlays/rke2", "distribution=rke2"),
    ("overlays/selinux", "selinux=true"),
    ("overlays/workloads", "keepWorkloadImages=true"),
];

/// Everything that a value can turn on, except what excludes something else.
pub const ALL: &str = "dryRun=false,controller.enabled=true,controller.namespaces=true,audit.enabled=true,selinux=true,keepWorkloadImages=true,fleet=true,logArchive=keep 24h,podMonitor.enabled=true,podMonitor.interval=30s,\
    serviceMonitor.enabled=true,serviceMonitor.interval=30s,prometheusRule.enabled=true,networkPolicy.enabled=true,networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus,\
    imagePullSecrets[0].name=registry,config=profile = \"kubelet\",controller.config=controller.calls_per_second = 5";

/// Returns the path of a program that runs Helm, and downloads it first if necessary.
pub fn helm_script() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/helm.sh"))
}

fn helm(args: &[&str]) -> Output {
    Command::new(helm_script()).args(args).output().unwrap()
}

fn helm_template(chart: &Path, values: &str) -> Output {
    helm(&["template", "kubegc", chart.to_str().unwrap(), "-n", "kubegc-system", "--set", values])
}

/// Returns the objects of a chart, as YAML.
pub fn chart_text(chart: &Path, values: &str) -> String {
    let ran = helm_template(chart, values);
    assert!(ran.status.success(), "{values}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// Returns the objects of the chart for values in the form of `--set`.
fn of_chart(values: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&chart_text(&packaging("chart"), values)).unwrap()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

#[test]
fn the_chart_and_the_kustomizations_give_the_same_objects() {
    let tested: Vec<_> = PRESETS.iter().map(|(within, _)| *within).collect();
    assert!(KUSTOMIZATIONS.iter().all(|within| tested.contains(within)), "{tested:?}");
    for (within, values) in PRESETS {
        let (chart, kustomize) = (comparable(of_chart(values)), comparable(rendered(within)));
        for (name, object) in &kustomize {
            let other = chart.get(name).unwrap_or_else(|| panic!("{within}: the chart has no {name}"));
            assert_eq!(format!("{other:#}"), format!("{object:#}"), "{within}: {name}");
        }
        assert_eq!(chart.len(), kustomize.len(), "{within}: {:?}", chart.keys());
    }
}

/// Returns objects by kind and name, without the differences that are permitted:
///
/// - The chart has no namespace: Helm needs it before the chart, for the state of the release.
/// - Objects of the chart have two labels of Helm.
/// - Kustomize ends the name of a ConfigMap with a hash. The chart has a checksum in the template of the pods instead.
/// - The text of a configuration. The settings are the same.
/// - The chart always has the argument `--mode`, so that the value `config` does not end a dry run.
/// - The order of volumes and mounts.
fn comparable(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let objects = objects.into_iter().filter(|object| object["kind"] != "Namespace");
    objects.map(without_permitted_differences).map(|object| (key(&object), object)).collect()
}

fn without_permitted_differences(mut object: Value) -> Value {
    let labels = object["metadata"]["labels"].as_object_mut().unwrap();
    labels.retain(|label, _| !["helm.sh/chart", "app.kubernetes.io/managed-by"].contains(&label.as_str()));
    if object["kind"] == "ConfigMap" {
        without_hash(&mut object["metadata"]["name"]);
        let settings = settings_of(object["data"]["kubegc.toml"].as_str().unwrap());
        object["data"]["kubegc.toml"] = json!(format!("{settings:#?}"));
    }
    if let Some(template) = object.pointer_mut("/spec/template") {
        template["metadata"].as_object_mut().unwrap().remove("annotations");
        let spec = &mut template["spec"];
        if let Some(args) = spec.pointer_mut("/containers/0/args").and_then(Value::as_array_mut) {
            args.retain(|arg| arg != "--mode=observe");
        }
        for volume in spec["volumes"].as_array_mut().unwrap() {
            if let Some(name) = volume.pointer_mut("/configMap/name") {
                without_hash(name);
            }
        }
        sort_by_name(&mut spec["volumes"]);
        sort_by_name(&mut spec["containers"][0]["volumeMounts"]);
    }
    object
}

fn key(object: &Value) -> String {
    format!("{} {}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap())
}

fn without_hash(name: &mut Value) {
    let whole = name.as_str().unwrap();
    let fixed = ["kubegc-controller-config", "kubegc"].into_iter().find(|fixed| whole.starts_with(fixed));
    *name = json!(fixed.unwrap());
}

fn sort_by_name(list: &mut Value) {
    list.as_array_mut().unwrap().sort_by_key(|entry| entry["name"].to_string());
}

#[test]
fn helm_has_no_complaint() {
    for values in ["dryRun=true", ALL] {
        let ran = helm(&["lint", packaging("chart").to_str().unwrap(), "--set", values]);
        let found = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{found}{}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(found, "[1] Chart.yaml: icon is recommended\n");
    }
}

#[test]
fn a_wrong_value_is_refused_with_its_name() {
    for (values, message) in [
        ("dryrun=false", "additional properties 'dryrun' not allowed"),
        ("image.tga=1", "at '/image': additional properties 'tga' not allowed"),
        ("dryRun=no", "at '/dryRun': got string, want boolean"),
        (
            "distribution=k3",
            "at '/distribution': value must be one of 'containerd', 'crio', 'k3s', 'rke2', 'k0s', 'microk8s', 'openshift'",
        ),
        ("podSource=api", "at '/podSource': value must be one of 'kube-api', 'kubelet'"),
        ("controller.replicas=two", "at '/controller/replicas': got string, want integer"),
        ("hostPaths.images=data/", "at '/hostPaths/images': 'data/' does not match pattern"),
        ("metrics.address=10273", "at '/metrics/address': got number, want string"),
        ("audit.failOn[0]=old", "at '/audit/failOn/0': value must be one of 'dangling', 'unresolvable', 'stuck'"),
        (
            "podMonitor.enabled=true,metrics.address=127.0.0.1:10273",
            "podMonitor.enabled=true needs a metrics.address that Prometheus can reach, not \"127.0.0.1:10273\"",
        ),
    ] {
        let ran = helm_template(&packaging("chart"), values);
        let error = String::from_utf8_lossy(&ran.stderr);
        assert!(!ran.status.success() && error.contains(message), "{values}: {error}");
    }
}

/// Each key of values.yaml has a type, and each object of the schema says which keys it has.
#[test]
fn the_schema_describes_all_values() {
    let read = |name| std::fs::read_to_string(packaging("chart").join(name)).unwrap();
    let values: Value = serde_saphyr::from_str(&read("values.yaml")).unwrap();
    let mut schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let definitions = schema["definitions"].take();
    schema["properties"].as_object_mut().unwrap().remove("global").unwrap();
    same_keys("", &values, &schema, &definitions);
}

fn same_keys(at: &str, values: &Value, schema: &Value, definitions: &Value) {
    let reference = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/definitions/"));
    let schema = reference.map_or(schema, |name| &definitions[name]);
    let Some(values) = values.as_object() else { return };
    assert!(!schema["additionalProperties"].is_null(), "{at} permits every key");
    let Some(known) = schema["properties"].as_object() else { return };
    for (name, value) in values {
        let at = format!("{at}/{name}");
        same_keys(&at, value, known.get(name).unwrap_or_else(|| panic!("no schema of {at}")), definitions);
    }
    let unlisted: Vec<_> = known.keys().filter(|name| !values.contains_key(*name) && *name != "claims").collect();
    assert!(unlisted.is_empty(), "not in values.yaml: {unlisted:?} of {at:?}");
}

#[test]
fn the_binary_accepts_the_configuration_of_the_chart() {
    let objects = of_chart(&format!("{ALL},hostPaths.kubelet=/data/kubelet"));
    for (workload, settings) in [
        ("DaemonSet", ["\"/data/kubelet\"", "profile = \"kubelet\""]),
        ("Deployment", ["calls_per_second = 5", "\"kubegc-system\""]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        mount_config(&objects, &of_kind(&objects, workload)[0]["spec"]["template"]["spec"]["volumes"][0], dir.path());
        let run = |verb: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_kubegc"));
            run(command.env_clear().args(["config", verb, "--config"]).arg(dir.path().join("kubegc.toml")))
        };
        run("check");
        let shown = run("show");
        assert!(settings.iter().all(|setting| shown.contains(setting)), "{shown}");
    }
}

/// Writes the files of a volume with a ConfigMap, as the kubelet does.
fn mount_config(objects: &[Value], volume: &Value, dir: &Path) {
    let maps = of_kind(objects, "ConfigMap");
    let map = maps.into_iter().find(|map| map["metadata"]["name"] == volume["configMap"]["name"]).unwrap();
    for item in volume["configMap"]["items"].as_array().unwrap() {
        let file = dir.join(item["path"].as_str().unwrap());
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, map["data"][item["key"].as_str().unwrap()].as_str().unwrap()).unwrap();
    }
}

/// Kubernetes replaces pods if the template changes.
#[test]
fn another_configuration_replaces_the_pods_of_the_chart() {
    let checksums = |values: &str| -> Vec<String> {
        let objects = of_chart(&format!("dryRun=false,controller.enabled=true,{values}"));
        let templates = objects.iter().filter_map(|object| object.pointer("/spec/template/metadata/annotations"));
        templates.map(|annotations| annotations["checksum/config"].as_str().unwrap().to_owned()).collect()
    };
    let before = checksums("resources.limits.memory=1Gi");
    assert_eq!(before.len(), 2);
    assert_eq!(checksums("resources.limits.memory=2Gi"), before, "the configuration is the same");
    let agents = checksums("config=profile = \"kubelet\"");
    assert_eq!([agents[0] != before[0], agents[1] != before[1]], [true, false]);
    let controllers = checksums("controller.config=controller.calls_per_second = 5");
    assert_eq!([controllers[0] != before[0], controllers[1] != before[1]], [false, true]);
}

/// The kubelet reaches a loopback address of a pod no more than Prometheus does.
#[test]
fn pods_have_probes_only_on_addresses_that_others_reach() {
    for (address, port) in [
        ("0.0.0.0:9000", json!(9000)),
        ("[::]:9000", json!(9000)),
        ("127.0.0.1:9000", json!(null)),
        ("[::1]:9000", json!(null)),
        ("", json!(null)),
    ] {
        let objects = of_chart(&format!("metrics.address={address},networkPolicy.enabled=true"));
        let container = &of_kind(&objects, "DaemonSet")[0]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["ports"][0]["containerPort"], port, "{address}");
        assert_eq!(container["livenessProbe"].is_null(), port.is_null(), "{address}");
        assert_eq!(container["readinessProbe"].is_null(), port.is_null(), "{address}");
        assert_eq!(container["args"][2], format!("metrics.address={address}"));
        let policy = &of_kind(&objects, "NetworkPolicy")[0]["spec"];
        assert_eq!(policy["ingress"][0]["ports"][0]["port"], port, "{address}");
        assert_eq!(policy["policyTypes"], json!(["Ingress", "Egress"]));
    }
}

/// A `NetworkPolicy` does not apply to pods on the host's network.
#[test]
fn network_policies_are_for_pods_with_an_own_network() {
    let policies = |values: &str| -> Vec<Value> {
        let objects = of_chart(&format!("{ALL},{values}"));
        of_kind(&objects, "NetworkPolicy").into_iter().map(|policy| policy["spec"].clone()).collect()
    };
    let both = policies("podSource=kube-api");
    assert_eq!(both.len(), 2);
    for (policy, port) in both.iter().zip([10273, 10274]) {
        let peers = json!([{ "podSelector": { "matchLabels": { "app": "prometheus" } } }]);
        assert_eq!(policy["ingress"], json!([{ "ports": [{ "protocol": "TCP", "port": port }], "from": peers }]));
        let to = |protocol: &str, port: u16| json!({ "protocol": protocol, "port": port });
        let egress =
            [json!({ "ports": [to("TCP", 443), to("TCP", 6443)] }), json!({ "ports": [to("UDP", 53), to("TCP", 53)] })];
        assert_eq!(policy["egress"], json!(egress));
    }
    assert_eq!(policies("podSource=kubelet")[..], both[1..], "that of the controller alone");
}

#[test]
fn the_rules_are_those_of_the_alerts() {
    let rules = of_chart(ALL).into_iter().find(|object| object["kind"] == "PrometheusRule").unwrap();
    let alerts = super::documents(&packaging("monitoring/alerts.yaml")).remove(0);
    assert_eq!(rules["spec"]["groups"], alerts["groups"]);
}

/// Every JSON file beside the alerts is a dashboard.
#[test]
fn dashboards_are_in_a_config_map_for_grafana() {
    let dir = tempfile::tempdir().unwrap();
    run(Command::new("cp").arg("-rL").arg(packaging("chart")).arg(dir.path()));
    let chart = dir.path().join("chart");
    let dashboard = "{\n  \"title\": \"{{ node }}\"\n}\n";
    std::fs::write(chart.join("monitoring/example.json"), dashboard).unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&chart_text(&chart, "dashboard.enabled=true")).unwrap();
    let map = objects.iter().find(|object| object["metadata"]["name"] == "kubegc-dashboard").unwrap();
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    assert_eq!(map["data"]["example.json"], dashboard);
    assert!(of_kind(&objects, "PrometheusRule").is_empty(), "off by default");
}

#[test]
fn the_api_knows_the_fields_of_the_chart() {
    for object in of_chart(ALL) {
        if !["PodMonitor", "ServiceMonitor", "PrometheusRule"].contains(&object["kind"].as_str().unwrap()) {
            assert_eq!(understood(&object), object);
        }
    }
}

#[test]
fn the_chart_has_the_version_of_the_program() {
    let chart = super::documents(&packaging("chart/Chart.yaml")).remove(0);
    assert_eq!((&chart["version"], &chart["appVersion"]), (&json!(env!("CARGO_PKG_VERSION")), &chart["version"]));
}
