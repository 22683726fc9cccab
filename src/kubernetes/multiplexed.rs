//! A client whose calls share one TCP connection (HTTP/2). A server that offers only HTTP/1.1 has a connection for each
//! call in flight.
//!
//! kube's own client has no HTTP/2. For some hundred short calls per second, one connection costs the API server and
//! kubegc far less than many.

use std::time::Duration;

use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Error;
use kube::client::{Body, Client, ClientBuilder, ConfigExt as _};
use kube::config::Config;
use rustls::pki_types::ServerName;
use tower::BoxError;
use tower::util::{MapErrLayer, option_layer};

/// A connection without traffic is checked so often, and is closed if no answer comes in time: client-go's values.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(15);

/// Makes a client. `config` must have no proxy.
pub(super) fn client(config: &Config, connect: Duration) -> Result<Client, Error> {
    let mut builder = legacy::Client::builder(TokioExecutor::new());
    builder.timer(TokioTimer::new()).http2_keep_alive_interval(PING).http2_keep_alive_timeout(PONG);
    let client: legacy::Client<_, Body> = builder.build(connector(config, connect)?);
    let builder = ClientBuilder::new(client, config.default_namespace.clone())
        .with_layer(&MapErrLayer::new(BoxError::from))
        .with_layer(&config.extra_headers_layer()?)
        .with_layer(&option_layer(config.auth_layer()?))
        .with_layer(&config.base_uri_layer());
    Ok(builder.build())
}

/// The server and the client agree on the protocol while they set up TLS.
fn connector(config: &Config, connect: Duration) -> Result<HttpsConnector<HttpConnector>, Error> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_connect_timeout(Some(connect));
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = ServerName::try_from(name.clone()).map_err(|error| Error::Service(error.into()))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(builder.enable_all_versions().wrap_connector(connector))
}
