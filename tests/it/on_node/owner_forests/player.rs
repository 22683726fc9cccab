//! Plays forests on an API server: creates their objects, makes their steps, reads their states.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
    Preconditions, PropagationPolicy,
};
use serde_json::{Value, json};

use super::forest::{Forest, ForestObject, KINDS, Left, State, Step, custom_resources, kind};
use crate::rig::{NodeRig, becomes_true, becomes_true_within};

/// Calls at once.
const AT_ONCE: usize = 16;
/// The finalizers of garbage collection.
const OURS: [&str; 2] = ["orphan", "foregroundDeletion"];

/// The interval of looks at the states. Each look is a list of each resource.
const INTERVAL: Duration = Duration::from_millis(200);

/// How long, and how exactly, a state is awaited.
#[derive(Clone, Copy)]
pub struct Patience {
    /// The longest wait.
    pub limit: Duration,
    /// How long the state must stay. There is no event to wait for: nothing must happen.
    pub quiet: Duration,
    /// How many forests may differ.
    pub tolerated: usize,
}

/// The forests on one API server.
pub struct Player {
    client: Client,
    forests: Vec<Forest>,
    /// For each forest, the uid of each object by its id.
    uids: Vec<BTreeMap<String, String>>,
}

// === impl Patience ===

impl Patience {
    /// Waits until `differences` returns none, or only tolerated ones, and does so all the time that is to be quiet.
    pub async fn agree(self, mut differences: impl AsyncFnMut() -> Vec<String>) {
        let (mut different, mut since) = (Vec::new(), None);
        let agrees = becomes_true_within(self.limit, async || {
            tokio::time::sleep(INTERVAL).await;
            different = differences().await;
            since = (different.len() <= self.tolerated).then(|| since.unwrap_or_else(Instant::now));
            since.is_some_and(|since| since.elapsed() >= self.quiet)
        });
        assert!(agrees.await, "{} differ:\n{}", different.len(), different.join("\n"));
    }
}

// === impl Player ===

impl Player {
    /// Creates the objects of all forests.
    pub async fn create(node: &NodeRig, forests: Vec<Forest>) -> Self {
        let client = node.kube();
        for definition in custom_resources() {
            node.create_object(&definition).await;
        }
        let served = async || {
            let mut kinds = [kind("Widget"), kind("Gadget")].into_iter();
            let apis = kinds.by_ref().map(|(api_version, kind, ..)| all(&client, api_version, kind));
            let lists = apis.map(|api| async move { api.list(&ListParams::default()).await.is_ok() });
            stream::iter(lists).all(|list| list).await
        };
        assert!(becomes_true(served).await, "the custom resources are not served");
        let mut player = Self { client, forests: Vec::new(), uids: Vec::new() };
        player.add(forests).await;
        player
    }

    /// Creates the objects of more forests.
    pub async fn add(&mut self, forests: Vec<Forest>) {
        let uids = stream::iter(forests.iter().map(|forest| plant(&self.client, forest)));
        let uids: Vec<_> = uids.buffered(AT_ONCE).collect().await;
        self.forests.extend(forests);
        self.uids.extend(uids);
    }

    /// Returns the forests.
    pub fn forests(&self) -> &[Forest] {
        &self.forests
    }

    /// Makes all steps, one after the other in all forests at once. `between` runs before the first and after each, with
    /// the number of steps made.
    pub async fn play(&self, mut between: impl AsyncFnMut(usize)) {
        between(0).await;
        for step in 0..self.steps() {
            self.step(step).await;
            between(step + 1).await;
        }
    }

    /// Waits until the forests have their recorded states after `steps` steps.
    pub async fn await_states(&self, steps: usize, patience: Patience) {
        patience.agree(async || self.differences(steps).await).await;
    }

    /// Returns the largest number of steps of a forest.
    pub fn steps(&self) -> usize {
        self.forests.iter().map(|forest| forest.steps.len()).max().unwrap()
    }

