//! What was said about where the runtime listens.

/// The candidates for one socket, in the order in which they count. `None` = nothing was said there.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EndpointInputs {
    /// A flag, or `--set`.
    pub flag: Option<String>,
    /// The environment.
    pub environment: Option<String>,
    /// Our own files.
    pub config: Option<String>,
    /// Crictl's file.
    pub crictl: Option<String>,
    /// The kubelet's file, where one was named.
    pub kubelet: Option<String>,
}

// === impl EndpointInputs ===

impl EndpointInputs {
    /// The one that counts; `None` leaves the well-known sockets.
    pub fn chosen(&self) -> Option<&str> {
        let order = [&self.flag, &self.environment, &self.config, &self.crictl, &self.kubelet];
        order.into_iter().find_map(Option::as_deref)
    }
}
