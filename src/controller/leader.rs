//! Leader election by a Lease, with the numbers of kube-controller-manager. Two leaders for a moment waste calls and do no
//! harm, because every change has a precondition.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use tokio::time::{Instant, sleep};

use crate::kubernetes::{Clock, Connection, KubernetesError, LeaseName, read_lease, write_lease};
use crate::model::Outage;

pub type Attention = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// After this time without a renewal another candidate may take the lease.
const LASTS: Duration = Duration::from_secs(15);
/// After this time without a renewal the leader stops.
const RENEW_WITHIN: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);

/// The annotation of the lease that says what needs attention, a line each.
pub(super) const ATTENTION: &str = "kubegc/needs-attention";

pub struct Candidate {
    connection: Arc<Connection>,
    name: LeaseName,
    /// Differs from that of every other candidate.
    identity: String,
    clock: Clock,
    /// Written to the lease while this candidate has it.
    attention: Attention,
    /// The lease as it was read last, and since when it is unchanged. Only this clock counts: those of other machines may
    /// differ.
    seen: Option<(LeaseSpec, Instant)>,
}

// === impl Candidate ===

impl Candidate {
    /// Creates a candidate. It makes no call yet.
    pub fn new(
        connection: Arc<Connection>,
        name: LeaseName,
        identity: String,
        clock: Clock,
        attention: Attention,
    ) -> Self {
        Self { connection, name, identity, clock, attention, seen: None }
    }

    /// Waits until this candidate has the lease. `show` receives after each attempt why it cannot have it; `None` = another one
    /// has it.
    pub async fn lead(&mut self, show: impl Fn(Option<String>)) {
        let mut outage = Outage::default();
        loop {
            let fault = match self.attempt().await {
                Ok(true) => return tracing::info!(lease = self.name.name, identity = self.identity, "leading"),
                Ok(false) => None,
                Err(error) => Some(error.to_string()),
            };
            if let Some(cause) = outage.begins(fault.as_ref()) {
                tracing::warn!(cause, "cannot take the lease for now");
            }
            show(fault);
            sleep(RETRY).await;
        }
    }

    /// Renews the lease until it is lost.
    pub async fn stay(&mut self) {
        let mut renewed = Instant::now();
        while renewed.elapsed() < RENEW_WITHIN {
            sleep(RETRY).await;
            match tokio::time::timeout(RENEW_WITHIN, self.attempt()).await {
                Ok(Ok(true)) => renewed = Instant::now(),
                Ok(Ok(false)) => break,
                Ok(Err(error)) => tracing::warn!(cause = %error, "cannot renew the lease"),
                Err(_) => tracing::warn!("cannot renew the lease: no answer"),
            }
        }
        tracing::error!(lease = self.name.name, "the lease is lost");
    }

    /// Gives the lease back, so that another candidate need not wait.
    pub async fn release(self) {
        let limit = RETRY;
        let Ok(Some(lease)) = read_lease(&self.connection, &self.name, limit).await else { return };
        let spec = lease.spec.unwrap_or_default();
        if spec.holder_identity.as_deref() == Some(&self.identity) {
            let spec = LeaseSpec { holder_identity: Some(String::new()), lease_duration_seconds: Some(1), ..spec };
            let lease = Lease { spec: Some(spec), metadata: lease.metadata };
            let _ = write_lease(&self.connection, &self.name, &lease, limit).await;
        }
    }

    /// Takes or renews the lease unless another candidate has it. Returns whether this candidate has it now.
    async fn attempt(&mut self) -> Result<bool, KubernetesError> {
        let lease = read_lease(&self.connection, &self.name, RENEW_WITHIN).await?;
        let (metadata, spec) =
            lease.map_or_else(Default::default, |lease| (lease.metadata, lease.spec.unwrap_or_default()));
        self.observe(&spec);
        if !self.may_take(&spec) {
            return Ok(false);
        }
        let lease = self.mine(metadata, spec);
        match write_lease(&self.connection, &self.name, &lease, RENEW_WITHIN).await {
            Err(error) if error.cause.is_conflict() => Ok(false),
            written => written.map(|_| true),
        }
    }

    fn observe(&mut self, spec: &LeaseSpec) {
        if self.seen.as_ref().is_none_or(|(seen, _)| seen != spec) {
            self.seen = Some((spec.clone(), Instant::now()));
        }
    }

    fn may_take(&self, spec: &LeaseSpec) -> bool {
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        let lasts = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let lasts = lasts.map_or(LASTS, Duration::from_secs);
        let is_old = self.seen.as_ref().is_some_and(|(_, since)| since.elapsed() > lasts);
        holder.is_empty() || holder == self.identity || is_old
    }

    fn mine(&self, metadata: ObjectMeta, before: LeaseSpec) -> Lease {
        let now = MicroTime(self.now());
        let is_new = before.holder_identity.as_deref() != Some(&self.identity);
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(LASTS.as_secs()).ok(),
            acquire_time: if is_new { Some(now.clone()) } else { before.acquire_time },
            renew_time: Some(now),
            lease_transitions: Some(before.lease_transitions.unwrap_or_default() + i32::from(is_new)),
            ..LeaseSpec::default()
        };
        let LeaseName { namespace, name } = self.name.clone();
        let annotations = self.annotations(metadata.annotations.unwrap_or_default());
        let metadata =
            ObjectMeta { name: Some(name), namespace: Some(namespace), annotations: Some(annotations), ..metadata };
        Lease { metadata, spec: Some(spec) }
    }

    fn annotations(&self, mut annotations: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let lines = (self.attention)();
        if lines.is_empty() {
            annotations.remove(ATTENTION);
        } else {
            annotations.insert(ATTENTION.to_owned(), lines.join("\n"));
        }
        annotations
    }

    /// A Lease has microseconds and no nanoseconds.
    fn now(&self) -> Timestamp {
        let now = (self.clock)();
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }
}
