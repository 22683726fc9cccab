//! Rules of the operator for objects of a cluster: they delete objects of one resource by their metadata and age. A rule
//! only begins a deletion; what follows from it is decided by owner references as ever.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::janitor;
use crate::controller::calls::Calls;
use crate::controller::watch::filter::ResourceName;
use crate::controller::watch::filter::read_in;
use crate::controller::work::as_shown::SelectedObject;
use crate::controller::work::engine::Engine;
use crate::kubernetes::{ApiResource, Connection, KubernetesError, LabeledObject, discover, each_labeled_in};
use crate::model::{ObjectMeta, printable_text};
use crate::rules::{Budget, Fact, PassFacts, Rule, RuleSubject, Rules, Then, Values, labels, seconds, time};
use crate::serve::Health;

/// The namespaces of Kubernetes itself begin so. No rule deletes them, or what is in them.
const OF_KUBERNETES: &str = "kube-";
/// How often `run` lists the resources of the rules.
const INTERVAL: Duration = Duration::from_mins(5);
/// The namespace that no API server deletes, besides those.
const DEFAULT: &str = "default";
/// The names of priority classes that no API server deletes begin so.
const OF_SYSTEM: &str = "system-";
const NOTE: &str = "rules";
/// What decides which objects are deleted by their metadata and age.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectRules {
    /// The rules of the operator. Those for objects count.
    pub rules: Rules,
    /// The resources whose objects may end by the annotations of kube-janitor, if no rule decides before.
    pub annotated: Vec<ResourceName>,
}

#[derive(Default)]
pub(in crate::controller) struct Selection {
    pub(in crate::controller) objects: Vec<SelectedObject>,
    /// What could not be listed, or is not served.
    pub(in crate::controller) errors: Vec<String>,
    /// By resource and namespace: how many objects there are.
    pub(super) counts: BTreeMap<(String, String), usize>,
    /// By rule: how many objects it cannot be evaluated for, and the first.
    faults: BTreeMap<String, (usize, String)>,
}

// === impl ObjectRules ===

impl ObjectRules {
    pub fn is_empty(&self) -> bool {
        self.annotated.is_empty() && self.of_objects().next().is_none()
    }

    fn of_objects(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| rule.text().subject == RuleSubject::Object)
    }

    /// Lists the resources of the rules, in a namespace or in all, and returns the objects that end now.
    pub(in crate::controller) async fn select(
        &self,
        connection: &Connection,
        namespace: &str,
        now: Timestamp,
        limit: Duration,
    ) -> Result<Selection, KubernetesError> {
        let mut selection = Selection::default();
        if self.is_empty() {
            return Ok(selection);
        }
        let found = discover(connection, limit).await?;
        for name in self.not_served(&found.resources) {
            selection.errors.push(format!("rules: the API server serves no {name} that can be deleted"));
        }
        let facts = PassFacts::new(Values::from([(Fact::Now, time(now))]));
        let pass = Pass { rules: self, facts, now };
        for resource in read_in(&found, namespace).filter(|resource| self.names(resource)) {
            let (mut objects, shared) = (Vec::new(), Arc::new(resource.clone()));
            let select = |page: Vec<_>| pass.select(&shared, page, &mut objects, &mut selection);
            match each_labeled_in(connection, resource, namespace, limit, select).await {
                Ok(()) => selection.objects.append(&mut objects),
                Err(error) => selection.errors.push(error.to_string()),
            }
        }
        for (rule, (objects, first)) in &selection.faults {
            tracing::warn!(rule, objects, first, "cannot be evaluated for some objects, which are kept");
        }
        Ok(selection)
    }

    /// Lists the names of resources that rules have and that are not served.
    fn not_served(&self, served: &[ApiResource]) -> Vec<String> {
        let names = self.of_objects().filter_map(|rule| rule.text().resource.parse().ok());
        let names = names.chain(self.annotated.iter().cloned());
        names.filter(|name: &ResourceName| !served.iter().any(|it| name.is(it))).map(|name| name.to_string()).collect()
    }

    fn names(&self, resource: &ApiResource) -> bool {
        self.of_objects().any(|rule| is_of(rule, resource)) || self.is_annotated(resource)
    }

    fn is_annotated(&self, resource: &ApiResource) -> bool {
        self.annotated.iter().any(|name| name.is(resource))
    }
}

fn is_of(rule: &Rule, resource: &ApiResource) -> bool {
    rule.text().resource.parse().is_ok_and(|name: ResourceName| name.is(resource))
}

/// Returns whether an object is in a namespace of Kubernetes, or is one that no API server deletes.
fn is_of_kubernetes(resource: &ApiResource, meta: &ObjectMeta) -> bool {
    match (&*resource.group(), &*resource.resource) {
        ("", "namespaces") => meta.name.starts_with(OF_KUBERNETES) || &*meta.name == DEFAULT,
        ("scheduling.k8s.io", "priorityclasses") => meta.name.starts_with(OF_SYSTEM),
        _ => meta.namespace.starts_with(OF_KUBERNETES),
    }
}

/// Deletes what rules select now, until the end of the calls. Returns what could not be listed.
pub(super) async fn once(engine: &Engine, rules: &ObjectRules) -> Vec<String> {
    let Calls { connection, answer, end, .. } = &engine.calls;
    let selection = rules.select(connection, &engine.filter.namespace, (engine.clock)(), *answer);
    // Reads may be broken off, and changes may not.
    let selection = tokio::select! { selection = selection => selection, () = end.cancelled() => return Vec::new() };
    match selection {
        Ok(selection) => {
            engine.delete_all_selected(selection.objects, end).await;
            selection.errors
        }
        Err(error) => vec![error.to_string()],
    }
}

