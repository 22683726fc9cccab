//! Resolves the image names in pod specs.
//!
//! Only the runtime can resolve them: its aliases may map `busybox` to another registry than Docker's. It resolves each
//! name once, and again after the list of images has changed.
//!
//! A name that cannot be resolved protects every image of the same last part, so one bad name does not stop image
//! collection.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::stream::{self, StreamExt};

use crate::cri::{CriError, RuntimeReader};
use crate::model::{Image, ImageId, Seen, Snapshot, full_image_name};

/// The most calls at the same time.
const AT_ONCE: usize = 16;
/// The most calls of one pass: what pods name is up to tenants. The next pass resolves more names.
const MOST_CALLS: usize = if cfg!(test) { 50 } else { 2_000 };

#[derive(Debug, Default)]
pub struct ImageNames {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The fingerprint of the list of images that the results belong to.
    list: u64,
    ids: HashMap<String, Option<ImageId>>,
}

// === impl ImageNames ===

impl ImageNames {
    /// Resolves every name that a pod of the snapshot uses, a pod of the last complete list, or a pull in progress. A full name
    /// that the list of images has needs no call: no alias applies to it. The first time-out ends it: a runtime that hangs would
    /// cost a deadline for each name.
    pub async fn resolve(&self, reader: &RuntimeReader, snapshot: &mut Snapshot) {
        let Seen::Seen(images) = &snapshot.images else { return };
        self.forget_other_lists(images);
        let names = names(snapshot);
        self.learn_from_list(images, &names);
        let unknown = names.clone().into_iter().filter(|name| !self.known().ids.contains_key(name));
        let calls = stream::iter(unknown).take(MOST_CALLS).map(|name| async move { (reader.image(&name).await, name) });
        let mut answers = pin!(calls.buffer_unordered(AT_ONCE));
        let (mut failed, mut hang) = (BTreeMap::new(), None);
        while hang.is_none()
            && let Some((answer, name)) = answers.next().await
        {
            match answer {
                Ok(image) => self.learn(name, image),
                Err(error) if error.is_hang() => hang = Some(error.to_string()),
                Err(error) => drop(failed.insert(name, error.to_string())),
            }
        }
        let too_many = || format!("not requested: this pass has more than {MOST_CALLS} new names");
        let unknown = |name: &String| failed.get(name).or(hang.as_ref()).cloned().unwrap_or_else(too_many);
        let known = self.known();
        let answer =
            |name: &String| known.ids.get(name).cloned().map_or_else(|| Seen::NotSeen(unknown(name)), Seen::Seen);
        snapshot.resolved_images = names.iter().map(|name| (name.clone(), answer(name))).collect();
    }

    /// Returns the image that a name resolves to; `None` = no image on this node. Calls the runtime for a new name.
    ///
    /// # Errors
    ///
    /// The runtime fails the call.
    pub async fn id_of(&self, reader: &RuntimeReader, name: &str) -> Result<Option<ImageId>, CriError> {
        let known = self.known().ids.get(name).cloned();
        if let Some(id) = known {
            return Ok(id);
        }
        let image = reader.image(name).await?;
        let id = image.as_ref().map(|image| image.id.clone());
        self.learn(name.to_owned(), image);
        Ok(id)
    }

    fn learn_from_list(&self, images: &[Image], names: &BTreeSet<String>) {
        let mut known = self.known();
        for image in images {
            let listed = image.tags.iter().chain(&image.digests).filter(|name| full_image_name(name) == name.as_str());
            for name in listed.filter(|name| names.contains(*name)) {
                known.ids.insert(name.clone(), Some(image.id.clone()));
            }
        }
    }

    fn learn(&self, name: String, image: Option<Image>) {
        self.known().ids.insert(name, image.map(|image| image.id));
    }

