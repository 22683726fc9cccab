//! Each value of the chart reaches the objects that it is for.

use serde_json::{Value, json};

use super::{ALL, chart_text, helm, of_chart, of_kind};
use crate::manifests::packaging;

const CONTROLLER: &str = "dryRun=false,agent.enabled=false,controller.enabled=true";
const POD: &str = "/spec/template/spec";
const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The values, where the template of the pods has them, and what it has there.
#[test]
fn values_are_in_the_template_of_the_pods() {
    let tag = json!(format!("ghcr.io/kubegc/kubegc:{}", env!("CARGO_PKG_VERSION")));
    let key = |key: &str| json!([{ "key": key, "operator": "Exists" }]);
    for (values, at, expected) in [
        ("dryRun=true", "/containers/0/image", tag),
        ("image.repository=example.com/gc,image.tag=v1", "/containers/0/image", json!("example.com/gc:v1")),
        (
            &*format!("image.tag=v1,image.digest={DIGEST}"),
            "/containers/0/image",
            json!(format!("ghcr.io/kubegc/kubegc@{DIGEST}")),
        ),
        ("image.pullPolicy=Always", "/containers/0/imagePullPolicy", json!("Always")),
        ("imagePullSecrets[0].name=registry", "/imagePullSecrets", json!([{ "name": "registry" }])),
        ("resources.limits.memory=1Gi", "/containers/0/resources/limits/memory", json!("1Gi")),
        ("tolerations[0].key=gpu,tolerations[0].operator=Exists", "/tolerations", key("gpu")),
        ("nodeSelector.pool=old", "/nodeSelector", json!({ "kubernetes.io/os": "linux", "pool": "old" })),
        ("priorityClassName=", "/priorityClassName", Value::Null),
        (
            &*format!("{CONTROLLER},controller.resources.limits.memory=1Gi"),
            "/containers/0/resources/limits/memory",
            json!("1Gi"),
        ),
        (
            &*format!("{CONTROLLER},controller.tolerations[0].key=infra,controller.tolerations[0].operator=Exists"),
            "/tolerations",
            key("infra"),
        ),
        (&*format!("{CONTROLLER},controller.priorityClassName=low"), "/priorityClassName", json!("low")),
        (&*format!("{CONTROLLER},image.pullPolicy=Never"), "/containers/0/imagePullPolicy", json!("Never")),
    ] {
        let objects = of_chart(values);
        let pod = objects.iter().find_map(|object| object.pointer(POD)).unwrap();
        assert_eq!(pod.pointer(at).unwrap_or(&Value::Null), &expected, "{values}");
    }
}

/// Its permissions and its Lease are in the other cluster.
#[test]
fn a_controller_of_another_cluster_has_its_kubeconfig_and_nothing_of_this_one() {
    let namespaces = format!("{CONTROLLER},controller.namespaces=true");
    let objects = of_chart(&format!("{namespaces},controller.kubeconfig.secretName=plane-alpha"));
    let pod = of_kind(&objects, "Deployment")[0].pointer(POD).unwrap();
    assert_eq!(pod["automountServiceAccountToken"], false);
    let container = &pod["containers"][0];
    let args = container["args"].as_array().unwrap();
    assert!(
        args.contains(&json!("--kubeconfig=/var/run/kubegc/kubeconfig")) && args.contains(&json!("--leader-elect"))
    );
    let named = |list: &Value| list.as_array().unwrap().iter().find(|it| it["name"] == "kubeconfig").cloned().unwrap();
    let mount = json!({ "name": "kubeconfig", "mountPath": "/var/run/kubegc", "readOnly": true });
    assert_eq!(named(&container["volumeMounts"]), mount);
    let secret = json!({ "secretName": "plane-alpha", "items": [{ "key": "kubeconfig", "path": "kubeconfig" }] });
    assert_eq!(named(&pod["volumes"])["secret"], secret);
    let of_rbac =
        |objects: &[Value]| objects.iter().filter(|it| it["apiVersion"] == "rbac.authorization.k8s.io/v1").count();
    assert_eq!((of_rbac(&objects), of_rbac(&of_chart(&namespaces))), (0, 6));
    let config = of_kind(&objects, "ConfigMap")[0]["data"]["kubegc.toml"].as_str().unwrap();
    assert!(config.contains("controller.lease_namespace = \"kubegc-system\""), "{config}");
}

#[test]
fn directories_of_the_host_replace_those_of_the_distribution() {
    let objects =
        of_chart("distribution=k3s,hostPaths.images=/data/k3s/agent/containerd,hostPaths.kubelet=/data/kubelet");
    let pod = of_kind(&objects, "DaemonSet")[0].pointer(POD).unwrap();
    let volumes = pod["volumes"].as_array().unwrap().iter();
    let paths: Vec<_> = volumes.filter_map(|volume| volume.pointer("/hostPath/path")?.as_str()).skip(4).collect();
    let expected =
        ["/run/k3s/containerd", "/data/k3s/agent/containerd", "/data/kubelet/pods", "/data/kubelet/image_manager"];
    assert_eq!(paths, expected);
}

