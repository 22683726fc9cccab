//! The cluster at one moment, as plain data: what `kubegc controller snapshot` writes. Only metadata, and of it only what
//! decides: no labels, no annotations, no data.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OwnersByNamespace, Unlisted};
use crate::model::{ApiKind, Identity, ObjectMeta, Seen, Uid};

/// The end of the names of groups whose objects are only measured, so they have no owners.
pub const METRICS: &str = "metrics.k8s.io";

/// All that a plan of the cluster depends on.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct ClusterSnapshot {
    /// When the first list began.
    pub taken_at: Timestamp,
    /// The address of the API server, and the credentials.
    pub server: String,
    /// Every kind that the API server serves, in all its versions.
    pub served: Vec<ServedKind>,
    /// The group-versions whose discovery failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<UnavailableGroup>,
    /// Every resource that can be listed and deleted, in its preferred version, with its objects.
    pub resources: Vec<ListedResource>,
    /// Live reads of the owners that the lists leave doubtful.
    #[serde(default)]
    pub owners: Vec<OwnerRead>,
    /// By uid: the objects that rules of the operator delete, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub selected: BTreeMap<Uid, String>,
    /// What the rules could not select, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rule_errors: Vec<String>,
    /// By uid of a namespace in deletion: its conditions that are true, and its finalizers other than `kubernetes`, as text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub conditions: BTreeMap<Uid, Vec<String>>,
}

// === impl ClusterSnapshot ===

impl ClusterSnapshot {
    /// Lists what could not be read, and why, as text: a group-version, a resource, or owners of one kind.
    pub fn missing(&self) -> Vec<String> {
        let groups = self.unavailable.iter().map(UnavailableGroup::to_string);
        let lists = self.resources.iter().filter_map(|listed| {
            let cause = listed.objects.cause()?;
            // That of a request names the resource.
            let is_whole = ["cannot ", "may not "].iter().any(|start| cause.starts_with(start));
            let ServedKind { resource, kind, .. } = &listed.served;
            Some(if is_whole { cause.to_owned() } else { format!("cannot list {resource} ({kind}): {cause}") })
        });
        let mut missing: Vec<_> =
            groups.chain(lists).chain(self.unread_owners()).chain(self.rule_errors.iter().cloned()).collect();
        missing.sort();
        missing
    }

    /// Lists the resources without a list, and the unavailable group-versions of which no resource is known, sorted by name.
    pub(super) fn without_list(&self) -> Vec<Unlisted> {
        let unlisted = self.resources.iter().filter(|listed| listed.objects.cause().is_some());
        let resources = unlisted.map(ListedResource::without_list);
        let is_known = |name: &str| self.resources.iter().any(|listed| listed.served.kind.group() == name);
        let groups = self.unavailable.iter().filter_map(|group| group.without_list(is_known));
        let mut all: Vec<_> = resources.chain(groups).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    fn unread_owners(&self) -> Vec<String> {
        let mut by_kind = BTreeMap::<_, Vec<&str>>::new();
        for OwnerRead { owner, answer, .. } in &self.owners {
            if let OwnerAnswer::Unavailable(cause) = answer {
                by_kind.entry(owner.kind.to_string()).or_default().push(cause);
            }
        }
        let text = |(kind, causes): (String, Vec<&str>)| match causes.as_slice() {
            [first, others @ ..] if !others.is_empty() => format!("{first}; and {} more owners ({kind})", others.len()),
            causes => causes.concat(),
        };
        by_kind.into_iter().map(text).collect()
    }
}

#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ServedKind {
    #[serde(flatten)]
    pub kind: ApiKind,
    /// As `deployments`.
    pub resource: String,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
}

// === impl ServedKind ===

impl ServedKind {
    /// Returns the name of the resource with its group, as `deployments.apps`.
    fn name(&self) -> String {
        match self.kind.group() {
            "" => self.resource.clone(),
            group => format!("{}.{group}", self.resource),
        }
    }
}

/// A group-version whose discovery failed. What it serves is unknown, so nothing in it counts as absent.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct UnavailableGroup {
    /// As `metrics.k8s.io/v1beta1`.
    pub api_version: String,
    pub cause: String,
}

// === impl UnavailableGroup ===

impl UnavailableGroup {
    /// Returns the name of its `APIService`, and why it is unavailable.
    pub fn service(&self) -> String {
        let (group, version) = self.api_version.split_once('/').unwrap_or_default();
        format!("{version}.{group} is unavailable: {}", self.cause)
    }

    /// Returns it as what has no list. `None` = resources of its group are known, or it is one of metrics, which have no owners.
    pub fn without_list(&self, is_known: impl Fn(&str) -> bool) -> Option<Unlisted> {
        let group = self.api_version.split_once('/').map_or("", |(group, _)| group);
        let is_unknown = !is_known(group) && !group.ends_with(METRICS);
        is_unknown.then(|| Unlisted { name: self.api_version.clone(), ..Unlisted::default() })
    }
}

impl std::fmt::Display for UnavailableGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "discovery of {}: {}", self.api_version, self.cause)
    }
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct ListedResource {
    #[serde(flatten)]
    pub served: ServedKind,
    pub objects: Seen<Vec<ObjectMeta>>,
    /// If it cannot be listed: the namespaces that were listed by themselves, because they are in deletion or a finalizer of
    /// garbage collection waits there, and the owners that the objects there name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub namespaces: OwnersByNamespace,
    /// The objects in those of these namespaces that are in deletion. They only show what is in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<ObjectMeta>,
}

// === impl ListedResource ===

impl ListedResource {
    fn without_list(&self) -> Unlisted {
        let (name, is_cluster_scoped) = (self.served.name(), !self.served.namespaced);
        Unlisted { name, is_cluster_scoped, namespaces: self.namespaces.clone() }
    }
}

/// The answer to a live read of an owner.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct OwnerRead {
    #[serde(flatten)]
    pub owner: Identity,
    pub read_at: Timestamp,
    pub answer: OwnerAnswer,
}

/// What the API server answered to the read of an owner.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnerAnswer {
    /// The object exists, with this uid.
    Exists {
        /// It has a deletionTimestamp and the finalizer `foregroundDeletion`.
        waits_for_dependents: bool,
    },
    /// A `Status` with the reason `NotFound` and the name of the object.
    NotFound,
    /// An object of this name exists, with another uid.
    OtherUid(Uid),
    /// No answer that proves anything; the cause.
    Unavailable(String),
    /// It was not requested, because of what the reference says; the cause. It concerns only the object with the reference.
    NotRequested(String),
}