    /// Makes step `at`, from 0, of each forest that has one.
    pub async fn step(&self, at: usize) {
        let steps = self.forests.iter().zip(&self.uids);
        let steps = steps.filter_map(|(forest, uids)| Some((forest, uids, forest.steps.get(at)?)));
        let steps = steps.map(|(forest, uids, step)| make_step(&self.client, forest, uids, step));
        stream::iter(steps).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    }

    /// Compares each forest with its recorded state after `steps` steps, and returns the differences.
    pub async fn differences(&self, steps: usize) -> Vec<String> {
        let mut states = match self.states().await {
            Ok(states) => states,
            // A server that is killed, or whose store is.
            Err(error) => return vec![error.to_string()],
        };
        let mut different = Vec::new();
        for forest in &self.forests {
            let state = states.remove(&forest.name).unwrap_or_default();
            let expected = &forest.states[steps.min(forest.steps.len())];
            if state != *expected {
                different.push(format!("{} after step {steps}:\n{state:?}\nand not\n{expected:?}", forest.name));
            }
        }
        different
    }

    /// Returns the state of each forest, by its name.
    ///
    /// # Errors
    ///
    /// A list failed.
    pub async fn states(&self) -> Result<BTreeMap<String, State>, kube::Error> {
        let lists = KINDS.map(|(api_version, kind, ..)| async move {
            let list = all(&self.client, api_version, kind).list_metadata(&ListParams::default()).await?;
            Ok::<_, kube::Error>(list.items.into_iter().map(|it| it.metadata).collect::<Vec<_>>())
        });
        let objects = stream::iter(lists).buffer_unordered(KINDS.len()).try_collect::<Vec<_>>().await?;
        let mut states = BTreeMap::<_, State>::new();
        let namespaces = all(&self.client, "v1", "Namespace").list(&ListParams::default()).await?;
        for namespace in namespaces.items {
            let name = namespace.metadata.name.clone().unwrap();
            if let Some((forest, id)) = name.strip_prefix("p-").and_then(|name| name.split_once('-'))
                && namespace.metadata.deletion_timestamp.is_some()
            {
                states.entry(forest.to_owned()).or_default().insert(id.to_owned(), left_namespace(&namespace));
            }
        }
        for object in objects.into_iter().flatten() {
            let name = object.name.clone().unwrap();
            let Some((forest, id)) = name.strip_prefix("p-").and_then(|name| name.split_once('-')) else { continue };
            let at = self.forests.iter().position(|it| it.name == forest).unwrap();
            let left = left(object, &self.uids[at]);
            states.entry(forest.to_owned()).or_default().insert(id.to_owned(), left);
        }
        Ok(states)
    }
}

/// Creates the objects of a forest in their order, then adds the late owners. Returns the uids.
async fn plant(client: &Client, forest: &Forest) -> BTreeMap<String, String> {
    let namespaces: BTreeSet<_> = forest.objects.iter().filter_map(|object| forest.namespace_of(object)).collect();
    let api = all(client, "v1", "Namespace");
    for namespace in namespaces {
        let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        api.create(&PostParams::default(), &typed(body)).await.unwrap();
    }
    let mut uids = BTreeMap::new();
    for object in &forest.objects {
        let body = typed(with_kind(forest.body(object, &uids), &object.kind));
        let made = create(&api_of(client, forest, object), &body).await;
        uids.insert(object.id.clone(), made.metadata.uid.unwrap());
    }
    for object in &forest.objects {
        if let Some(references) = forest.late_references(object, &uids) {
            change(client, forest, object, &json!({ "metadata": { "ownerReferences": references } })).await;
        }
    }
    uids
}

/// Creates an object. An API server on a busy machine refuses it at first: "resource quota evaluation timed out".
async fn create(api: &Api<DynamicObject>, body: &DynamicObject) -> DynamicObject {
    for _ in 0..5 {
        match api.create(&PostParams::default(), body).await {
            Err(kube::Error::Api(status)) if status.code == 500 => {}
            made => return made.unwrap(),
        }
    }
    panic!("the API server does not create {body:?}");
}

