//! The API server as tests use it: create, delete, get, wait.

use std::fmt::Debug;
use std::path::Path;
use std::time::Instant;

use k8s_openapi::api::core::v1::{ConfigMap, ContainerStatus, Namespace, Node, Pod};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, LogParams, Patch, PatchParams,
    PostParams,
};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Resource};
use serde_json::{Value, json};

use super::{Manifest, NodeRig, eventually};

/// The permissions of the agent.
const SHIPPED_PERMISSIONS: &str = include_str!("../../../../packaging/daemonset/rbac.yaml");
const PERMISSIONS_FOR_WORKLOADS: &str = include_str!("../../../../packaging/components/workloads/rbac.yaml");
const PERMISSIONS_FOR_FLEET: &str = include_str!("../../../../packaging/components/fleet/rbac.yaml");

/// Returns a client for one of the users.
pub(super) async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

// === impl NodeRig ===

impl NodeRig {
    /// Returns a client for the administrator.
    pub fn kube(&self) -> Client {
        self.admin.clone()
    }

    /// Returns a client for one of the users of [`NodeRig::kubeconfig`].
    pub async fn kube_as(&self, user: &str) -> Client {
        client(&self.kubeconfig(user)).await
    }

    /// Returns a client with this bearer token.
    pub async fn kube_with_token(&self, token: &str) -> Client {
        let mut kubeconfig = Kubeconfig::read_from(self.kubeconfig("admin")).unwrap();
        for user in &mut kubeconfig.auth_infos {
            user.auth_info = Some(AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() });
        }
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }

    /// Returns the API of the pods in the namespace `default`.
    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.kube(), "default")
    }

    /// Creates a pod in the namespace `default`, bound to this node, and returns its uid.
    pub async fn create(&self, pod: &Manifest) -> String {
        let pod = serde_json::from_value(pod.bound_to(self.name())).unwrap();
        let made = self.pods().create(&PostParams::default(), &pod).await.unwrap();
        made.metadata.uid.unwrap()
    }

    /// Deletes a pod with its own grace period. The kubelet completes the deletion.
    pub async fn delete(&self, pod: &str) {
        self.pods().delete(pod, &DeleteParams::default()).await.unwrap();
    }

    /// Deletes a pod from the API immediately, even if containers run.
    pub async fn force_delete(&self, pod: &str) {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.pods().delete(pod, &now).await.unwrap();
    }

    /// Deletes all pods and ConfigMaps of the namespace `default`, whatever holds them, and all nodes.
    pub(in super::super) async fn clear(&self) {
        clear(self.pods()).await;
        clear::<ConfigMap>(Api::namespaced(self.kube(), "default")).await;
        clear::<Node>(Api::all(self.kube())).await;
    }

    /// Changes an irrelevant field of a pod, so that every watch of pods gets an event.
    pub async fn touch(&self, pod: &str) {
        let touched = json!({ "metadata": { "annotations": { "touched": format!("{:?}", Instant::now()) } } });
        self.pods().patch(pod, &PatchParams::default(), &Patch::Merge(&touched)).await.unwrap();
    }

    /// Returns the pod with this name, if it exists.
    pub async fn pod_named(&self, pod: &str) -> Option<Pod> {
        self.pods().get_opt(pod).await.unwrap()
    }

    /// Waits until a pod matches.
    pub async fn await_pod(&self, name: &str, what: &str, is: impl Fn(&Pod) -> bool) -> Pod {
        let mut seen = None;
        let holds = eventually(async || {
            seen = self.pod_named(name).await;
            seen.as_ref().is_some_and(&is)
        });
        assert!(holds.await, "{name} never is {what}: {:#?}", seen.map(|pod| pod.status));
        seen.unwrap()
    }

    /// Waits until a container, init container or ephemeral container of a pod matches.
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

    /// Waits until a container has exited, even if it is restarted.
    pub async fn await_ended(&self, pod: &str, container: &str) {
        self.await_container(pod, container, "ended", |it| it.state.as_ref().is_some_and(|it| it.terminated.is_some()))
            .await;
    }

    /// Waits until a crashing container has been restarted so often and is in back-off.
    pub async fn await_backoff(&self, pod: &str, container: &str, restarts: i32) {
        let waits = |it: &ContainerStatus| it.state.as_ref().is_some_and(|it| it.waiting.is_some());
        let what = format!("in back-off after {restarts} restarts");
        self.await_container(pod, container, &what, |it| it.restart_count >= restarts && waits(it)).await;
    }

    /// Waits until the API has no pod of that name.
    pub async fn await_removal(&self, pod: &str) {
        let gone = async || self.pod_named(pod).await.is_none();
        assert!(eventually(gone).await, "{pod} stays: {:#?}", self.pod_named(pod).await);
    }

    /// Returns the status of a container, init container or ephemeral container.
    pub async fn container_status(&self, pod: &str, container: &str) -> ContainerStatus {
        let found = self.pod_named(pod).await.unwrap_or_else(|| panic!("no pod {pod}"));
        status_of(&found, container).unwrap_or_else(|| panic!("{pod} has no status of {container}")).clone()
    }

    /// Returns the log of the previous instance of a container from the kubelet, or the error.
    pub async fn previous_log(&self, pod: &str, container: &str) -> Result<String, kube::Error> {
        let which = LogParams { container: Some(container.to_owned()), previous: true, ..LogParams::default() };
        self.pods().logs(pod, &which).await
    }

    /// Writes the manifest of a static pod. The kubelet finds it within about a second. Returns the mirror pod's name.
    pub fn write_manifest(&self, pod: &Manifest) -> String {
        std::fs::write(self.manifest_path(pod), pod.value().to_string()).unwrap();
        format!("{}-{}", pod.name(), self.name())
    }

    /// Deletes the manifest of a static pod.
    pub fn remove_manifest(&self, pod: &Manifest) {
        std::fs::remove_file(self.manifest_path(pod)).unwrap();
    }

    fn manifest_path(&self, pod: &Manifest) -> std::path::PathBuf {
        self.dir().join("manifests").join(pod.name()).with_extension("json")
    }

    /// Grants a user the rules in all namespaces.
    pub async fn grant(&self, user: &str, rules: Vec<PolicyRule>) {
        let role = json!({ "metadata": { "name": user }, "rules": rules });
        self.replace(Api::<ClusterRole>::all(self.kube()), user, role).await;
        self.replace(Api::<ClusterRoleBinding>::all(self.kube()), user, binding(user, "ClusterRole")).await;
    }

    /// Grants a user the rules in one namespace.
    pub async fn grant_in(&self, namespace: &str, user: &str, rules: Vec<PolicyRule>) {
        let role = json!({ "metadata": { "name": user }, "rules": rules });
        self.replace(Api::<Role>::namespaced(self.kube(), namespace), user, role).await;
        self.replace(Api::<RoleBinding>::namespaced(self.kube(), namespace), user, binding(user, "Role")).await;
    }

    /// Grants a user the permissions of the agent in the manifests under `packaging/`.
    pub async fn grant_shipped_permissions(&self, user: &str) {
        for document in SHIPPED_PERMISSIONS.split("\n---\n") {
            let object: Value = serde_saphyr::from_str(document).unwrap();
            let rules = || serde_json::from_value(object["rules"].clone()).unwrap();
            match object["kind"].as_str().unwrap() {
                "ClusterRole" => self.grant(user, rules()).await,
                "Role" => self.grant_in(object["metadata"]["namespace"].as_str().unwrap(), user, rules()).await,
                _ => (), // bindings to the service account that no controller makes here
            }
        }
    }

    /// Grants a user the permissions in all namespaces of the agent, and those for workloads.
    pub async fn grant_permissions_for_workloads(&self, user: &str) {
        self.grant_in_all_namespaces(user, PERMISSIONS_FOR_WORKLOADS).await;
    }

    /// Grants a user the permissions in all namespaces of the agent, and those for the fleet.
    pub async fn grant_permissions_for_fleet(&self, user: &str) {
        self.grant_in_all_namespaces(user, PERMISSIONS_FOR_FLEET).await;
    }

    async fn grant_in_all_namespaces(&self, user: &str, more: &str) {
        let documents = [SHIPPED_PERMISSIONS, more].into_iter().flat_map(|text| text.split("\n---\n"));
        let objects = documents.map(|document| serde_saphyr::from_str::<Value>(document).unwrap());
        let roles = objects.filter(|object| object["kind"] == "ClusterRole");
        let rules = roles.flat_map(|role| serde_json::from_value::<Vec<PolicyRule>>(role["rules"].clone()).unwrap());
        self.grant(user, rules.collect()).await;
    }

    /// Creates an object of any kind, as `kubectl create` does.
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

    /// Returns the requests of the shipped service accounts, from the audit log of the API server.
    pub fn audit(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(self.dir().join("audit.log")).unwrap_or_default();
        // The last line may be incomplete.
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Revokes what [`NodeRig::grant`] granted to a user.
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

    /// Says whether the current kubelet reports the node as Ready, not an earlier kubelet.
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

    /// Creates an object and replaces an earlier one of that name.
    async fn replace<K>(&self, api: Api<K>, name: &str, object: Value)
    where
        K: Clone + Debug + serde::de::DeserializeOwned + serde::Serialize,
    {
        let _ = api.delete(name, &DeleteParams::default()).await; // there may be none
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }
}

async fn clear<K>(api: Api<K>)
where
    K: Clone + Debug + serde::de::DeserializeOwned + Resource,
{
    let (free, now) = (json!({ "metadata": { "finalizers": null } }), DeleteParams::default().grace_period(0));
    for object in api.list(&ListParams::default()).await.unwrap() {
        let name = object.meta().name.as_deref().unwrap();
        api.patch(name, &PatchParams::default(), &Patch::Merge(&free)).await.unwrap();
        let _ = api.delete(name, &now).await; // the patch may have ended a deletion
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
    let all = status.container_statuses.iter().chain(&status.init_container_statuses);
    all.chain(&status.ephemeral_container_statuses).flatten().find(|it| it.name == container)
}
