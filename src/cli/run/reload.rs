//! Loads the settings again.

use super::monitoring::Monitoring;
use crate::cli::CliError;
use crate::config::{KEYS, Loaded, MetricsSettings, Settings, StateSettings};
use crate::daemon::notify::Notifier;

/// The warning about settings that a reload does not change.
pub(in crate::cli) const NEED_A_RESTART: &str = "changed settings need a restart";

/// The settings in force, and how they are loaded again.
pub(super) struct Reloads<F> {
    pub(super) load: F,
    pub(super) in_force: Settings,
}

// === impl Reloads ===

impl<F: FnMut() -> Result<Loaded, CliError>> Reloads<F> {
    /// Loads the settings again, and notifies the service manager. `None` = they are invalid, which is logged, or the
    /// same: those in force remain.
    pub(super) fn reload(&mut self, notifier: &Notifier, monitoring: &Monitoring) -> Option<Loaded> {
        notifier.reloading();
        let mut loaded = match (self.load)() {
            Ok(loaded) => loaded,
            Err(error) => {
                monitoring.reloaded(Err(&error));
                tracing::error!(%error, "settings not reloaded; the previous settings remain in force");
                notifier.ready("settings not reloaded; the previous settings remain in force");
                return None;
            }
        };
        monitoring.reloaded(Ok(()));
        let applied = applicable(&self.in_force, &loaded.settings);
        tracing::info!(changed = differing(&self.in_force, &applied, is_of_agent), "settings reloaded");
        let restart = differing(&applied, &loaded.settings, is_of_agent);
        if restart.is_empty() {
            notifier.ready("settings reloaded");
        } else {
            tracing::warn!(settings = restart, "{NEED_A_RESTART}");
            notifier.ready(&format!("settings reloaded; need a restart: {restart}"));
        }
        let has_changed = applied != self.in_force;
        loaded.settings.clone_from(&applied);
        self.in_force = applied;
        has_changed.then_some(loaded)
    }
}

/// Returns the new settings without those that need a restart: what an agent holds or listens on from its start.
fn applicable(in_force: &Settings, new: &Settings) -> Settings {
    let StateSettings { path, lock, socket, .. } = in_force.state.clone();
    let new = new.clone();
    Settings {
        state: StateSettings { path, lock, socket, ..new.state },
        metrics: MetricsSettings { address: in_force.metrics.address, ..new.metrics },
        log_format: in_force.log_format,
        ..new
    }
}

/// Returns whether a node that is connected for one of these settings serves for the other.
pub(super) fn is_same_node(one: &Settings, other: &Settings) -> bool {
    let parts =
        |settings: &Settings| (settings.node.clone(), settings.host_root.clone(), settings.kubelet_root.clone());
    parts(one) == parts(other) && one.runtime == other.runtime && one.pods == other.pods
}

/// Returns the keys with different values, of those that concern the service.
pub(in crate::cli) fn differing(one: &Settings, other: &Settings, concerns: fn(&str) -> bool) -> String {
    let differ = KEYS.iter().filter(|key| concerns(key.name)).filter(|key| key.get(one) != key.get(other));
    differ.map(|key| key.name).collect::<Vec<_>>().join(", ")
}

fn is_of_agent(key: &str) -> bool {
    !key.starts_with("controller.") && !key.starts_with("pod_gc.")
}
