//! The HTTP client for an API server.
//!
//! kube's own client has no HTTP/2. For some hundred short calls per second, one connection costs the API server and
//! kubegc far less than many, and so it is for some hundred watches. A server that offers only HTTP/1.1 has a connection
//! for each call in flight and for each watch.
//!
//! Watches have other connections than calls, and few at most share one ([`WATCHES`]): a server may limit the streams of a
//! connection to 100, and hyper waits for a free one for ever. A watch that is read slowly stops no other one, because the
//! window of the connection holds those of all its streams.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, Write};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Intercept;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Error;
use kube::client::{Body, Client, ClientBuilder, ConfigExt as _};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use tower::util::{MapErrLayer, option_layer};
use tower::{BoxError, Service};

use crate::kubernetes::credentials::target::Target;

/// A connection without traffic is checked so often, and is closed if no answer comes in time: client-go's values.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(15);
/// The most watches that share a connection. API servers since 1.27 permit 100 streams, and earlier ones 250.
pub(super) const WATCHES: u32 = 80;
/// What a server may send of one watch before it is read.
const WATCH_WINDOW: u32 = 128 << 10;
/// A TCP connection opens within this time.
const CONNECT: Duration = Duration::from_secs(10);

/// How requests share TCP connections.
#[derive(Clone, Copy)]
pub(in crate::kubernetes) enum Sharing {
    /// All requests share one connection, if the server has HTTP/2.
    Multiplexed,
    /// As `Multiplexed`, for at most [`WATCHES`] watches.
    Watches,
    /// Each request in flight has its own.
    Separate,
}

/// Makes the clients for a server.
pub(in crate::kubernetes) struct ClientFactory<'a> {
    target: &'a Target,
    tls: ClientConfig,
    /// The name that the server's certificate must contain, if it is not the host.
    name: Option<ServerName<'static>>,
}

/// Opens TCP connections. Each packet is sent at once: a change is two of them, and the server may wait 40 ms before it
/// acknowledges the first.
fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp
}

fn build<C>(connector: HttpsConnector<C>, target: &Target, sharing: Sharing) -> Result<Client, Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    let mut builder = legacy::Client::builder(TokioExecutor::new());
    builder.timer(TokioTimer::new()).http2_keep_alive_interval(PING).http2_keep_alive_timeout(PONG);
    if let Sharing::Watches = sharing {
        builder.http2_initial_stream_window_size(WATCH_WINDOW);
        builder.http2_initial_connection_window_size(WATCH_WINDOW * WATCHES);
    }
    let client: legacy::Client<_, Body> = builder.build(connector);
    let config = &target.config;
    let builder = ClientBuilder::new(client, config.default_namespace.clone())
        .with_layer(&MapErrLayer::new(BoxError::from))
        .with_layer(&config.extra_headers_layer()?)
        .with_layer(&option_layer(config.auth_layer()?))
        .with_layer(&config.base_uri_layer());
    Ok(builder.build())
}

fn tunnel<C>(proxy: &Intercept, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.uri().clone(), connector);
    match proxy.basic_auth() {
        Some(credentials) => tunnel.with_auth(credentials.clone()),
        None => tunnel,
    }
}

fn socks<C>(proxy: &Intercept, connector: C) -> SocksV5<C> {
    let socks = SocksV5::new(proxy.uri().clone(), connector);
    match proxy.raw_auth() {
        Some((user, password)) => socks.with_auth(user.to_owned(), password.to_owned()),
        None => socks,
    }
}

// === impl ClientFactory ===

impl<'a> ClientFactory<'a> {
    pub(in crate::kubernetes) fn new(target: &'a Target) -> Result<Self, Error> {
        let mut tls = target.config.rustls_client_config()?;
        if let Some(identity) = &target.identity {
            tls.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(Arc::clone(identity)));
        }
        if let Some(verifier) = &target.verifier {
            tls.dangerous().set_certificate_verifier(Arc::clone(verifier));
        }
        let name = target.config.tls_server_name.clone().map(ServerName::try_from).transpose();
        Ok(Self { target, tls, name: name.map_err(|error| Error::Service(error.into()))? })
    }

    /// Makes a client.
    pub(in crate::kubernetes) fn client(&self, sharing: Sharing) -> Result<Client, Error> {
        let tcp = tcp();
        match &self.target.proxy {
            None => build(self.over(tcp, sharing), self.target, sharing),
            Some(proxy) => match proxy.uri().scheme_str() {
                Some("https") => {
                    let tcp = self.over(tcp, Sharing::Separate);
                    build(self.over(tunnel(proxy, tcp), sharing), self.target, sharing)
                }
                Some("http") => build(self.over(tunnel(proxy, tcp), sharing), self.target, sharing),
                _ => build(self.over(socks(proxy, tcp), sharing), self.target, sharing),
            },
        }
    }

    /// Adds TLS to a connector, for addresses with the scheme `https`. Client and server agree on the protocol.
    fn over<C>(&self, connector: C, sharing: Sharing) -> HttpsConnector<C> {
        let mut builder = HttpsConnectorBuilder::new().with_tls_config(self.tls.clone()).https_or_http();
        if let Some(name) = &self.name {
            builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name.clone()));
        }
        match sharing {
            Sharing::Multiplexed | Sharing::Watches => builder.enable_all_versions().wrap_connector(connector),
            Sharing::Separate => builder.enable_http1().wrap_connector(connector),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_does_not_wait_for_the_acknowledgment_of_a_packet() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("https://{}", listener.local_addr().unwrap()).parse().unwrap();
        assert!(tcp().call(server).await.unwrap().inner().nodelay().unwrap());
    }
}
