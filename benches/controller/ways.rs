//! The ways in which an API server lists the metadata of many objects, by a client that only receives them.

use std::time::Instant;

use http_body_util::BodyExt as _;
use kube::client::{Body, Client};

const PATH: &str = "/api/v1/configmaps";
const JSON: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const JSON_ONE: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// One way to list.
pub struct Way {
    pub name: &'static str,
    /// The minor version of Kubernetes that knows it.
    pub since: u32,
    query: &'static str,
    form: &'static str,
}

/// The first one is that of kubegc, after two smaller pages.
pub const WAYS: [Way; 7] = [
    Way { name: "pages of 2,000", since: 0, query: "limit=2000", form: JSON },
    Way { name: "pages of 500", since: 0, query: "limit=500", form: JSON },
    Way { name: "pages of 10,000", since: 0, query: "limit=10000", form: JSON },
    Way { name: "all at once", since: 0, query: "", form: JSON },
    Way { name: "all at once, from the cache", since: 0, query: "resourceVersion=0", form: JSON },
    Way {
        name: "a watch list",
        since: 32,
        query: "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan",
        form: JSON_ONE,
    },
    Way { name: "pages of 500, protobuf", since: 0, query: "limit=500", form: PROTOBUF },
];

// === impl Way ===

impl Way {
    /// Lists the objects; seconds.
    pub async fn seconds(&self, client: &Client) -> f64 {
        let (begun, mut token) = (Instant::now(), String::new());
        loop {
            let answer = self.answer(client, &token).await;
            match continued(&answer) {
                Some(next) => token = format!("&continue={next}"),
                None => return begun.elapsed().as_secs_f64(),
            }
        }
    }

    async fn answer(&self, client: &Client, token: &str) -> Vec<u8> {
        let uri = format!("{PATH}?{}{token}", self.query);
        let request = http::Request::get(uri).header("accept", self.form).body(Body::empty()).unwrap();
        let response = client.send(request).await.unwrap();
        assert!(response.status().is_success(), "{}: {}", self.name, response.status());
        let (mut body, mut answer) = (response.into_body(), Vec::new());
        while let Some(frame) = body.frame().await {
            answer.extend_from_slice(&frame.unwrap().into_data().unwrap_or_default());
            // A watch list has no end but its bookmark.
            if self.form == JSON_ONE && contains(&answer[answer.len().saturating_sub(4096)..], b"initial-events-end") {
                break;
            }
        }
        answer
    }
}

/// Returns the token of the next page. It is base64 in both forms, and begins with that of `{"v":"meta.k8s.io/v1",`.
fn continued(answer: &[u8]) -> Option<String> {
    let head = &answer[..answer.len().min(4096)];
    let at = head.windows(12).position(|window| window == b"eyJ2IjoibWV0")?;
    let is_token = |byte: &&u8| byte.is_ascii_alphanumeric() || b"-_=".contains(byte);
    Some(head[at..].iter().take_while(is_token).map(|byte| char::from(*byte)).collect())
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
