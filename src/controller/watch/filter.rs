//! Which resources are collected.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use crate::kubernetes::{ApiResource, Discovered};
use crate::model::{Identity, Uid};

/// A resource as `apps/deployments` or, as kubectl has it, `deployments.apps`; or `configmaps` of the core group.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ResourceName {
    group: String,
    resource: String,
}

/// Selects resources. An owner of a resource that is not selected is still read live.
#[derive(Clone, Debug, Default)]
pub struct ResourceFilter {
    pub only: Vec<ResourceName>,
    pub ignore: Vec<ResourceName>,
}

/// Selects the objects that may be changed. The others are known, and hold their owners (G4).
#[derive(Clone, Debug, Default)]
pub struct ObjectFilter {
    pub resources: ResourceFilter,
    /// In this namespace; empty = in all, and without one.
    pub namespace: String,
    /// With one of these uids; `None` = with any.
    pub uids: Option<HashSet<Uid>>,
    /// With labels that this selector matches. A service reads them before each change.
    pub labels: Option<String>,
}

/// A name that is not `GROUP/RESOURCE`.
#[derive(Debug, thiserror::Error)]
#[error("expected RESOURCE.GROUP such as deployments.apps, or a core resource such as configmaps")]
pub struct InvalidResourceName;

// === impl ResourceFilter ===

impl ResourceFilter {
    /// Returns whether objects of a resource are collected.
    pub fn selects(&self, resource: &ApiResource) -> bool {
        let is_left_out = self.leaves_out_named(&resource.group(), &resource.resource);
        resource.is_preferred && resource.is_collectable() && !is_left_out
    }

    /// Lists the names that no resource has: they may have a typing error.
    pub(in crate::controller) fn unknown(&self, served: &[ApiResource]) -> Vec<String> {
        let is_unknown = |name: &&ResourceName| !served.iter().any(|resource| name.is(resource));
        self.only.iter().chain(&self.ignore).filter(is_unknown).map(ToString::to_string).collect()
    }

    /// Returns whether objects of a resource are left as they are, in all its versions.
    pub fn leaves_out_named(&self, group: &str, resource: &str) -> bool {
        let names = |names: &[ResourceName]| names.iter().any(|name| name.is_named(group, resource));
        !self.only.is_empty() && !names(&self.only) || names(&self.ignore)
    }
}

/// Lists the resources whose objects are read: of a namespace, only those that can be in it.
pub(in crate::controller) fn read_in<'f>(
    found: &'f Discovered,
    namespace: &str,
) -> impl Iterator<Item = &'f ApiResource> {
    let (everything, is_everywhere) = (ResourceFilter::default(), namespace.is_empty());
    found.resources.iter().filter(move |it| everything.selects(it) && (it.namespaced || is_everywhere))
}

// === impl ObjectFilter ===

impl ObjectFilter {
    pub fn is_empty(&self) -> bool {
        let Self { resources, namespace, uids, labels } = self;
        let names_none = resources.only.is_empty() && resources.ignore.is_empty();
        names_none && namespace.is_empty() && uids.is_none() && labels.is_none()
    }

    /// Says why an object is left as it is. `None` = it is not.
    pub fn leaves_out(&self, resource: &ApiResource, object: &Identity) -> Option<&'static str> {
        self.leaves_out_named(&resource.group(), &resource.resource, object)
    }

    /// As [`Self::leaves_out`], by the names of group and resource.
    pub fn leaves_out_named(&self, group: &str, resource: &str, object: &Identity) -> Option<&'static str> {
        let is_elsewhere = !self.namespace.is_empty() && *self.namespace != *object.namespace;
        let is_other = self.uids.as_ref().is_some_and(|uids| !uids.contains(&object.uid));
        match self.resources.leaves_out_named(group, resource) {
            true => Some("excluded by --only or --ignore"),
            false if is_elsewhere => Some("excluded by --namespace"),
            false if is_other => Some("excluded by --selector or --plan"),
            false => None,
        }
    }
}

impl From<ResourceFilter> for ObjectFilter {
    fn from(resources: ResourceFilter) -> Self {
        Self { resources, ..Self::default() }
    }
}

// === impl ResourceName ===

impl ResourceName {
    pub(in crate::controller) fn of(resource: &ApiResource) -> Self {
        Self { group: resource.group(), resource: resource.resource.clone() }
    }

    /// Returns whether this is the name of a resource, in any version.
    pub(in crate::controller) fn is(&self, resource: &ApiResource) -> bool {
        self.is_named(&resource.group(), &resource.resource)
    }

    fn is_named(&self, group: &str, resource: &str) -> bool {
        self.group == group && self.resource == resource
    }
}

impl FromStr for ResourceName {
    type Err = InvalidResourceName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The name of a resource has no dot.
        let of_kubectl = || text.split_once('.').map_or(("", text), |(resource, group)| (group, resource));
        let (group, resource) = text.rsplit_once('/').unwrap_or_else(of_kubectl);
        let is_name = |text: &str| text.chars().all(|it| it.is_ascii_alphanumeric() || "-.".contains(it));
        if resource.is_empty() || !is_name(resource) || !is_name(group) {
            return Err(InvalidResourceName);
        }
        Ok(Self { group: group.to_owned(), resource: resource.to_owned() })
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, resource } = self;
        if group.is_empty() { f.write_str(resource) } else { write!(f, "{group}/{resource}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(api_version: &str, resource: &str) -> ApiResource {
        ApiResource {
            api_version: api_version.to_owned(),
            resource: resource.to_owned(),
            kind: String::new(),
            namespaced: true,
            verbs: ["delete", "list", "watch"].map(str::to_owned).to_vec(),
            is_preferred: true,
        }
    }

    #[test]
    fn only_and_ignore_select_by_group_and_resource() {
        let filter = |only: &[&str], ignore: &[&str]| {
            let names = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect();
            ResourceFilter { only: names(only), ignore: names(ignore) }
        };
        let (pods, metrics) = (resource("v1", "pods"), resource("metrics.k8s.io/v1", "pods"));
        let rows = [
            (filter(&[], &[]), true, true),
            (filter(&["pods"], &[]), true, false),
            (filter(&["/pods"], &[]), true, false),
            (filter(&[], &["pods.metrics.k8s.io"]), true, false),
            (filter(&[], &["metrics.k8s.io/pods"]), true, false),
            (filter(&["pods", "metrics.k8s.io/pods"], &["pods"]), false, true),
        ];
        for (filter, core, other) in rows {
            assert_eq!((filter.selects(&pods), filter.selects(&metrics)), (core, other), "{filter:?}");
        }
        assert_eq!(filter(&["pod"], &["pods", "x/y"]).unknown(&[pods.clone(), metrics]), ["pod", "x/y"]);
        let others = ApiResource { is_preferred: false, ..pods };
        assert!(!filter(&[], &[]).selects(&others));
    }

    #[test]
    fn a_name_has_a_resource() {
        for wrong in ["", "apps/", "a b", "apps/v1/deployments "] {
            assert!(wrong.parse::<ResourceName>().is_err(), "{wrong:?}");
        }
    }
}
