//! The container runtime interface: the only room that knows protobuf.
//!
//! Whoever observes gets a [`RuntimeReader`], which has no way to remove anything; only `execute` gets a
//! [`RuntimeWriter`]. Generated types stay inside, but for the simulated node, which serves them.

mod convert;
mod error;
mod reader;
mod writer;

pub use error::CriError;
pub use reader::{ContainerStatus, Only, RuntimeReader};
pub use writer::RuntimeWriter;

/// The generated types and stubs of `proto/cri.proto`, for `sim` and the tests alone.
#[doc(hidden)]
#[expect(clippy::all, clippy::pedantic, reason = "generated")]
pub mod generated {
    tonic::include_proto!("runtime.v1");
}

use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};

/// How the runtime is spoken to.
#[derive(Clone, Debug, PartialEq)]
pub struct CriOptions {
    /// The longest wait for one reading call. Default 2 min, as the kubelet's `runtimeRequestTimeout`.
    pub read_timeout: Duration,
    /// The longest wait for one removal. It is not cancelled then, only no longer waited for: a removal that is cut off
    /// strands records in containerd (containerd#13875). Default 10 min.
    pub removal_timeout: Duration,
    /// The largest message taken. Default 256 MiB; tonic's own 4 MiB are passed at about 3,000 containers.
    pub max_message_bytes: usize,
}

// === impl CriOptions ===

impl Default for CriOptions {
    fn default() -> Self {
        Self {
            read_timeout: Duration::from_mins(2),
            removal_timeout: Duration::from_mins(10),
            max_message_bytes: 256 << 20,
        }
    }
}

/// Opens nothing yet: the first call connects, and so does the first after a restart of the runtime.
fn channel(socket: &str) -> Channel {
    let path = socket.strip_prefix("unix://").unwrap_or(socket).to_owned();
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    }))
}