async fn make_step(client: &Client, forest: &Forest, uids: &BTreeMap<String, String>, step: &Step) {
    match step {
        Step::Delete { delete, policy } => {
            let object = forest.object(delete);
            let propagation_policy = Some(match &**policy {
                "Background" => PropagationPolicy::Background,
                "Foreground" => PropagationPolicy::Foreground,
                "Orphan" => PropagationPolicy::Orphan,
                other => panic!("{other}"),
            });
            let preconditions = Some(Preconditions { uid: Some(uids[delete].clone()), resource_version: None });
            let params = DeleteParams { propagation_policy, preconditions, ..DeleteParams::default() };
            let deleted = api_of(client, forest, object).delete(&forest.name_of(delete), &params).await;
            // The collector may have deleted it in an earlier step.
            assert!(deleted.as_ref().map_or_else(is_not_found, |_| true), "{deleted:?}");
        }
        Step::DeleteNamespace { delete_namespace } => {
            let name = forest.namespace(*delete_namespace);
            let deleted = all(client, "v1", "Namespace").delete(&name, &DeleteParams::default()).await;
            // An earlier step may have deleted it.
            let is_done =
                |error: &kube::Error| matches!(error, kube::Error::Api(status) if [404, 409].contains(&status.code));
            assert!(deleted.as_ref().map_or_else(is_done, |_| true), "{deleted:?}");
        }
        Step::Release { release } => {
            let object = forest.object(release);
            let name = forest.name_of(release);
            let Some(found) = api_of(client, forest, object).get_opt(&name).await.unwrap() else { return };
            let ours = found.metadata.finalizers.unwrap_or_default().into_iter();
            let ours: Vec<_> = ours.filter(|finalizer| OURS.contains(&&**finalizer)).collect();
            change(client, forest, object, &json!({ "metadata": { "finalizers": ours } })).await;
        }
    }
}

async fn change(client: &Client, forest: &Forest, object: &ForestObject, patch: &Value) {
    let (api, name) = (api_of(client, forest, object), forest.name_of(&object.id));
    let changed = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
    assert!(changed.as_ref().map_or_else(is_not_found, |_| true), "{changed:?}");
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Returns the state of a namespace in deletion: the finalizers of its `spec`, and its conditions in place of owners.
fn left_namespace(namespace: &DynamicObject) -> Left {
    let texts = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let conditions = texts(&namespace.data["status"]["conditions"]).into_iter().map(|condition| {
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        (text("type"), format!("{}: {}", text("reason"), text("message")), text("status") == "True")
    });
    let finalizers = texts(&namespace.data["spec"]["finalizers"]).into_iter();
    let finalizers = finalizers.map(|finalizer| finalizer.as_str().unwrap().to_owned()).collect();
    Left { terminating: true, finalizers, owners: conditions.collect::<BTreeSet<_>>().into_iter().collect() }
}

fn left(object: kube::api::ObjectMeta, uids: &BTreeMap<String, String>) -> Left {
    let id = |uid: String| uids.iter().find(|(_, known)| **known == uid).map_or(uid.clone(), |(id, _)| id.clone());
    let owners = object.owner_references.unwrap_or_default().into_iter();
    let owners: BTreeSet<_> =
        owners.map(|owner| (id(owner.uid), owner.kind, owner.block_owner_deletion.unwrap_or_default())).collect();
    Left {
        terminating: object.deletion_timestamp.is_some(),
        finalizers: object.finalizers.unwrap_or_default(),
        owners: owners.into_iter().collect(),
    }
}

fn api_of(client: &Client, forest: &Forest, object: &ForestObject) -> Api<DynamicObject> {
    let (api_version, kind, ..) = kind(&object.kind);
    match forest.namespace_of(object) {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource(api_version, kind)),
        None => all(client, api_version, kind),
    }
}

fn all(client: &Client, api_version: &str, kind: &str) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource(api_version, kind))
}

fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn with_kind(mut body: Value, name: &str) -> Value {
    let (api_version, kind, ..) = kind(name);
    (body["apiVersion"], body["kind"]) = (json!(api_version), json!(kind));
    body
}

fn typed(body: Value) -> DynamicObject {
    serde_json::from_value(body).unwrap()
}
