//! What the configurations of images say. An id is the digest of its configuration, so each is read once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::stream::{self, StreamExt};

use crate::cri::RuntimeReader;
use crate::model::{Image, ImageDetails, ImageId, Seen, Snapshot};

/// The most calls at the same time.
const AT_ONCE: usize = 8;

#[derive(Debug, Default)]
pub struct DetailsReader {
    known: Mutex<HashMap<ImageId, ImageDetails>>,
}

// === impl DetailsReader ===

impl DetailsReader {
    /// Adds the configuration of each image that the runtime lists. A runtime that hangs or is unreachable ends this: each
    /// further call would cost a deadline. What is not known is read again in the next pass.
    pub async fn fill(&self, reader: &RuntimeReader, snapshot: &mut Snapshot) {
        let Seen::Seen(images) = &snapshot.images else { return };
        self.forget_unlisted(images);
        let failed = self.read(reader, self.lacking(images)).await;
        let known = self.known();
        let answer = |id: &ImageId| {
            let unknown = || Seen::NotSeen(failed.get(id).cloned().unwrap_or_else(|| "it was not read".to_owned()));
            known.get(id).cloned().map_or_else(unknown, Seen::Seen)
        };
        snapshot.image_details = images.iter().map(|image| (image.id.clone(), answer(&image.id))).collect();
    }

    /// Reads these configurations, and returns why some are unknown.
    async fn read(&self, reader: &RuntimeReader, ids: Vec<ImageId>) -> BTreeMap<ImageId, String> {
        let calls = stream::iter(ids).map(|id| async move { (reader.image_details(&id).await, id) });
        let mut answers = pin!(calls.buffer_unordered(AT_ONCE));
        let mut failed = BTreeMap::new();
        while let Some((answer, id)) = answers.next().await {
            match answer {
                Ok(Some(details)) => drop(self.known().insert(id, details)),
                Ok(None) => drop(failed.insert(id, "it was removed meanwhile".to_owned())),
                Err(error) => {
                    let is_last = error.is_of_runtime();
                    failed.insert(id, error.to_string());
                    if is_last {
                        break;
                    }
                }
            }
        }
        failed
    }

    fn lacking(&self, images: &[Image]) -> Vec<ImageId> {
        let known = self.known();
        images.iter().map(|image| &image.id).filter(|id| !known.contains_key(*id)).cloned().collect()
    }

    fn forget_unlisted(&self, images: &[Image]) {
        let listed: HashSet<&ImageId> = images.iter().map(|image| &image.id).collect();
        self.known().retain(|id, _| listed.contains(id));
    }

    fn known(&self) -> MutexGuard<'_, HashMap<ImageId, ImageDetails>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tonic::Code;

    use super::*;
    use crate::cri::CriOptions;
    use crate::sim::{Fault, MIB, Node, Rpc, Sim, Times};

    const APP: &str = "r.example/app:1";

    fn node() -> Sim {
        let labelled =
            Node::new().image(APP, &[("app", MIB)]).image_config("2026-11-01T00:00:00Z", &[("keep", "true")]);
        Sim::start(labelled.image("r.example/plain:1", &[("plain", MIB)])).unwrap()
    }

    fn reader(sim: &Sim) -> RuntimeReader {
        let options = CriOptions { read_timeout: Duration::from_secs(2), ..CriOptions::default() };
        RuntimeReader::new(&sim.endpoint(), &sim.endpoint(), options)
    }

    async fn filled(details: &DetailsReader, sim: &Sim) -> Snapshot {
        let mut snapshot: Snapshot =
            serde_json::from_value(serde_json::json!({ "taken_at": "2026-11-21T12:00:00Z" })).unwrap();
        snapshot.images = reader(sim).images().await.into();
        details.fill(&reader(sim), &mut snapshot).await;
        snapshot
    }

    #[tokio::test]
    async fn each_configuration_is_read_once() {
        let (sim, details) = (node(), DetailsReader::default());
        for _ in 0..3 {
            let snapshot = filled(&details, &sim).await;
            let app = snapshot.image_details[&ImageId::from(sim.state().image_id(APP).unwrap())].as_ref().unwrap();
            assert_eq!(app.labels, Some([("keep".to_owned(), "true".to_owned())].into()));
            assert_eq!(app.created_at, Some("2026-11-01T00:00:00Z".parse().unwrap()));
            assert_eq!(snapshot.image_details.len(), 2);
        }
        assert_eq!(sim.calls_of(Rpc::ImageStatus).len(), 2);
        sim.state().remove_image(APP).unwrap();
        assert_eq!((filled(&details, &sim).await.image_details.len(), details.known().len()), (1, 1));
    }

    #[tokio::test]
    async fn a_failure_is_of_its_own_image_and_read_again() {
        let (sim, details) = (node(), DetailsReader::default());
        sim.fault(Rpc::ImageStatus, Fault::Fail(Code::Internal), Times::N(1));
        let unknown =
            |snapshot: Snapshot| snapshot.image_details.into_values().filter(|one| one.as_ref().is_none()).count();
        assert_eq!(unknown(filled(&details, &sim).await), 1);
        assert_eq!(unknown(filled(&details, &sim).await), 0);
    }

    #[tokio::test]
    async fn a_runtime_that_hangs_costs_few_calls() {
        let many = (0..100).fold(Node::new(), |node, n| node.image(&format!("r.example/image:{n}"), &[]));
        let (sim, details) = (Sim::start(many).unwrap(), DetailsReader::default());
        sim.fault(Rpc::ImageStatus, Fault::Hang, Times::Forever);
        let snapshot = filled(&details, &sim).await;
        assert!(snapshot.image_details.values().all(|one| one.cause().is_some_and(|cause| !cause.is_empty())));
        assert_eq!(sim.calls_of(Rpc::ImageStatus).len(), AT_ONCE);
    }
}
