//! Flags that ask for more than the settings do.

use crate::config::Loaded;
use crate::plan::Pressure;

/// Flags that ask for more than the settings do.
#[derive(Debug, clap::Args)]
pub struct Overrides {
    /// Of pods that finished but still exist, take all dead containers and sandboxes; their log directories stay
    #[arg(long)]
    evict_terminated_pods: bool,
    /// As when a disk is short: --evict-terminated-pods, and every unused image
    #[arg(long)]
    pressure: bool,
}

// === impl Overrides ===

impl Overrides {
    /// The settings with what the flags ask for.
    pub(super) fn applied(&self, loaded: &Loaded) -> Loaded {
        let mut loaded = loaded.clone();
        let policy = &mut loaded.settings.policy;
        policy.containers.evict_terminated_pods |= self.evict_terminated_pods;
        if self.pressure {
            *policy = policy.under_pressure();
        }
        loaded
    }

    /// What the plan is to tell of it.
    pub(super) fn pressure(&self) -> Option<Pressure> {
        self.pressure.then_some(Pressure::Asked {})
    }
}
