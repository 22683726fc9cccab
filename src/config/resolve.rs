//! Resolves the input into settings: checks that keys are known, that values are allowed, and that the settings fit
//! together.

use std::collections::BTreeMap;
use std::fmt;

use super::entry::Entry;
use super::error::{ConfigError, ConfigFault, InvalidValue, Origin};
use super::key::Key;
use super::keys;
use super::layers::{Layers, is_section};
use super::loaded::Loaded;
use super::sockets::OtherSockets;
use super::{Environment, Settings, Typed};
use crate::host_path::HostFs;
use crate::owners::OwnerGuards;
use crate::plan::{Guards, Profile};
use crate::pod_gc::PodGcPolicy;

/// The state while resolving.
#[derive(Default)]
struct Resolver {
    settings: Settings,
    origins: BTreeMap<&'static str, Origin>,
    faults: Vec<ConfigFault>,
    faulty: Vec<&'static str>,
    /// The line of each key in its file.
    lines: BTreeMap<&'static str, usize>,
}

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
    let mut loaded = settle(layers)?;
    loaded.settings.pods.own_kubeconfig = environment.home.as_ref().map(|home| home.join(".kube/config"));
    if loaded.settings.runtime.endpoint.is_none() {
        let host = HostFs::new(&loaded.settings.host_root);
        loaded.adopt([OtherSockets::of_crictl(environment, &host)?, kubelet]);
    }
    Ok(loaded)
}

/// Resolves the layers.
pub(super) fn settle(layers: Layers) -> Result<Loaded, ConfigError> {
    let Layers { mut entries, faults, warnings, .. } = layers;
    let mut resolver = Resolver { faults, ..Resolver::default() };
    forget_guards(&mut entries);
    resolver.profile(&entries);
    entries.iter().filter(|entry| entry.key != "profile").for_each(|entry| resolver.take(entry));
    resolver.check_together();
    let Resolver { settings, origins, faults, lines, .. } = resolver;
    if faults.is_empty() { Ok(Loaded { settings, origins, lines, warnings }) } else { Err(ConfigError { faults }) }
}

/// A profile on the command line discards the guards that files set one by one, to show the effect of the profile
/// alone. A profile in a file only sets the defaults.
fn forget_guards(entries: &mut Vec<Entry>) {
    if entries.iter().any(|entry| entry.key == "profile" && entry.origin.is_command_line()) {
        entries.retain(|entry| !entry.key.starts_with("guards.") || entry.origin.is_command_line());
    }
}

// === impl Resolver ===

impl Resolver {
    /// Applies the profile first, wherever it is in the input: single guards override it.
    fn profile(&mut self, entries: &[Entry]) {
        entries.iter().filter(|entry| entry.key == "profile").for_each(|entry| self.take(entry));
        let profile = self.settings.policy.profile;
        self.settings.policy.guards = Guards::of(profile);
        if profile != Profile::Safe {
            self.settings.controller.guards = OwnerGuards::none();
            self.settings.pod_gc = PodGcPolicy::upstream();
        }
    }

    fn take(&mut self, entry: &Entry) {
        let Some(key) = keys::find(&entry.key) else { return self.unknown(entry) };
        if key.says_nothing(&entry.value) {
            return;
        }
        match key.set(&mut self.settings, &entry.value) {
            Ok(()) => {
                self.origins.insert(key.name, entry.origin.clone());
                match entry.line {
                    Some(line) => drop(self.lines.insert(key.name, line)),
                    None => drop(self.lines.remove(key.name)),
                }
            }
            Err(wrong) => {
                self.faulty.push(key.name);
                self.fault(entry, wants(key, wrong, &entry.value));
            }
        }
    }

    fn unknown(&mut self, entry: &Entry) {
        let right = match keys::nearest(&entry.key) {
            _ if is_section(&entry.key) => format!("wants settings of its own, in a table [{}]", entry.key),
            Some(nearest) => format!("no such setting; did you mean {nearest}?"),
            None => "no such setting".to_owned(),
        };
        self.fault(entry, right);
    }

    fn fault(&mut self, entry: &Entry, right: String) {
        self.faults.push(ConfigFault::of(entry.origin.clone(), &entry.key, &entry.value, right).at(entry.line));
    }

    /// Checks settings that are allowed alone but not together.
    fn check_together(&mut self) {
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
                Pair("pods.kubelet_client_certificate", "beside it", "pods.kubelet_client_key", "beside it"),
            ),
            (takes_no(&kubelet.ca), plain("pods.kubelet_ca")),
            (takes_no(&kubelet.token_file), plain("pods.kubelet_token_file")),
            (takes_no(&kubelet.client_certificate), plain("pods.kubelet_client_certificate")),
        ];
        checks.into_iter().filter(|(fit, _)| !fit).for_each(|(_, pair)| self.misfit(&pair));
    }

    /// Reports the left key if it was set, otherwise the right key. Reports nothing if one of them already has a fault.
    fn misfit(&mut self, Pair(left, left_wants, right, right_wants): &Pair) {
        if self.faulty.contains(left) || self.faulty.contains(right) {
            return;
        }
        let blame_left = self.origins.contains_key(left);
        let (key, wants, other) = if blame_left { (left, left_wants, right) } else { (right, right_wants, left) };
        let text = format!("wants {wants} {other}, which is {} ({})", self.value(other), self.origin(other));
        let line = self.lines.get(key).copied();
        self.faults.push(ConfigFault::of(self.origin(key), key, self.value(key), text).at(line));
    }

    fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::BuiltIn)
    }

    fn value(&self, key: &str) -> String {
        keys::find(key).map(|key| key.get(&self.settings).to_string()).unwrap_or_default()
    }
}

/// Two keys, and the requirement of each on the other.
struct Pair(&'static str, &'static str, &'static str, &'static str);

/// A credential that would be sent over plain HTTP.
fn plain(credential: &'static str) -> Pair {
    Pair(credential, "\"https\" in", "pods.kubelet_endpoint", "\"https\" because of")
}

fn wants(key: &Key, wrong: InvalidValue, value: &impl fmt::Display) -> String {
    match wrong {
        InvalidValue::NotAllowed => format!("wants {}", key.allowed()),
        InvalidValue::NoUnit => {
            let number = value.to_string().trim_matches('"').to_owned();
            format!("wants a unit: \"{number}s\" for seconds, \"{number}m\" for minutes")
        }
        InvalidValue::NoImageName => {
            format!("a pattern is no image name, so it matches nothing; wants {}", key.allowed())
        }
        InvalidValue::NoSizeUnit => {
            let number = value.to_string().trim_matches('"').to_owned();
            format!("wants a unit: \"{number}MiB\" or \"{number}GiB\"")
        }
        InvalidValue::SystemDirectory => "is a directory of the system; choose another path".to_owned(),
    }
}
