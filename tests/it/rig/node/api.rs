//! The API server as a test uses it: create, delete, look, wait.

use std::fmt::Debug;
use std::path::Path;
use std::time::Instant;

use k8s_openapi::api::core::v1::{ContainerStatus, Namespace, Node, Pod};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, LogParams, Patch, PatchParams, PostParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use super::{Manifest, NodeRig, eventually};

/// The rights that the agent is given.
const SHIPPED_RIGHTS: &str = include_str!("../../../../packaging/daemonset/rbac.yaml");

/// A client for one of the users.
pub(super) async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

// === impl NodeRig ===

impl NodeRig {
    /// The API as its administrator.
    pub fn kube(&self) -> Client {
        self.admin.clone()
    }

    /// The API as one of the users of [`NodeRig::kubeconfig`].
    pub async fn kube_as(&self, user: &str) -> Client {
        client(&self.kubeconfig(user)).await
    }

    /// The pods of the namespace `default`.
    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.kube(), "default")
    }

    /// Creates a pod of the namespace `default`, bound to this node, and returns its uid.
    pub async fn create(&self, pod: &Manifest) -> String {
        let pod = serde_json::from_value(pod.bound_to(self.name())).unwrap();
        let made = self.pods().create(&PostParams::default(), &pod).await.unwrap();
        made.metadata.uid.unwrap()
    }

    /// Asks for a pod's end, with its own grace period. The kubelet finishes it.
    pub async fn delete(&self, pod: &str) {
        self.pods().delete(pod, &DeleteParams::default()).await.unwrap();
    }

    /// Removes a pod from the API at once, whatever runs.
    pub async fn force_delete(&self, pod: &str) {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.pods().delete(pod, &now).await.unwrap();
    }

    /// Changes a pod in a way that concerns nobody: whoever watches the pods hears of it.
    pub async fn touch(&self, pod: &str) {
        let touched = json!({ "metadata": { "annotations": { "touched": format!("{:?}", Instant::now()) } } });
        self.pods().patch(pod, &PatchParams::default(), &Patch::Merge(&touched)).await.unwrap();
    }

    /// A pod, if there is one of that name.
    pub async fn pod_named(&self, pod: &str) -> Option<Pod> {
        self.pods().get_opt(pod).await.unwrap()
    }

    /// Waits until a pod is as described.
    pub async fn await_pod(&self, name: &str, what: &str, is: impl Fn(&Pod) -> bool) -> Pod {
        let mut seen = None;
        let holds = eventually(async || {
            seen = self.pod_named(name).await;
            seen.as_ref().is_some_and(&is)
        });
        assert!(holds.await, "{name} never is {what}: {:#?}", seen.map(|pod| pod.status));
        seen.unwrap()
    }

    /// Waits until a container of a pod, an init container too, is as described.
    pub async fn await_container(
        &self,
        pod: &str,
        container: &str,
        what: &str,
        is: impl Fn(&ContainerStatus) -> bool,
    ) -> ContainerStatus {
        let found = self.await_pod(pod, what, |pod| status_of(pod, container).is_some_and(&is)).await;
        status_of(&found, container).unwrap().clone()
    }

    /// Waits until a container runs.
    pub async fn await_running(&self, pod: &str, container: &str) {
        self.await_container(pod, container, "running", |it| it.state.as_ref().is_some_and(|it| it.running.is_some()))
            .await;
    }

    /// Waits until a container has ended, for good or not.
    pub async fn await_ended(&self, pod: &str, container: &str) {
        self.await_container(pod, container, "ended", |it| it.state.as_ref().is_some_and(|it| it.terminated.is_some()))
            .await;
    }

    /// Waits until a container that keeps ending has been started again so often and waits for the next time.
    pub async fn await_backoff(&self, pod: &str, container: &str, restarts: i32) {
        let waits = |it: &ContainerStatus| it.state.as_ref().is_some_and(|it| it.waiting.is_some());
        let what = format!("in back-off after {restarts} restarts");
        self.await_container(pod, container, &what, |it| it.restart_count >= restarts && waits(it)).await;
    }

    /// Waits until the API knows no pod of that name.
    pub async fn await_gone(&self, pod: &str) {
        let gone = async || self.pod_named(pod).await.is_none();
        assert!(eventually(gone).await, "{pod} stays: {:#?}", self.pod_named(pod).await);
    }

    /// A container's status, init containers included.
    pub async fn container_status(&self, pod: &str, container: &str) -> ContainerStatus {
        let found = self.pod_named(pod).await.unwrap_or_else(|| panic!("no pod {pod}"));
        status_of(&found, container).unwrap_or_else(|| panic!("{pod} has no status of {container}")).clone()
    }

    /// What the container before the last one logged, as the kubelet serves it; the refusal if it does not.
    pub async fn previous_log(&self, pod: &str, container: &str) -> Result<String, kube::Error> {
        let which = LogParams { container: Some(container.to_owned()), previous: true, ..LogParams::default() };
        self.pods().logs(pod, &which).await
    }

    /// Writes the manifest of a static pod; the kubelet finds it within a second or so. Returns the mirror pod's name.
    pub fn write_manifest(&self, pod: &Manifest) -> String {
        std::fs::write(self.manifest_path(pod), pod.value().to_string()).unwrap();
        format!("{}-{}", pod.name(), self.name())
    }

    /// Removes the manifest of a static pod.
    pub fn remove_manifest(&self, pod: &Manifest) {
        std::fs::remove_file(self.manifest_path(pod)).unwrap();
    }

    fn manifest_path(&self, pod: &Manifest) -> std::path::PathBuf {
        self.dir().join("manifests").join(pod.name()).with_extension("json")
    }

    /// Lets a user do what the rules say, everywhere.
    pub async fn grant(&self, user: &str, rules: Vec<PolicyRule>) {
        let role = json!({ "metadata": { "name": user }, "rules": rules });
        self.replace(Api::<ClusterRole>::all(self.kube()), user, role).await;
        self.replace(Api::<ClusterRoleBinding>::all(self.kube()), user, binding(user, "ClusterRole")).await;
    }

    /// Lets a user do what the rules say, in one namespace.
    pub async fn grant_in(&self, namespace: &str, user: &str, rules: Vec<PolicyRule>) {
        let role = json!({ "metadata": { "name": user }, "rules": rules });
        self.replace(Api::<Role>::namespaced(self.kube(), namespace), user, role).await;
        self.replace(Api::<RoleBinding>::namespaced(self.kube(), namespace), user, binding(user, "Role")).await;
    }

    /// Lets a user do what the manifests under `packaging/` let the agent do.
    pub async fn grant_shipped_rights(&self, user: &str) {
        for document in SHIPPED_RIGHTS.split("\n---\n") {
            let object: Value = serde_saphyr::from_str(document).unwrap();
            let rules = || serde_json::from_value(object["rules"].clone()).unwrap();
            match object["kind"].as_str().unwrap() {
                "ClusterRole" => self.grant(user, rules()).await,
                "Role" => self.grant_in(object["metadata"]["namespace"].as_str().unwrap(), user, rules()).await,
                _ => (), // bindings to the service account that no controller makes here
            }
        }
    }

    /// Creates an object of whatever kind, as `kubectl create` does.
    pub async fn create_object(&self, object: &Value) {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.kube(), namespace, &resource),
            None => Api::all_with(self.kube(), &resource),
        };
        let made = api.create(&PostParams::default(), &serde_json::from_value(object.clone()).unwrap()).await;
        made.unwrap_or_else(|error| panic!("{error}: {object:#}"));
    }

    /// What the service account that is shipped asked the API server for, by the server's own audit.
    pub fn audit(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(self.dir().join("audit.log")).unwrap_or_default();
        // The last line may be half written.
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Takes from a user what [`NodeRig::grant`] gave.
    pub async fn revoke(&self, user: &str) {
        Api::<ClusterRoleBinding>::all(self.kube()).delete(user, &DeleteParams::default()).await.unwrap();
    }

    /// Changes the Node object, as with `kubectl patch --type=merge`.
    pub async fn patch_node(&self, patch: &Value) {
        let nodes: Api<Node> = Api::all(self.kube());
        nodes.patch(self.name(), &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(super) async fn api_is_ready(&self) -> bool {
        let ready = tonic::codegen::http::Request::get("/readyz").body(Vec::new()).unwrap();
        let namespaces: Api<Namespace> = Api::all(self.kube());
        self.admin.request_text(ready).await.is_ok_and(|answer| answer == "ok")
            && namespaces.get_opt("default").await.is_ok_and(|found| found.is_some())
    }

    /// Whether the kubelet of this moment says that the node is Ready, rather than one before it.
    pub(super) async fn node_is_ready(&self) -> bool {
        let nodes: Api<Node> = Api::all(self.kube());
        let Ok(Some(node)) = nodes.get_opt(self.name()).await else { return false };
        let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
        let ready = conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True");
        ready && self.kubelet_answers().await
    }

    async fn kubelet_answers(&self) -> bool {
        tokio::net::TcpStream::connect((self.name(), 10250)).await.is_ok()
    }

    /// Creates an object, in the place of an earlier one of that name.
    async fn replace<K>(&self, api: Api<K>, name: &str, object: Value)
    where
        K: Clone + Debug + serde::de::DeserializeOwned + serde::Serialize,
    {
        let _ = api.delete(name, &DeleteParams::default()).await; // there may be none
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }
}

fn binding(user: &str, kind: &str) -> Value {
    json!({
        "metadata": { "name": user },
        "subjects": [{ "kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io" }],
        "roleRef": { "kind": kind, "name": user, "apiGroup": "rbac.authorization.k8s.io" },
    })
}

fn status_of<'a>(pod: &'a Pod, container: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    all.into_iter().find(|it| it.name == container)
}
