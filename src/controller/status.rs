//! What the garbage collection of a cluster depends on: the API server, its resources, and the processes that collect.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use schemars::JsonSchema;
use serde::Serialize;

use super::changes::deletion_waits_for_dependents;
use super::controller_error::ControllerError;
use super::leader::ATTENTION;
use super::watch::filter::ResourceFilter;
use super::watch::served::Served;
use crate::kubernetes::{
    ApiResource, Cause, Clock, Connection, Discovered, KubernetesError, LeaseName, WriteTarget, discover, read_lease,
    read_metadata, server_version,
};
use crate::model::Seen;
use crate::owners::UnavailableGroup;

/// Every API server writes this ConfigMap when it starts: the namespace and the name.
const KNOWN: (&str, &str) = ("kube-system", "extension-apiserver-authentication");
/// The Lease of kube-controller-manager: the namespace and the name.
const UPSTREAM: (&str, &str) = ("kube-system", "kube-controller-manager");

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ClusterStatus {
    pub at: Timestamp,
    /// Why these credentials are in use.
    pub server: String,
    /// The version of the API server, as `v1.36.2`.
    pub server_version: Seen<String>,
    /// The resources that the API server serves, in their preferred version.
    pub resources: usize,
    /// Those whose objects can be collected.
    pub collected_resources: usize,
    /// The group-versions whose discovery failed. Dependents of their kinds are not collected.
    pub unavailable: Vec<UnavailableGroup>,
    /// Whether the API server honors the propagation policies of deletions. `false`: it was started with
    /// `--enable-garbage-collector=false`, so a foreground deletion does not wait and an orphaning does not happen.
    pub garbage_collection: Seen<bool>,
    /// The processes that may collect: that of the Lease of `kubegc controller run`, and kube-controller-manager.
    pub collectors: Vec<Collector>,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Collector {
    /// As `kube-controller-manager`.
    pub name: String,
    /// The namespace and the name of its Lease.
    pub lease: String,
    /// The process that has the Lease; `null` = no process ever had it, or it was given back.
    pub leader: Seen<Option<Leader>>,
}

#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Leader {
    pub identity: String,
    /// When it renewed the Lease last, by its own clock.
    pub renewed_at: Option<Timestamp>,
    /// The Lease has not expired.
    pub is_active: bool,
    /// What it reports: resources that are not collected, objects that fail or wait. Empty = all was done. `kubegc` only.
    pub needs_attention: Vec<String>,
}

// === impl ClusterStatus ===

impl ClusterStatus {
    /// Reads the status. It changes nothing: the deletion that it sends is a dry run.
    pub async fn read(
        connection: &Connection,
        lease: &LeaseName,
        limit: Duration,
        clock: Clock,
    ) -> Result<Self, ControllerError> {
        let found = discover(connection, limit).await.map_err(|source| ControllerError::Discover { source })?;
        let at = clock();
        Ok(Self {
            at,
            server: connection.cluster().await,
            server_version: server_version(connection, limit).await.into(),
            resources: found.resources.iter().filter(|resource| resource.is_preferred).count(),
            collected_resources: collected(&found),
            unavailable: Served::from(&found).unavailable,
            garbage_collection: garbage_collection(connection, limit).await.into(),
            collectors: vec![
                Collector::read(connection, "kubegc controller run", lease, limit, at).await,
                Collector::read(connection, "kube-controller-manager", &upstream(), limit, at).await,
            ],
        })
    }

    /// Lists what prevents or limits garbage collection, as text.
    pub fn faults(&self) -> Vec<String> {
        let mut faults: Vec<_> = self.unavailable.iter().map(UnavailableGroup::to_string).collect();
        if self.garbage_collection.as_ref() == Some(&false) {
            faults
                .push("garbage collection is disabled in the API server (--enable-garbage-collector=false)".to_owned());
        }
        faults
    }
}

/// Returns the kube-controller-manager that has its Lease, or had it last.
pub(super) async fn upstream_leader(
    connection: &Connection,
    limit: Duration,
    now: Timestamp,
) -> Result<Option<Leader>, KubernetesError> {
    Ok(read_lease(connection, &upstream(), limit).await?.and_then(|lease| Leader::of(lease, now)))
}

fn upstream() -> LeaseName {
    LeaseName { namespace: UPSTREAM.0.to_owned(), name: UPSTREAM.1.to_owned() }
}

fn collected(found: &Discovered) -> usize {
    let everything = ResourceFilter::default();
    found.resources.iter().filter(|resource| everything.selects(resource)).count()
}

/// Returns whether a foreground deletion would wait.
async fn garbage_collection(connection: &Connection, limit: Duration) -> Result<bool, KubernetesError> {
    let (resource, (namespace, name)) = (ApiResource::config_maps(), KNOWN);
    let live = read_metadata(connection, &resource, namespace, name, limit).await?;
    let missing = || Cause::Unreadable(format!("there is no ConfigMap {name} in namespace {namespace}"));
    let live = live.ok_or_else(|| missing().of("see how the API server deletes"))?;
    let target = WriteTarget { resource: &resource, namespace, name, uid: &live.uid };
    deletion_waits_for_dependents(connection, target, limit).await
}

// === impl Collector ===

impl Collector {
    async fn read(connection: &Connection, name: &str, lease: &LeaseName, limit: Duration, now: Timestamp) -> Self {
        let leader = read_lease(connection, lease, limit).await.map(|lease| Leader::of(lease?, now));
        Self { name: name.to_owned(), lease: format!("{}/{}", lease.namespace, lease.name), leader: leader.into() }
    }
}

// === impl Leader ===

impl Leader {
    fn of(lease: Lease, now: Timestamp) -> Option<Self> {
        let annotations = lease.metadata.annotations.unwrap_or_default();
        let needs_attention = annotations.get(ATTENTION).map(|text| text.lines().map(str::to_owned).collect());
        let LeaseSpec { holder_identity, renew_time, lease_duration_seconds, .. } = lease.spec?;
        let identity = holder_identity.filter(|holder| !holder.is_empty())?;
        let renewed_at = renew_time.map(|time| time.0);
        let lasts = i64::from(lease_duration_seconds.unwrap_or_default());
        let is_active = renewed_at.is_some_and(|renewed| now.duration_since(renewed).as_secs() <= lasts);
        Some(Self { identity, renewed_at, is_active, needs_attention: needs_attention.unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::*;

    #[test]
    fn a_leader_is_active_until_its_lease_expires() {
        let renewed: Timestamp = "2026-01-02T03:04:05.5Z".parse().unwrap();
        let leader = |holder: Option<&str>, seconds: i64| {
            let spec = LeaseSpec {
                holder_identity: holder.map(str::to_owned),
                lease_duration_seconds: Some(15),
                renew_time: Some(MicroTime(renewed)),
                ..LeaseSpec::default()
            };
            let lease = Lease { spec: Some(spec), ..Lease::default() };
            Leader::of(lease, renewed + Duration::from_secs(seconds.unsigned_abs())).map(|leader| leader.is_active)
        };
        assert_eq!(leader(Some("a"), 0), Some(true));
        assert_eq!(leader(Some("a"), 15), Some(true));
        assert_eq!(leader(Some("a"), 16), Some(false));
        assert_eq!(leader(Some(""), 0), None, "the leader has given it back");
        assert_eq!(leader(None, 0), None);
        assert_eq!(Leader::of(Lease::default(), renewed), None);
    }
}
