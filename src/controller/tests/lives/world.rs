//! Plays a script: the people and controllers of a cluster, its API server, and what happens to the process.

use std::iter::repeat_n;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::super::{object, resource_of};
use super::process;
use super::script::{KINDS, OBJECTS, Policy, Serving, Step};
use super::stage::Stage;
use super::truth::{is_deleting, leftovers, list};
use crate::kubernetes::ApiResource;
use crate::testing::fake_api::FakeApi;
use crate::testing::lives::{self, Life, clock, jump};

/// How long after the last step something may be left: back-offs and waits for discovery are at most five minutes.
const QUIET: usize = 15;
const HOLD: &str = "example.com/hold";

struct World {
    server: FakeApi,
    stage: Stage,
    /// The uid that each object had last.
    uids: [Option<Value>; OBJECTS],
}

pub(super) fn play(steps: &[Step]) -> Life {
    lives::alone(|| async {
        let mut world = World::new();
        let elects = steps.contains(&Step::LoseLease);
        let processes = process::run(world.server.clone(), world.stage.clone(), elects);
        tokio::select! {
            biased;
            () = processes => {}
            () = world.lives(steps) => {}
        }
        world.stage.acts().record.take()
    })
}

fn number(object: usize) -> String {
    format!("o{object}")
}

/// Returns an object without owners.
fn sketch(at: usize) -> Value {
    let (version, _, kind, is_namespaced) = KINDS[at % KINDS.len()];
    let namespace = if at % 7 == 6 { "ns2" } else { "ns1" };
    let mut object = object(version, kind, if is_namespaced { namespace } else { "" }, &number(at), &[]);
    if kind == "Pod" {
        // Every second pod is on a node of this life.
        object["spec"] = if at % 4 == 3 { json!({"nodeName": "o5"}) } else { json!({}) };
        object["status"] = json!({"phase": "Running"});
    }
    object
}

fn namespace(name: &str) -> Value {
    let mut namespace = object("v1", "Namespace", "", name, &[]);
    namespace["spec"] = json!({"finalizers": ["kubernetes"]});
    namespace
}

/// Returns the definition of a custom resource.
fn definition(kind: usize) -> Value {
    let (version, resource, ..) = KINDS[kind];
    let name = format!("{resource}.{}", version.split_once('/').unwrap().0);
    object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", &name, &[])
}

// === impl World ===

impl World {
    fn new() -> Self {
        let world = Self { server: FakeApi::serving(Vec::new()), stage: Stage::new(), uids: Default::default() };
        for kind in 0..KINDS.len() {
            world.serves(kind, Serving::Works);
        }
        for name in ["ns1", "ns2"] {
            world.adds(&namespace(name));
        }
        world
    }

    async fn lives(&mut self, steps: &[Step]) {
        for step in steps {
            self.stage.log(format_args!("-- {step:?}"));
            self.takes(*step).await;
            if self.stage.acts().record.life.fault.is_some() {
                return;
            }
        }
        self.ends().await;
    }

    async fn takes(&mut self, step: Step) {
        match step {
            Step::Wait(milliseconds) => sleep(Duration::from_millis(milliseconds)).await,
            Step::Create(at, owner) => self.creates(at, owner.map(|(owner, blocks)| self.reference(owner, blocks))),
            Step::Own(at, owner, blocks) => {
                let reference = self.reference(owner, blocks);
                let others = self.field(at, "ownerReferences").into_iter().filter(|it| it["uid"] != reference["uid"]);
                let owners: Vec<_> = others.chain([reference.clone()]).collect();
                self.changes(at, "ownerReferences", &json!(owners));
            }
            Step::Disown(at) => self.changes(at, "ownerReferences", &json!([])),
            Step::Touch(at) => self.changes(at, "labels", &json!({"touched": clock().to_string()})),
            Step::Hold(at) => self.holds(at, true),
            Step::Release(at) => self.holds(at, false),
            Step::Delete(at, policy) => self.deletes(at, policy),
            Step::Recreate(at) => self.recreates(at),
            Step::Serve(kind, serving) => self.serves(kind, serving),
            Step::Lag(kind, seconds) => self.server.lags(&sketch(kind), Duration::from_secs(seconds)),
            Step::Cut(kind) => self.server.cuts(&sketch(kind)),
            Step::Expire(kind) => self.server.forgets(&sketch(kind)),
            Step::Trouble(sort, reply, times) => self.stage.acts().troubles.extend(repeat_n((sort, reply), times)),
            Step::Kill(after, has_effect) => self.stage.acts().kill = Some((after, has_effect)),
            Step::LoseLease => self.takes_lease(),
            Step::Drop(kind) => self.drops(kind),
            Step::Wipe if self.server.get(&namespace("ns2")).is_some() => self.removes(&namespace("ns2")),
            Step::Wipe => self.adds(&namespace("ns2")),
            Step::Jump(seconds) => jump(seconds),
        }
    }

    fn adds(&self, object: &Value) {
        self.server.acts(Method::POST, object, object.clone());
    }

    fn removes(&self, object: &Value) {
        self.server.acts(Method::DELETE, object, json!({"propagationPolicy": "Background"}));
    }

