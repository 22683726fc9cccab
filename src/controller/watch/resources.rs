//! The resources that were ever listed, by number: which of them have no list, cannot be watched, or are unknown.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::served::Served;
use crate::model::Identity;
pub(in crate::controller) use crate::owners::METRICS;
use crate::owners::{OwnersByNamespace, ResourceId, Unlisted, unlisted_dependents};

/// The definitions of custom resources, as [`Resources::name`] writes them.
pub(in crate::controller) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

#[derive(Debug, Default)]
pub(in crate::controller) struct Resources {
    /// Group and resource, by number.
    names: Vec<(String, String)>,
    /// The resources without a complete list so far, since when.
    unlisted: BTreeMap<ResourceId, (Instant, Unlisted)>,
    /// The resources that cannot be listed or watched now, since when.
    failing: BTreeMap<ResourceId, Instant>,
    /// The unavailable group-versions of which no resource was ever known, since when.
    unknown_groups: BTreeMap<String, (Instant, Unlisted)>,
    /// The definitions of custom resources, and whether each exists or was deleted.
    definitions: HashMap<String, bool>,
}

// === impl Resources ===

impl Resources {
    pub(in crate::controller) fn number(&mut self, group: &str, resource: &str) -> ResourceId {
        let is_it = |(known_group, known): &(String, String)| known_group == group && known == resource;
        let at = self.names.iter().position(is_it).unwrap_or_else(|| {
            self.names.push((group.to_owned(), resource.to_owned()));
            self.names.len() - 1
        });
        // An API server with 65,536 resources has failed long before.
        ResourceId(u16::try_from(at).unwrap_or(u16::MAX))
    }

    /// Returns the name of a resource, as `deployments.apps`.
    pub(in crate::controller) fn name(&self, resource: ResourceId) -> String {
        match self.names.get(usize::from(resource.0)) {
            Some((group, resource)) if group.is_empty() => resource.clone(),
            Some((group, resource)) => format!("{resource}.{group}"),
            None => "an unknown resource".to_owned(),
        }
    }

    /// Takes over which group-versions are unavailable.
    pub(in crate::controller) fn discovered(&mut self, served: &Served) {
        let is_known = |group: &str| self.names.iter().any(|(known, _)| known == group);
        let unknown = served.unavailable.iter().filter_map(|group| group.without_list(is_known));
        let since = |name: &str| self.unknown_groups.get(name).map_or_else(Instant::now, |(since, _)| *since);
        self.unknown_groups = unknown.map(|it| (it.name.clone(), (since(&it.name), it))).collect();
    }

    /// Records that a resource has no complete list yet.
    pub(in crate::controller) fn awaits_list(&mut self, resource: ResourceId, namespaced: bool) {
        let unlisted =
            Unlisted { name: self.name(resource), is_cluster_scoped: !namespaced, namespaces: BTreeMap::new() };
        self.unlisted.entry(resource).or_insert_with(|| (Instant::now(), unlisted));
    }

    /// Returns whether a resource has no complete list yet.
    pub(in crate::controller) fn lacks_list(&self, resource: ResourceId) -> bool {
        self.unlisted.contains_key(&resource)
    }

    /// Takes over what lists of single namespaces show of a resource without a complete list.
    pub(in crate::controller) fn lists_namespaces(&mut self, resource: ResourceId, namespaces: OwnersByNamespace) {
        if let Some((_, unlisted)) = self.unlisted.get_mut(&resource) {
            unlisted.namespaces = namespaces;
        }
    }

    /// Names what may have dependents of an owner that are not known, and has lacked its list for less than `wait`.
    pub(in crate::controller) fn unlisted_dependents(&self, owner: &Identity, wait: Duration) -> Vec<String> {
        let all = self.unlisted.values().chain(self.unknown_groups.values());
        unlisted_dependents(all.filter(|(since, _)| since.elapsed() < wait).map(|(_, it)| it), owner)
    }

    /// Records that a resource has a complete list, or is not served any more.
    pub(in crate::controller) fn has_list(&mut self, resource: ResourceId) {
        self.unlisted.remove(&resource);
    }

    /// Records that a resource cannot be listed or watched. Returns whether that is new.
    pub(in crate::controller) fn fails(&mut self, resource: ResourceId) -> bool {
        let is_new = !self.failing.contains_key(&resource);
        self.failing.entry(resource).or_insert_with(Instant::now);
        is_new
    }

    /// Records that a resource is listed and watched again, or is not followed any more. Returns whether it failed.
    pub(in crate::controller) fn works(&mut self, resource: ResourceId) -> bool {
        self.failing.remove(&resource).is_some()
    }

    /// Records that a definition of custom resources exists, or was deleted.
    pub(in crate::controller) fn defines(&mut self, name: &str, exists: bool) {
        self.definitions.insert(name.to_owned(), exists);
    }

    /// Returns whether a definition of custom resources exists. `None` = it was never shown.
    pub(in crate::controller) fn has_definition(&self, name: &str) -> Option<bool> {
        self.definitions.get(name).copied()
    }

    /// Lists the names of the resources that cannot be listed or watched now, and for how long.
    pub(in crate::controller) fn failing(&self) -> Vec<(String, Duration)> {
        self.failing.iter().map(|(id, since)| (self.name(*id), since.elapsed())).collect()
    }

    /// Lists the names of the resources without a complete list, and for how long.
    pub(in crate::controller) fn unlisted(&self) -> Vec<(String, Duration)> {
        self.unlisted.values().map(|(since, it)| (it.name.clone(), since.elapsed())).collect()
    }

    /// Lists the group-versions that are unavailable and of which no resource was ever known, and for how long.
    pub(in crate::controller) fn unknown_groups(&self) -> Vec<(String, Duration)> {
        self.unknown_groups.values().map(|(since, it)| (it.name.clone(), since.elapsed())).collect()
    }
}
