//! The HTTP clients of a connection, made from the credentials of the moment.

use jiff::Timestamp;
use kube::client::Client;

use super::client::{Maker, Sharing};
use super::error::with_causes;
use super::target::{Target, check_token};
use super::{Access, ExecPlugins, KubernetesError};

/// The clients of a connection, and why these credentials were chosen.
pub(super) struct Clients {
    calls: Client,
    watches: Client,
    pub(super) chosen_by: String,
    /// When the credentials expire.
    pub(super) expires: Option<Timestamp>,
}

// === impl Clients ===

impl Clients {
    /// Makes the clients from files that were read. Runs the exec plugin, if there is one.
    pub(super) async fn new(access: &Access, mut target: Target, sharing: Sharing) -> Result<Self, KubernetesError> {
        let unusable = |cause| {
            KubernetesError::UseCredentials(format!("{}: its credentials cannot be used: {cause}", access.chosen_by))
        };
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

    /// Returns the client for watches, which stay open.
    pub(super) fn watches(&self) -> &Client {
        &self.watches
    }

    /// Returns whether the credentials expired.
    pub(super) fn is_expired(&self, now: Option<Timestamp>) -> bool {
        self.expires.zip(now).is_some_and(|(expires, now)| now >= expires)
    }

    /// One client for everything.
    pub(super) fn of(client: Client, chosen_by: String) -> Self {
        Self { calls: client.clone(), watches: client, chosen_by, expires: None }
    }

    /// Makes the clients. If calls share a TCP connection, watches have others: a watch that is read slowly must not stop
    /// the calls.
    fn open(target: &Target, sharing: Sharing, access: &Access) -> Result<Self, kube::Error> {
        let insecure = target.config.accept_invalid_certs;
        let unchecked = if insecure { ", without verifying the server's certificate" } else { "" };
        let chosen_by = format!("{}{unchecked}", access.chosen_by);
        let maker = Maker::new(target)?;
        let watches = maker.client(Sharing::Separate)?;
        let calls = match sharing {
            Sharing::Separate => watches.clone(),
            Sharing::Multiplexed => maker.client(sharing)?,
        };
        Ok(Self { calls, watches, chosen_by, expires: None })
    }
}