    fn drops(&mut self, kind: usize) {
        for at in (0..OBJECTS).filter(|at| at % KINDS.len() == kind) {
            self.holds(at, false);
            self.removes(&sketch(at));
        }
        self.removes(&definition(kind));
        self.serves(kind, Serving::Missing);
    }

    fn now(&self, at: usize) -> Option<Value> {
        self.server.get(&sketch(at))
    }

    fn field(&self, at: usize, field: &str) -> Vec<Value> {
        self.now(at).map(|object| list(&object, field).to_vec()).unwrap_or_default()
    }

    /// Returns a reference to an object, which may not exist any more, or never have.
    fn reference(&self, owner: usize, blocks: bool) -> Value {
        let (api_version, _, kind, _) = KINDS[owner % KINDS.len()];
        let uid = self.uids[owner].clone().unwrap_or_else(|| format!("no-{owner}").into());
        json!({"apiVersion": api_version, "kind": kind, "name": number(owner), "uid": uid, "blockOwnerDeletion": blocks})
    }

    fn creates(&mut self, at: usize, owner: Option<Value>) {
        let mut object = sketch(at);
        let name = object["metadata"]["namespace"].as_str().unwrap();
        let is_open = |namespace: Value| !is_deleting(&namespace);
        if !name.is_empty() && !self.server.get(&namespace(name)).is_some_and(is_open) {
            return;
        }
        object["metadata"]["ownerReferences"] = owner.into_iter().collect();
        self.adds(&object);
        self.uids[at] = self.now(at).map(|object| object["metadata"]["uid"].clone()).or(self.uids[at].take());
    }

    fn changes(&self, at: usize, field: &str, value: &Value) {
        self.server.acts(Method::PATCH, &sketch(at), json!({"metadata": {field: value}}));
    }

    /// As in an API server, an object in deletion gets no new finalizer.
    fn holds(&self, at: usize, is_held: bool) {
        let is_deleted = self.now(at).is_none_or(|object| is_deleting(&object));
        let mut finalizers = self.field(at, "finalizers");
        finalizers.retain(|it| it != HOLD);
        finalizers.extend((is_held && !is_deleted).then(|| json!(HOLD)));
        self.changes(at, "finalizers", &json!(finalizers));
    }

    fn deletes(&self, at: usize, policy: Policy) {
        if self.now(at).is_some_and(|object| !is_deleting(&object)) {
            let options = json!({"propagationPolicy": format!("{policy:?}")});
            self.server.acts(Method::DELETE, &sketch(at), options);
        }
    }

    /// As after a deletion that nothing holds, with the same owners.
    fn recreates(&mut self, at: usize) {
        let Some(before) = self.now(at) else { return };
        self.holds(at, false);
        self.deletes(at, Policy::Background);
        self.creates(at, list(&before, "ownerReferences").first().cloned());
    }

    fn serves(&self, kind: usize, serving: Serving) {
        self.stage.acts().served[kind] = serving;
        let all = self.stage.acts().served;
        let of = |(kind, serving): (&(&str, &str, &str, bool), Serving)| {
            let (version, resource, kind, namespaced) = *kind;
            (serving != Serving::Missing).then(|| resource_of(version, resource, kind, namespaced, true))
        };
        let mut served: Vec<_> = KINDS.iter().zip(all).filter_map(of).collect();
        let (version, resource) = ("apiextensions.k8s.io/v1", "customresourcedefinitions");
        served.push(resource_of(version, resource, "CustomResourceDefinition", false, true));
        served.push(resource_of("coordination.k8s.io/v1", "leases", "Lease", true, true));
        served.push(ApiResource::namespaces());
        let down = KINDS.iter().zip(all).filter(|(_, it)| *it == Serving::Down).map(|(kind, _)| kind.0);
        self.server.serves(served, &down.collect::<Vec<_>>());
        if serving == Serving::Works && [2, 4].contains(&kind) {
            self.adds(&definition(kind));
        }
        self.server.cuts(&sketch(kind));
    }

    fn takes_lease(&self) {
        let lease = object("coordination.k8s.io/v1", "Lease", "kubegc-system", "kubegc-controller", &[]);
        let Some(mut taken) = self.server.get(&lease) else { return };
        taken["spec"]["holderIdentity"] = "another".into();
        self.server.acts(Method::PUT, &lease, taken);
    }

    /// All works again, nothing of others holds an object, and after a while nothing is left that should not be.
    async fn ends(&mut self) {
        self.stage.log("-- quiet");
        self.stage.acts().troubles.clear();
        for kind in 0..KINDS.len() {
            self.serves(kind, Serving::Works);
            self.server.lags(&sketch(kind), Duration::ZERO);
        }
        (0..OBJECTS).for_each(|at| self.holds(at, false));
        let mut left = Vec::new();
        for _ in 0..QUIET {
            let before = left.len();
            sleep(Duration::from_mins(1)).await;
            left = leftovers(&self.server.objects());
            if before + left.len() == 0 {
                return;
            }
        }
        for left in left {
            self.stage.fault(left);
        }
    }
}
