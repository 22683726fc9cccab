//! The HTTP clients of a connection, made from the credentials of the moment.

use std::sync::Arc;

use jiff::Timestamp;
use kube::client::Client;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::client::{ClientFactory, Sharing, WATCHES};
use crate::kubernetes::credentials::target::{Target, check_token};
use crate::kubernetes::kubernetes_error::with_causes;
use crate::kubernetes::{Access, Cause, ExecPlugins};

/// How many connections watches share: enough for 1,280 resources.
const SHARED: usize = 16;

/// The permit of a watch in a shared connection. `None` = the watch has a connection of its own.
pub(super) type WatchPermit = Option<OwnedSemaphorePermit>;

/// The clients of a connection, and why these credentials were chosen.
pub(in crate::kubernetes) struct Clients {
    calls: Client,
    /// The clients for watches that share a connection, and how many more each may have.
    shared_watches: Vec<(Client, Arc<Semaphore>)>,
    /// The client for the other watches: each has a connection of its own.
    watches: Client,
    pub(super) chosen_by: String,
    /// The address of the API server; empty = not known.
    pub(super) server: String,
    /// The context of the kubeconfig, if it has one.
    context: Option<String>,
    /// When the credentials expire.
    pub(super) expires: Option<Timestamp>,
}

// === impl Clients ===

impl Clients {
    /// Makes the clients from files that were read. Runs the exec plugin, if there is one.
    pub(super) async fn new(access: &Access, mut target: Target, sharing: Sharing) -> Result<Self, Cause> {
        let unusable =
            |cause| Cause::UseCredentials(format!("{}: its credentials cannot be used: {cause}", access.chosen_by));
        let mut expires = None;
        if let Some(plugin) = target.plugin.take() {
            let credential = plugin.run(access.from.plugins == ExecPlugins::ByPerson).await.map_err(unusable)?;
            expires = credential.expires;
            target.add(credential).map_err(unusable)?;
        }
        check_token(&target.config.auth_info).map_err(unusable)?;
        let made = Self::open(&target, sharing, access).map_err(|error| unusable(with_causes(&error)))?;
        Ok(Self { expires, ..made })
    }

    /// Returns the client for calls, which end soon.
    pub(super) fn calls(&self) -> &Client {
        &self.calls
    }

    /// Returns a client for one watch, which stays open, and its permit.
    pub(super) fn watch(&self) -> (&Client, WatchPermit) {
        let shared = self.shared_watches.iter().find_map(|(client, permits)| {
            let permit = Arc::clone(permits).try_acquire_owned().ok()?;
            Some((client, Some(permit)))
        });
        shared.unwrap_or((&self.watches, None))
    }

    /// Names the cluster: the address, the credentials and the context of the kubeconfig.
    pub(super) fn cluster(&self) -> String {
        let context = self.context.as_ref().map(|name| format!(", context {name}")).unwrap_or_default();
        let by = format!("{}{context}", self.chosen_by);
        if self.server.is_empty() { by } else { format!("{} ({by})", self.server) }
    }

    /// Returns whether the credentials expired.
    pub(super) fn is_expired(&self, now: Option<Timestamp>) -> bool {
        self.expires.zip(now).is_some_and(|(expires, now)| now >= expires)
    }

    /// One client for everything.
    pub(super) fn of(client: Client, chosen_by: String) -> Self {
        let (server, context) = Default::default();
        let (shared_watches, calls) = (Vec::new(), client.clone());
        Self { calls, shared_watches, watches: client, chosen_by, server, context, expires: None }
    }

    /// Makes the clients. No client opens a connection before its first request.
    fn open(target: &Target, sharing: Sharing, access: &Access) -> Result<Self, kube::Error> {
        let insecure = target.config.accept_invalid_certs;
        let unchecked = if insecure { ", without verifying the server's certificate" } else { "" };
        let chosen_by = format!("{}{unchecked}", access.chosen_by);
        let factory = ClientFactory::new(target)?;
        let watches = factory.client(Sharing::Separate)?;
        let (calls, shared) = match sharing {
            Sharing::Separate => (watches.clone(), 0),
            Sharing::Multiplexed | Sharing::Watches => (factory.client(Sharing::Multiplexed)?, SHARED),
        };
        let permits = || Arc::new(Semaphore::new(WATCHES as usize));
        let shared = (0..shared).map(|_| Ok((factory.client(Sharing::Watches)?, permits())));
        let shared_watches = shared.collect::<Result<_, kube::Error>>()?;
        let (server, context) = (target.config.cluster_url.to_string(), target.context.clone());
        let server = server.trim_end_matches('/').to_owned();
        Ok(Self { calls, shared_watches, watches, chosen_by, server, context, expires: None })
    }
}
