//! The shutdown request, which is checked between two actions.

use std::time::Duration;

use tokio::sync::watch;

/// Sends the shutdown request.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Receives the shutdown request.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

/// Returns a connected pair of sender and receiver.
pub fn stop() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Stop(receiver))
}

// === impl Stopper ===

impl Stopper {
    /// Requests a shutdown. The action in progress ends, and no other begins.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

// === impl Stop ===

impl Stop {
    /// Returns a receiver that never receives a request.
    pub fn never() -> Self {
        stop().1
    }

    /// Returns whether a shutdown was requested.
    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until a shutdown is requested. Waits forever if the sender was dropped without a request.
    pub async fn wait(&self) {
        if self.0.clone().wait_for(|is_set| *is_set).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until a shutdown is requested, and then for `wait`.
    pub async fn expired(&self, wait: Duration) {
        self.wait().await;
        tokio::time::sleep(wait).await;
    }
}
