//! The HTTP clients of a connection, made from the credentials of the moment.

use std::time::Duration;

use kube::client::Client;
use kube::config::Config;

use super::error::with_causes;
use super::{Access, KubernetesError, multiplexed};

const CONNECT: Duration = Duration::from_secs(10);

/// The clients of a connection, and why these credentials were chosen.
pub(super) struct Clients {
    calls: Client,
    watches: Client,
    pub(super) chosen_by: String,
}

// === impl Clients ===

impl Clients {
    /// Returns the client for calls, which end soon.
    pub(super) fn calls(&self) -> &Client {
        &self.calls
    }

    /// Returns the client for watches, which stay open.
    pub(super) fn watches(&self) -> &Client {
        &self.watches
    }

    /// One client for everything.
    pub(super) fn of(client: Client, chosen_by: String) -> Self {
        Self { calls: client.clone(), watches: client, chosen_by }
    }

    /// Makes a client that opens a TCP connection for each request in flight.
    pub(super) fn open(access: &Access) -> Result<Self, KubernetesError> {
        let (config, chosen_by) = config(access)?;
        Ok(Self::of(Client::try_from(config).map_err(|error| unusable(access, &error))?, chosen_by))
    }

    /// Makes a client whose calls share a TCP connection, and another one for watches: a watch that is read slowly must
    /// not stop the calls. A proxy has one client for both, because it decides about the connections.
    pub(super) fn open_multiplexed(access: &Access) -> Result<Self, KubernetesError> {
        let (config, chosen_by) = config(access)?;
        let watches = Client::try_from(config.clone()).map_err(|error| unusable(access, &error))?;
        if config.proxy_url.is_some() {
            return Ok(Self::of(watches, chosen_by));
        }
        let calls = multiplexed::client(&config, CONNECT).map_err(|error| unusable(access, &error))?;
        Ok(Self { calls, watches, chosen_by })
    }
}

fn config(access: &Access) -> Result<(Config, String), KubernetesError> {
    let mut config = access.config()?;
    config.connect_timeout = Some(CONNECT);
    // The caller sets the time limits, and kubegc does its own retries.
    (config.read_timeout, config.default_retry) = (None, false);
    let unchecked = if config.accept_invalid_certs { ", which has the server's certificate not checked" } else { "" };
    Ok((config, format!("{}{unchecked}", access.chosen_by)))
}

fn unusable(access: &Access, error: &kube::Error) -> KubernetesError {
    KubernetesError::BuildClient { from: access.chosen_by.clone(), cause: with_causes(error) }
}