    fn forget_other_lists(&self, images: &[Image]) {
        let list = fingerprint(images);
        let mut known = self.known();
        if known.list != list {
            *known = Known { list, ids: HashMap::new() };
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn names(snapshot: &Snapshot) -> BTreeSet<String> {
    let listed = snapshot.pods.as_ref().into_iter().flat_map(|list| &list.pods);
    let remembered = snapshot.memory.named_images.iter().flat_map(|known| known.pods.iter());
    let of_pods = listed.chain(remembered).flat_map(|pod| &pod.images);
    of_pods.chain(&snapshot.pulling).filter(|name| !name.is_empty()).cloned().collect()
}

/// Returns a number that changes when an image or one of its names is added or removed. The order does not matter.
fn fingerprint(images: &[Image]) -> u64 {
    let of_one = |image: &Image| {
        let mut hasher = DefaultHasher::new();
        (&image.id, &image.tags, &image.digests).hash(&mut hasher);
        hasher.finish()
    };
    images.iter().map(of_one).fold(images.len() as u64, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tonic::Code;

    use super::*;
    use crate::cri::CriOptions;
    use crate::model::{Memory, Pod, PodList};
    use crate::sim::{Fault, MIB, Node, Rpc, Sim, Times};

    const QUAY: &str = "quay.io/library/busybox:latest";

    /// Starts a node whose runtime resolves `busybox` to Quay.
    fn sim() -> Sim {
        Sim::start(Node::new().image(QUAY, &[("busybox", MIB)]).alias("busybox", QUAY)).unwrap()
    }

    fn reader(sim: &Sim) -> RuntimeReader {
        let options = CriOptions { read_timeout: Duration::from_secs(2), ..CriOptions::default() };
        RuntimeReader::new(&sim.endpoint(), &sim.endpoint(), options)
    }

    /// Returns a snapshot of the node's images, with pods that name `named`.
    async fn snapshot(sim: &Sim, named: &[&str]) -> Snapshot {
        let mut snapshot: Snapshot =
            serde_json::from_value(serde_json::json!({ "taken_at": "2026-11-21T12:00:00Z" })).unwrap();
        snapshot.images = reader(sim).images().await.into();
        let images = named.iter().map(|&name| name.to_owned()).collect();
        snapshot.pods = Seen::Seen(PodList { pods: vec![Pod { images, ..Pod::default() }], ..PodList::default() });
        snapshot
    }

    fn requested(sim: &Sim) -> Vec<String> {
        let mut names = sim.calls_of(Rpc::ImageStatus);
        names.sort();
        names
    }

    #[tokio::test]
    async fn a_name_means_what_the_runtime_resolves_it_to() {
        let sim = sim();
        let mut snapshot = snapshot(&sim, &["busybox", "absent:1"]).await;
        ImageNames::default().resolve(&reader(&sim), &mut snapshot).await;
        let id = sim.state().image_id(QUAY).map(ImageId::from);
        assert_eq!(snapshot.resolved_images["busybox"], Seen::Seen(id));
        assert_eq!(snapshot.resolved_images["absent:1"], Seen::Seen(None));
    }

    #[tokio::test]
    async fn names_are_queried_once_until_the_images_change() {
        let (sim, names) = (sim(), ImageNames::default());
        for _ in 0..3 {
            names.resolve(&reader(&sim), &mut snapshot(&sim, &["busybox", "busybox", "absent:1"]).await).await;
        }
        names.id_of(&reader(&sim), "busybox").await.unwrap();
        assert_eq!(requested(&sim), ["absent:1", "busybox"]);
        sim.state().also(|node| node.image("docker.io/library/new:1", &[("new", MIB)])).unwrap();
        names.resolve(&reader(&sim), &mut snapshot(&sim, &["busybox"]).await).await;
        assert_eq!(requested(&sim), ["absent:1", "busybox", "busybox"]);
    }

    /// A pod may name thousands of images.
    #[tokio::test]
    async fn listed_names_need_no_call_and_other_calls_are_limited() {
        let (sim, names) = (sim(), ImageNames::default());
        let named: Vec<_> = (0..70).map(|number| format!("absent:{number:02}")).collect();
        let named: Vec<_> = named.iter().map(String::as_str).chain([QUAY]).collect();
        let mut first = snapshot(&sim, &named).await;
        names.resolve(&reader(&sim), &mut first).await;
        assert!(first.resolved_images[QUAY].as_ref().is_some_and(Option::is_some), "{first:?}");
        assert_eq!(requested(&sim).len(), MOST_CALLS);
        assert!(
            first.resolved_images["absent:69"].cause().unwrap().contains("more than 50 new names"),
            "the last ones"
        );
        let mut second = snapshot(&sim, &named).await;
        names.resolve(&reader(&sim), &mut second).await;
        assert!(
            second.resolved_images.values().all(|answer| answer.as_ref().is_some()),
            "the next pass has the others"
        );
        assert_eq!(requested(&sim).len(), 70);
    }

    #[tokio::test]
    async fn images_of_remembered_pods_and_pulls_are_resolved() {
        let (sim, names) = (sim(), ImageNames::default());
        let mut snapshot = snapshot(&sim, &[]).await;
        snapshot.pulling = vec!["pulled:1".to_owned()];
        let pods = vec![Pod { images: vec!["busybox".to_owned()], ..Pod::default() }];
        let named_images = Some(crate::model::NamedImages { as_of: snapshot.taken_at, pods: pods.into() });
        snapshot.memory = Memory { named_images, ..Memory::default() };
        names.resolve(&reader(&sim), &mut snapshot).await;
        assert_eq!(snapshot.resolved_images.keys().collect::<Vec<_>>(), ["busybox", "pulled:1"]);
    }

    #[tokio::test]
    async fn an_unresolved_name_has_a_cause_and_is_retried() {
        let (sim, names) = (sim(), ImageNames::default());
        sim.fault(Rpc::ImageStatus, Fault::Fail(Code::Internal), Times::N(1));
        let mut first = snapshot(&sim, &["busybox"]).await;
        names.resolve(&reader(&sim), &mut first).await;
        assert!(first.resolved_images["busybox"].cause().unwrap().contains("ImageStatus"), "{first:?}");
        let mut second = snapshot(&sim, &["busybox"]).await;
        names.resolve(&reader(&sim), &mut second).await;
        assert!(second.resolved_images["busybox"].as_ref().is_some());
    }

    #[tokio::test]
    async fn a_hanging_runtime_is_queried_for_few_names() {
        let sim = sim();
        sim.fault(Rpc::ImageStatus, Fault::Hang, Times::Forever);
        let many: Vec<_> = (0..100).map(|n| format!("image:{n}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        let mut snapshot = snapshot(&sim, &many).await;
        ImageNames::default().resolve(&reader(&sim), &mut snapshot).await;
        assert!(snapshot.resolved_images.values().all(|answer| answer.cause().is_some_and(|cause| !cause.is_empty())));
        assert_eq!((snapshot.resolved_images.len(), requested(&sim).len()), (100, AT_ONCE));
    }
}
