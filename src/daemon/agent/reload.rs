//! Loads the settings of the agent again.

use super::monitoring::Monitoring;
use crate::config::{Loaded, MetricsSettings, Settings, StateSettings};
use crate::daemon::process::notify::Notifier;
use crate::daemon::reload::{NOT_RELOADED, differing, load_again, needing_restart};

/// Loads the settings again. The error is the text of their faults.
pub type Load<'a> = &'a mut dyn FnMut() -> Result<Loaded, String>;

/// The settings in force, and how they are loaded again.
pub(super) struct Reloads<'a> {
    pub(super) load: Load<'a>,
    pub(super) in_force: Settings,
}

// === impl Reloads ===

impl Reloads<'_> {
    /// Loads the settings again, and notifies the service manager. `None` = they are invalid, which is logged, or the
    /// same: those in force remain.
    pub(super) fn reload(&mut self, notifier: &Notifier, monitoring: &Monitoring) -> Option<Loaded> {
        notifier.reloading();
        let loaded = load_again(&mut self.load);
        monitoring.reloaded(loaded.as_ref().err());
        let Ok(mut loaded) = loaded else {
            notifier.ready(NOT_RELOADED);
            return None;
        };
        let applied = applicable(&self.in_force, &loaded.settings);
        tracing::info!(changed = differing(&self.in_force, &applied, is_of_agent), "settings reloaded");
        match needing_restart(&applied, &loaded.settings, is_of_agent).as_str() {
            "" => notifier.ready("settings reloaded"),
            keys => notifier.ready(&format!("settings reloaded; need a restart: {keys}")),
        }
        let has_changed = applied != self.in_force;
        loaded.settings.clone_from(&applied);
        self.in_force = applied;
        has_changed.then_some(loaded)
    }
}

/// Returns the new settings without those that need a restart: what an agent holds or listens on from its start.
fn applicable(in_force: &Settings, new: &Settings) -> Settings {
    let StateSettings { path, lock, .. } = in_force.state.clone();
    let new = new.clone();
    Settings {
        state: StateSettings { path, lock, ..new.state },
        metrics: MetricsSettings { address: in_force.metrics.address, ..new.metrics },
        log_format: in_force.log_format,
        ..new
    }
}

/// Returns whether a node that is connected for one of these settings serves for the other.
pub(super) fn is_same_node(one: &Settings, other: &Settings) -> bool {
    let parts = |settings: &Settings| {
        let Settings { node, host_root, kubelet_root, networks_root, .. } = settings.clone();
        (node, host_root, kubelet_root, networks_root)
    };
    parts(one) == parts(other) && one.runtime == other.runtime && one.pods == other.pods
}

fn is_of_agent(key: &str) -> bool {
    !key.starts_with("controller.") && !key.starts_with("pod_gc.")
}
