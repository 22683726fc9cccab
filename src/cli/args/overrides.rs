//! Flags of one command that remove more than the settings do.

use crate::config::Loaded;
use crate::plan::Pressure;

/// Flags that remove more than the settings do.
#[derive(Debug, clap::Args)]
pub struct Overrides {
    /// Also remove dead containers and sandboxes of terminated pods
    ///
    /// Their log directories are kept.
    #[arg(long)]
    evict_terminated_pods: bool,
    /// Remove everything unused, as under disk pressure
    ///
    /// This implies --evict-terminated-pods and removes every unused image.
    #[arg(long)]
    pressure: bool,
}

// === impl Overrides ===

impl Overrides {
    /// Returns the settings with the flags applied.
    pub(in crate::cli) fn applied(&self, loaded: &Loaded) -> Loaded {
        let mut loaded = loaded.clone();
        let policy = &mut loaded.settings.policy;
        policy.containers.evict_terminated_pods |= self.evict_terminated_pods;
        if self.pressure {
            *policy = policy.under_pressure(Pressure::Requested {});
        }
        loaded
    }

    /// Returns whether the flags change the rules other than by pressure.
    pub(in crate::cli) fn evicts_only(&self) -> bool {
        self.evict_terminated_pods && !self.pressure
    }

    /// Returns the cause of the pressure that the plan shows, if the flags request it.
    pub(in crate::cli) fn pressure(&self) -> Option<Pressure> {
        self.pressure.then_some(Pressure::Requested {})
    }
}