/// A quota without its controller lets no pod be created, and one without a class is for nothing.
#[test]
fn a_quota_exists_only_for_a_priority_class() {
    let both = "dryRun=false,controller.enabled=true";
    let classes = |values: &str| -> Vec<Value> {
        let objects = of_chart(&format!("{both},{values}"));
        let quotas = of_kind(&objects, "ResourceQuota");
        quotas.iter().map(|quota| quota["spec"]["scopeSelector"]["matchExpressions"][0]["values"][0].clone()).collect()
    };
    assert_eq!(classes("priorityClassName=high"), ["system-cluster-critical", "high"]);
    assert_eq!(classes("controller.priorityClassName="), ["system-node-critical"]);
    assert_eq!(classes("resourceQuota=false"), Vec::<Value>::new());
}

/// Other names than that of the kustomizations work, too. Events about nodes are in the namespace default.
#[test]
fn all_objects_are_in_the_namespace_of_the_release() {
    let chart = packaging("chart");
    let ran = helm(&["template", "gc", chart.to_str().unwrap(), "-n", "elsewhere", "--set", ALL]);
    let text = String::from_utf8(ran.stdout).unwrap();
    let kubegc_system: Vec<_> = text.lines().filter(|line| line.contains("kubegc-system")).collect();
    assert!(ran.status.success() && kubegc_system.is_empty(), "{kubegc_system:?}");
    assert!(text.contains("controller.lease_namespace = \"elsewhere\""), "{text}");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    for object in objects {
        let expected = match (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap()) {
            (
                "ClusterRole"
                | "ClusterRoleBinding"
                | "CustomResourceDefinition"
                | "ValidatingAdmissionPolicy"
                | "ValidatingAdmissionPolicyBinding",
                _,
            ) => Value::Null,
            (_, "kubegc-events") => json!("default"),
            _ => json!("elsewhere"),
        };
        assert_eq!(object["metadata"]["namespace"], expected, "{object:#}");
        if object["subjects"].is_array() {
            assert_eq!(object["subjects"][0]["namespace"], "elsewhere", "{object:#}");
        }
    }
}

#[test]
fn monitors_select_the_pods_and_their_port() {
    let objects =
        of_chart(&format!("{ALL},podMonitor.labels.release=prometheus,serviceMonitor.labels.release=prometheus"));
    for (monitor_kind, endpoints) in [("PodMonitor", "podMetricsEndpoints"), ("ServiceMonitor", "endpoints")] {
        let monitors = of_kind(&objects, monitor_kind);
        assert_eq!(monitors.len(), 2);
        for (monitor, kind) in monitors.into_iter().zip(["DaemonSet", "Deployment"]) {
            let template = &of_kind(&objects, kind)[0]["spec"]["template"];
            assert_eq!(monitor["spec"]["selector"]["matchLabels"], template["metadata"]["labels"]);
            let endpoint = &monitor["spec"][endpoints][0];
            assert_eq!(endpoint["port"], template["spec"]["containers"][0]["ports"][0]["name"]);
            assert_eq!(
                (&endpoint["interval"], &monitor["metadata"]["labels"]["release"]),
                (&json!("30s"), &json!("prometheus"))
            );
            let renames_instance = endpoint["relabelings"][0]["sourceLabels"][0] == "__meta_kubernetes_pod_node_name";
            assert_eq!(renames_instance, kind == "DaemonSet", "an agent is known by its node");
        }
    }
}

/// A `ServiceMonitor` selects Services by their labels, and a port by its name in the Service.
#[test]
fn service_monitors_have_services_of_all_pods() {
    let objects = of_chart(ALL);
    let services = of_kind(&objects, "Service");
    assert_eq!(services.len(), 2);
    for (service, kind) in services.into_iter().zip(["DaemonSet", "Deployment"]) {
        let template = &of_kind(&objects, kind)[0]["spec"]["template"];
        let labels = &template["metadata"]["labels"];
        assert_eq!(&service["spec"]["selector"], labels);
        assert_eq!(&service["metadata"]["labels"]["app.kubernetes.io/name"], &labels["app.kubernetes.io/name"]);
        let (port, of_pod) = (&service["spec"]["ports"][0], &template["spec"]["containers"][0]["ports"][0]);
        assert_eq!((&port["name"], &port["port"]), (&of_pod["name"], &of_pod["containerPort"]));
        assert_eq!(port["targetPort"], of_pod["name"]);
        assert_eq!(service["spec"]["publishNotReadyAddresses"], true, "an agent that is not ready has metrics");
    }
}

/// Nothing but the agent is installed unless it is asked for, and either part can be left out.
#[test]
fn parts_are_installed_only_if_they_are_enabled() {
    let has = |values: &str| {
        let text = chart_text(&packaging("chart"), values);
        let kinds =
            ["DaemonSet", "Deployment", "PodMonitor", "ServiceMonitor", "Service", "PrometheusRule", "NetworkPolicy"];
        kinds.into_iter().filter(|kind| text.contains(&format!("\nkind: {kind}\n"))).collect::<Vec<_>>()
    };
    assert_eq!(has("dryRun=true"), ["DaemonSet"]);
    assert_eq!(has(CONTROLLER), ["Deployment"]);
    assert_eq!(has(&format!("{CONTROLLER},podMonitor.enabled=true")), ["Deployment", "PodMonitor"]);
    let monitored = has(&format!("{CONTROLLER},serviceMonitor.enabled=true"));
    assert_eq!(monitored, ["Deployment", "ServiceMonitor", "Service"]);
}
