//! The monitor of a resource after an older state of the API server was restored.

use std::sync::Mutex;

use tokio::sync::Semaphore;

use super::*;
use crate::kubernetes::{ApiResource, Follower, MetadataOnly, Monitor, MonitorEvent};
use crate::testing::fake_api::Call;

/// Counts the lists that begin, and the interruptions.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<(usize, Vec<String>)>>);

impl Follower<MetadataOnly> for Counts {
    fn show(&mut self, event: MonitorEvent<'_, MetadataOnly>) {
        let mut counts = self.0.lock().unwrap();
        match event {
            MonitorEvent::ListBegins => counts.0 += 1,
            MonitorEvent::Failed(error, _) => counts.1.push(error.to_string()),
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_backward_version_makes_a_monitor_relist() {
    let api = FakeApi::new().with_pods(&["a"]);
    let lists = Arc::new(Semaphore::new(1));
    let monitor = Monitor::new(shared(&api), &ApiResource::pods(), Timing::default(), lists);
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
