//! Resolves the input into settings: checks that keys are known, that values are allowed, and that the settings fit
//! together.

use super::config_error::{ConfigError, ConfigFault};
use super::entry::{Entry, WrongValue};
use super::key::{find, is_of_profile, nearest};
use super::loaded::Loaded;
use super::sources::layers::{Layers, is_section};
use super::sources::sockets;
use super::{Environment, Settings, Typed, rule_tables as rules};
use crate::host_path::HostFs;
use crate::model::AgentSettings;
use crate::owners::OwnerGuards;
use crate::plan::{Guards, Leftovers, Profile};
use crate::pod_gc::PodGcPolicy;

/// A kind that an earlier version removed (I21).
const LEFTOVERS: &str = "leftovers.remove";
const PULL_RECORD: &str = "pull_record";
const WHY_NOT_RECORDS: &str =
    "without the kubelet's record any pod could use a private image, so kubegc only shows it (docs/disk.md)";

/// Reads and resolves all sources.
///
/// From lowest to highest precedence: built-in, `--kubelet-config`, the configuration file, `conf.d/*.toml` by name,
/// the environment, flags, `--set`. The sockets of crictl and of the kubelet count if none of these names one.
///
/// # Errors
///
/// All faults, not only the first.
pub fn load(typed: &Typed, environment: &Environment) -> Result<Loaded, ConfigError> {
    let mut layers = Layers::read(typed, environment);
    let kubelet = std::mem::take(&mut layers.kubelet);
    let mut loaded = sound(settle(layers))?;
    loaded.settings.pods.own_kubeconfig = environment.home.as_ref().map(|home| home.join(".kube/config"));
    if loaded.settings.runtime.endpoint.is_none() {
        let host = HostFs::new(&loaded.settings.host_root);
        loaded.adopt([sockets::of_crictl(environment, &host)?, kubelet]);
    }
    Ok(loaded)
}

/// As [`load`], with the settings of an agent in place of all sources but the command line, unless that names files.
///
/// # Errors
///
/// All faults, not only the first.
pub fn load_upon(agent: &AgentSettings, typed: &Typed, environment: &Environment) -> Result<Loaded, ConfigError> {
    if [&typed.config, &typed.kubelet_config, &typed.kubelet_config_dir].into_iter().any(Option::is_some) {
        return load(typed, environment);
    }
    let mut layers = Layers { base: Settings::of_agent(agent), ..Layers::default() };
    layers.command_line(typed);
    sound(settle(layers))
}

/// Reads and resolves all sources without the values that have faults. What results may not fit together: it only finds the
/// files of the agent.
pub fn load_in_part(typed: &Typed, environment: &Environment) -> Loaded {
    settle(Layers::read(typed, environment)).0
}

/// Returns the settings if they have no faults.
pub(super) fn sound((loaded, faults): (Loaded, Vec<ConfigFault>)) -> Result<Loaded, ConfigError> {
    if faults.is_empty() { Ok(loaded) } else { Err(ConfigError { faults }) }
}

/// Resolves the layers. Returns the faults too.
pub(super) fn settle(layers: Layers) -> (Loaded, Vec<ConfigFault>) {
    let Layers { base, entries, mut faults, warnings, .. } = layers;
    let mut loaded = Loaded { settings: base, warnings, ..Loaded::default() };
    // The profile first, wherever it is in the input: single guards override it.
    let (profiles, mut others): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.key == "profile");
    faults.extend(profiles.iter().flat_map(|entry| loaded.take(entry)));
    if !profiles.is_empty() {
        loaded.settings.apply_profile();
    }
    // A profile on the command line discards the guards that files set one by one, to show the effect of the profile alone. A
    // profile in a file only sets the defaults.
    if profiles.iter().any(|entry| entry.origin.is_command_line()) {
        others.retain(|entry| !is_of_profile(&entry.key) || entry.origin.is_command_line());
    }
    faults.extend(others.iter().flat_map(|entry| loaded.take(entry)));
    faults.extend(loaded.misfits(&faults));
    (loaded, faults)
}

// === impl Settings: resolving ===

impl Settings {
    /// Sets what the profile sets.
    pub(super) fn apply_profile(&mut self) {
        let profile = self.policy.profile;
        self.policy.guards = Guards::of(profile);
        self.policy.leftovers = Leftovers::of(profile);
        if profile != Profile::Safe {
            self.controller.guards = OwnerGuards::none();
            self.pod_gc = PodGcPolicy::upstream();
        }
    }
}