/// Deletes what rules select, again and again until `stop`. Returns when the deletions in flight have ended.
///
/// A rule that selects too many objects at once is probably wrong, or new. Then nothing is deleted by it there: `collect` deletes
/// these objects after a person has seen the plan.
pub(in crate::controller) async fn follow(
    engine: &Engine,
    rules: &ObjectRules,
    health: &Health,
    stop: &CancellationToken,
) {
    while !rules.is_empty() && !stop.is_cancelled() {
        let Calls { connection, answer, .. } = &engine.calls;
        let selection = rules.select(connection, "", (engine.clock)(), *answer);
        match tokio::select! { selection = selection => selection, () = stop.cancelled() => return } {
            Ok(mut selection) => {
                let paused = selection.pause(engine.guards.brake_count);
                health.note(NOTE, if paused.is_empty() { "followed".to_owned() } else { paused.join("; ") });
                for cause in paused.iter().chain(&selection.errors) {
                    tracing::error!(cause, "objects are not deleted by rules");
                }
                engine.delete_all_selected(selection.objects, stop).await;
            }
            Err(error) => tracing::warn!(cause = %error, "the objects of rules cannot be listed"),
        }
        tokio::select! { () = sleep(INTERVAL) => {}, () = stop.cancelled() => {} }
    }
}

struct Pass<'r> {
    rules: &'r ObjectRules,
    facts: PassFacts,
    now: Timestamp,
}

// === impl Pass ===

impl Pass<'_> {
    fn select(
        &self,
        resource: &Arc<ApiResource>,
        page: Vec<LabeledObject>,
        selected: &mut Vec<SelectedObject>,
        selection: &mut Selection,
    ) {
        let today = self.now.to_zoned(TimeZone::UTC).date();
        let rules: Vec<_> =
            self.rules.of_objects().filter(|rule| is_of(rule, resource) && rule.applies_on(today)).collect();
        for object in page {
            let LabeledObject { meta, .. } = &object;
            *selection
                .counts
                .entry((ResourceName::of(resource).to_string(), meta.namespace.to_string()))
                .or_default() += 1;
            if meta.is_deleting() || meta.uid.is_empty() || is_of_kubernetes(resource, meta) {
                continue;
            }
            if let Some((rule, reason)) = self.end_of(&object, &rules, resource, selection) {
                let resource = Arc::clone(resource);
                selected.push(SelectedObject { resource, meta: object.meta, rule, reason });
            }
        }
    }

    /// Returns what ends an object now, and why, for people. `None` = nothing does.
    fn end_of(
        &self,
        object: &LabeledObject,
        rules: &[&Rule],
        resource: &ApiResource,
        selection: &mut Selection,
    ) -> Option<(String, String)> {
        let fault = |rule: &Rule, error: &str| selection.fault(&rule.text().name, object, error);
        if let Some(rule) = self.first(rules, object, fault) {
            let name = &rule.text().name;
            return (rule.text().then == Then::Delete).then(|| (name.clone(), format!("rule {name}")));
        }
        if self.rules.is_annotated(resource) { self.annotated_end(object, selection) } else { None }
    }

    fn first<'r>(
        &self,
        rules: &[&'r Rule],
        object: &LabeledObject,
        mut fault: impl FnMut(&Rule, &str),
    ) -> Option<&'r Rule> {
        if rules.is_empty() {
            return None;
        }
        let facts = self.facts.with(self.facts_of(object));
        let places = rules.iter().copied().enumerate();
        let of_place = |place: usize, error: String| rules.get(place).into_iter().for_each(|rule| fault(rule, &error));
        Budget::default().first(places, &facts, of_place).map(|(_, rule)| rule)
    }

    fn facts_of(&self, object: &LabeledObject) -> Values {
        let LabeledObject { meta, created_at, .. } = object;
        let controller = meta.owners.iter().find(|owner| owner.controller == Some(true));
        let facts = [
            (Fact::ObjectName, Some((&*meta.name).into())),
            (Fact::ObjectNamespace, Some((&*meta.namespace).into())),
            (Fact::ObjectLabels, labels(object.labels.iter())),
            (Fact::ObjectAnnotations, labels(object.annotations.iter())),
            (Fact::ObjectCreated, created_at.map(time)),
            // The clock of the API server may be ahead.
            (Fact::ObjectAge, created_at.map(|at| seconds(self.now.duration_since(at).as_secs().max(0)))),
            (Fact::ObjectOwnerKind, controller.map(|owner| (&*owner.kind.kind).into())),
            (Fact::ObjectOwnerName, controller.map(|owner| (&*owner.name).into())),
        ];
        facts.into_iter().filter_map(|(fact, value)| Some((fact, value?))).collect()
    }

    /// Returns what ends an object by its annotations. They are what a tenant writes: one that cannot be read ends nothing.
    fn annotated_end(&self, object: &LabeledObject, selection: &mut Selection) -> Option<(String, String)> {
        for (name, text) in janitor::NAMES.iter().filter_map(|name| Some((*name, object.annotations.get(*name)?))) {
            match janitor::end(name, text, object.created_at) {
                Some(end) if self.now >= end => return Some((name.to_owned(), format!("{name} {text}"))),
                Some(_) => {}
                None => selection.fault(name, object, &format!("{text:?} cannot be read")),
            }
        }
        None
    }
}

// === impl Selection ===

impl Selection {
    fn fault(&mut self, rule: &str, object: &LabeledObject, error: &str) {
        let ObjectMeta { namespace, name, .. } = &object.meta;
        let first = || printable_text(&format!("{namespace}/{name}: {error}")).chars().take(200).collect();
        self.faults.entry(rule.to_owned()).or_insert_with(|| (0, first())).0 += 1;
    }
}
