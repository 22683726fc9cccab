//! The HTTP clients of a connection, made from the credentials of the moment.

use std::time::Duration;

use jiff::Timestamp;
use kube::client::Client;

use super::client::{Sharing, client};
use super::error::with_causes;
use super::target::{Target, check_token};
use super::{Access, ExecPlugins, KubernetesError};

const CONNECT: Duration = Duration::from_secs(10);

/// The clients of a connection, and why these credentials were chosen.
pub(super) struct Clients {
    calls: Client,
    watches: Client,
    pub(super) chosen_by: String,
    /// When the credentials expire.
    pub(super) expires: Option<Timestamp>,
}

/// Clients before the exec plugin ran, if the credentials come from one. All files are read.
pub(super) enum Prepared {
    Ready(Clients),
    Target { access: Access, target: Box<Target>, sharing: Sharing },
}

// === impl Prepared ===

impl Prepared {
    /// Reads the files of the credentials.
    pub(super) fn read(access: Access, sharing: Sharing) -> Result<Self, KubernetesError> {
        let target = Box::new(access.target()?);
        Ok(Self::Target { access, target, sharing })
    }

    /// Runs the exec plugin, if there is one, and makes the clients.
    pub(super) async fn clients(self) -> Result<Clients, KubernetesError> {
        let (access, mut target, sharing) = match self {
            Self::Ready(clients) => return Ok(clients),
            Self::Target { access, target, sharing } => (access, target, sharing),
        };
        let mut expires = None;
        if let Some(plugin) = target.plugin.take() {
            let credential = plugin.run(access.plugins == ExecPlugins::ByPerson).await;
            let credential = credential.map_err(|cause| unusable(&access, cause))?;
            expires = credential.expires;
            target.add(credential).map_err(|cause| unusable(&access, cause))?;
        }
        check_token(&target.config.auth_info).map_err(|cause| unusable(&access, cause))?;
        let made = Clients::open(&target, sharing, &access);
        made.map(|clients| Clients { expires, ..clients }).map_err(|error| unusable(&access, with_causes(&error)))
    }
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
        let watches = client(target, CONNECT, Sharing::Separate)?;
        let calls = match sharing {
            Sharing::Separate => watches.clone(),
            Sharing::Multiplexed => client(target, CONNECT, sharing)?,
        };
        Ok(Self { calls, watches, chosen_by, expires: None })
    }
}

fn unusable(access: &Access, cause: String) -> KubernetesError {
    KubernetesError::BuildClient { from: access.chosen_by.clone(), cause }
}
