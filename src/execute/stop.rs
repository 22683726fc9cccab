//! The wish to stop, which is noticed between two actions.

use std::time::Duration;

use tokio::sync::watch;

/// Makes the wish known.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Tells whether there is the wish.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

/// A pair of the two.
pub fn stop() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Stop(receiver))
}

// === impl Stopper ===

impl Stopper {
    /// The action in hand is ended, and no other is begun.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

// === impl Stop ===

impl Stop {
    /// For whom nobody will stop.
    pub fn never() -> Self {
        stop().1
    }

    /// Says whether to stop.
    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until there is the wish: for ever if nobody is left to have it.
    pub async fn wait(&self) {
        if self.0.clone().wait_for(|is_set| *is_set).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until there is the wish, and then for `wait`.
    pub async fn expired(&self, wait: Duration) {
        self.wait().await;
        tokio::time::sleep(wait).await;
    }
}