// === impl Loaded: resolving ===

impl Loaded {
    /// Takes over one value, unless it has faults. Returns those.
    fn take(&mut self, entry: &Entry) -> Vec<ConfigFault> {
        let Entry { key: name, value, origin, .. } = entry;
        let fault = |right| vec![ConfigFault::of(origin.clone(), name, value, right)];
        let Some(key) = find(name) else { return fault(unknown(name)) };
        if key.is_unset_by(value) {
            return Vec::new();
        }
        if let Err(wrong) = (key.set)(&mut self.settings, value) {
            return match wrong {
                WrongValue::NotAllowed => fault(format!("expected {}", key.allowed())),
                WrongValue::Whole(right) => fault(right),
                WrongValue::Parts(parts) => parts.iter().map(|part| entry.fault_of(part)).collect(),
            };
        }
        self.origins.insert(key.name, origin.clone());
        if key.name == LEFTOVERS && value.to_string().contains(PULL_RECORD) {
            self.warnings.push(format!("{origin}: {LEFTOVERS}: {PULL_RECORD} has no effect: {WHY_NOT_RECORDS}"));
        }
        if key.name == rules::KEY {
            let doubts = rules::doubts(&self.settings.policy.rules);
            self.doubts_of_rules = doubts.map(|doubt| entry.fault_of(&doubt).to_string()).collect();
        }
        Vec::new()
    }

    /// Checks settings that are allowed alone but not together. Reports nothing if one of two already has a fault.
    fn misfits(&self, faults: &[ConfigFault]) -> Vec<ConfigFault> {
        let images = &self.settings.policy.images;
        let logs = &self.settings.policy.logs;
        let kubelet = &self.settings.pods.kubelet;
        let takes_no = |credential: &Option<_>| credential.is_none() || !kubelet.is_plain();
        let checks = [
            (
                images.low_threshold_percent <= images.high_threshold_percent,
                Pair("images.low_threshold_percent", "at most", "images.high_threshold_percent", "at least"),
            ),
            (
                images.max_age.is_zero() || images.max_age > images.min_age,
                Pair("images.max_age", "0 or more than", "images.min_age", "less than"),
            ),
            (
                !logs.pods_root.starts_with(&logs.containers_root)
                    && !logs.containers_root.starts_with(&logs.pods_root),
                Pair("logs.pods_root", "a directory apart from", "logs.containers_root", "a directory apart from"),
            ),
            (
                kubelet.client_certificate.is_some() == kubelet.client_key.is_some(),
                Pair("pods.kubelet_client_certificate", "together with", "pods.kubelet_client_key", "together with"),
            ),
            (takes_no(&kubelet.ca), plain("pods.kubelet_ca")),
            (takes_no(&kubelet.token_file), plain("pods.kubelet_token_file")),
            (takes_no(&kubelet.client_certificate), plain("pods.kubelet_client_certificate")),
        ];
        let is_faulty =
            |key: &str| faults.iter().any(|fault| fault.written.as_ref().is_some_and(|(name, _)| name == key));
        let misfits =
            checks.iter().filter(|(fit, Pair(left, _, right, _))| !fit && !is_faulty(left) && !is_faulty(right));
        misfits.map(|(_, pair)| self.misfit(pair)).collect()
    }

    /// Reports the left key if it was set, otherwise the right key.
    fn misfit(&self, Pair(left, left_wants, right, right_wants): &Pair) -> ConfigFault {
        let blame_left = self.origins.contains_key(left);
        let (key, wants, other) = if blame_left { (left, left_wants, right) } else { (right, right_wants, left) };
        let (value, origin) = self.in_force(other);
        self.fault(key, &format!("expected {wants} {other}, which is {value} ({origin})"))
    }
}

/// Two keys, and the requirement of each on the other.
struct Pair(&'static str, &'static str, &'static str, &'static str);

/// A credential that would be sent over plain HTTP.
fn plain(credential: &'static str) -> Pair {
    Pair(credential, "\"https\" in", "pods.kubelet_endpoint", "\"https\" because of")
}

/// Says what is wrong with a key that does not exist.
fn unknown(name: &str) -> String {
    match nearest(name) {
        _ if is_section(name) => format!("expected a table [{name}]"),
        Some(nearest) => format!("no such setting; did you mean {nearest}?"),
        None => "no such setting".to_owned(),
    }
}
