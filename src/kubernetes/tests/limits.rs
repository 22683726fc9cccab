//! The total time and the total size of an answer (G5).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::channel::Channel;
use kube::client::{Body, Client};
use serde_json::{Value, json};
use tokio::time::timeout;
use tower::{BoxError, service_fn};

use super::*;
use crate::kubernetes::{ApiResource, ClusterPod, Connection, Form, KubernetesError, list_metadata, list_objects};

/// An API server whose answers never end: some bytes each second.
fn trickling() -> Connection {
    let serve = service_fn(|_: Request<Body>| async {
        let (mut body, channel) = Channel::<Bytes, BoxError>::new(1);
        tokio::spawn(async move {
            while body.send_data(" \n".into()).await.is_ok() {
                pass(seconds(1)).await;
            }
        });
        Ok::<_, BoxError>(Response::new(channel))
    });
    Connection::through(Client::new(serve, "default"), "a test")
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_trickles_ends_after_its_total_time() {
    let (connection, begun) = (trickling(), Instant::now());
    let request = Request::get("/x").body(Vec::new()).unwrap();
    let answer = timeout(seconds(3600), connection.request::<Value>("read x", request, seconds(15))).await;
    let error = answer.expect("it is held for ever").unwrap_err();
    assert!(matches!(error, KubernetesError::Unanswered { .. }), "{error}");
    assert!(begun.elapsed() <= seconds(16), "{:?}", begun.elapsed());
}
