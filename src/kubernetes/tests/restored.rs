//! The monitor of a resource after an older state of the API server was restored.

use std::sync::Mutex;

use tokio::sync::Semaphore;

use super::*;
use crate::kubernetes::{ApiResource, Form, KubernetesError, MetadataOnly, Monitor, Sink};
use crate::testing::fake_api::Call;

/// Counts the lists that begin, and the interruptions.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<(usize, Vec<String>)>>);

impl Sink<MetadataOnly> for Counts {
    fn list_begins(&mut self) {
        self.0.lock().unwrap().0 += 1;
    }

    fn seen(&mut self, _: MetadataOnly) {}

    fn deleted(&mut self, _: MetadataOnly) {}

    fn list_ends(&mut self) {}

    fn failed(&mut self, error: &KubernetesError) {
        self.0.lock().unwrap().1.push(error.to_string());
    }

    fn works(&mut self) {}
}

#[tokio::test(start_paused = true)]
async fn a_version_that_goes_backward_makes_a_monitor_list_again() {
    let api = FakeApi::new().with_pods(&["a"]);
    let monitor = Monitor {
        connection: shared(&api),
        resource: ApiResource::pods(),
        form: Form::Whole,
        timing: Timing::default(),
        lists: Arc::new(Semaphore::new(1)),
    };
    let counts = Counts::default();
    let task = tokio::spawn(monitor.run::<MetadataOnly>(counts.clone()));
    let mut server = api.watched().await;
    server.bookmark(205).await;
    server.bookmark(204).await;
    let _watched = api.watched().await;
    let (lists, failures) = counts.0.lock().unwrap().clone();
    assert_eq!((lists, api.count(Call::List)), (2, 2), "{failures:?}");
    assert!(failures[0].ends_with("the version 204 is older than the one before"), "{failures:?}");
    task.abort();
}
