//! The settings in force, the origin of each, and the sockets that they result in.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::config_error::{ConfigFault, Origin};
use super::declarations::KEYS;
use super::key::{Key, find, is_of_profile};
use super::settings::Settings;
use super::sources::environment::Environment;
use super::sources::sockets::Sockets;
use crate::cri::{CriError, Endpoint, EndpointCandidates, Named};
use crate::host_path::HostFs;
use crate::model::AgentSettings;
use crate::rules::{Rule, RuleSubject, Then};

/// The keys of the sockets.
const RUNTIME: &str = "runtime.endpoint";
const IMAGES: &str = "runtime.image_endpoint";

/// The settings in force, and the origin of each.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    pub settings: Settings,
    pub(super) origins: BTreeMap<&'static str, Origin>,
    /// What the sources have that is allowed and doubtful.
    pub(super) warnings: Vec<String>,
    /// What the rules in force have that is allowed and doubtful.
    pub(super) doubts_of_rules: Vec<String>,
}

/// The tables and keys that decide what is removed.
const DECIDING: &str = "profile quiet fleet rule kubelet_root containers images pressure logs leftovers guards";

fn decides(key: &str) -> bool {
    key.split('.').next().is_some_and(|table| DECIDING.split(' ').any(|one| one == table))
}

// === impl Settings ===

impl Settings {
    /// Returns the settings that decide what is removed, as TOML, without those that are the defaults.
    pub fn that_decide(&self) -> BTreeMap<String, String> {
        let keys = KEYS.iter().filter(|key| decides(key.name) && key.get(self) != key.default());
        keys.map(|key| (key.name.to_owned(), key.get(self).to_string())).collect()
    }

    /// Returns the settings of an agent, the others as built in. A value that this version does not allow has no effect.
    pub fn of_agent(agent: &AgentSettings) -> Self {
        let mut settings = Self::default();
        for key in KEYS.iter().filter(|key| decides(key.name)) {
            let value = agent.keys.get(key.name).and_then(|text| text.parse().ok());
            drop((key.set)(&mut settings, &value.unwrap_or_else(|| key.default())));
            // The first key. It also sets what has no key.
            if key.name == "profile" {
                settings.apply_profile();
            }
        }
        settings.policy.eviction = agent.eviction;
        settings
    }

    /// Returns the settings that differ from those before, as `--set` takes them.
    pub fn changes_of(&self, before: &Self) -> Vec<String> {
        let changed = KEYS.iter().filter(|key| key.get(self) != key.get(before));
        changed.map(|key| format!("{}={}", key.name, key.get(self))).collect()
    }
}

// === impl Loaded ===

impl Loaded {
    /// Returns the origin of a key's value.
    pub fn origin(&self, key: &Key) -> Origin {
        match self.origins.get(key.name) {
            Some(origin) => origin.clone(),
            None if is_of_profile(key.name) && self.origins.contains_key("profile") => {
                Origin::Profile(self.settings.policy.profile)
            }
            None => Origin::BuiltIn,
        }
    }

    /// Returns whether a file, a flag or the environment has this key.
    pub fn is_set(&self, key: &str) -> bool {
        self.origins.contains_key(key)
    }

    /// Returns a fault for each file that a setting names and that does not exist, and for each file of kubegc that is a
    /// directory. Only `config check` reports them: a file may be written later than the agent starts.
    pub fn missing_files(&self) -> Vec<ConfigFault> {
        let Settings { pods, state, host_root, .. } = &self.settings;
        let exists = |path: &Path| path.exists() || host_root.join(path.strip_prefix("/").unwrap_or(path)).exists();
        let is_missing = |path: &Option<PathBuf>| path.as_ref().is_some_and(|path| !exists(path));
        let (kubelet, kubeconfigs) = (&pods.kubelet, &pods.kubeconfigs);
        let (missing, directory) = ("no such file", "is a directory; expected a file");
        let checks = [
            ("pods.kubeconfig", missing, !kubeconfigs.is_empty() && !kubeconfigs.iter().any(|path| exists(path))),
            ("pods.kubelet_ca", missing, is_missing(&kubelet.ca)),
            ("pods.kubelet_token_file", missing, is_missing(&kubelet.token_file)),
            ("pods.kubelet_client_certificate", missing, is_missing(&kubelet.client_certificate)),
            ("pods.kubelet_client_key", missing, is_missing(&kubelet.client_key)),
            ("state.path", directory, state.path.is_dir()),
            ("state.lock", directory, state.lock.is_dir()),
        ];
        checks.into_iter().filter(|(_, _, is_wrong)| *is_wrong).map(|(key, what, _)| self.fault(key, what)).collect()
    }

    /// Returns the value of a key and its origin.
    pub(super) fn in_force(&self, name: &str) -> (String, Origin) {
        let key = find(name);
        let value = key.map(|key| key.get(&self.settings).to_string()).unwrap_or_default();
        (value, key.map_or(Origin::BuiltIn, |key| self.origin(key)))
    }

    /// Returns a fault of the value in force of a key.
    pub(super) fn fault(&self, name: &str, what: &str) -> ConfigFault {
        let (value, origin) = self.in_force(name);
        ConfigFault::of(origin, name, value, what)
    }

    /// Returns whether a flag or `--set` sets a key that decides what is removed.
    pub fn has_rules_of_command_line(&self) -> bool {
        self.origins.iter().any(|(key, origin)| decides(key) && origin.is_command_line())
    }

    /// Returns the settings that decide what is removed and that differ from those of an agent, as `KEY = VALUE (here VALUE)`. `agent` are
    /// the agent's [`Settings::that_decide`].
    pub fn other_than(&self, agent: &BTreeMap<String, String>) -> Vec<String> {
        let here = self.settings.that_decide();
        let value = |of: &BTreeMap<String, String>, key: &str| {
            of.get(key).cloned().or_else(|| Some(find(key)?.default().to_string())).unwrap_or_default()
        };
        let keys: BTreeSet<_> =
            agent.keys().chain(here.keys()).filter(|key| agent.get(*key) != here.get(*key)).collect();
        keys.into_iter().map(|key| format!("{key} = {} (here {})", value(agent, key), value(&here, key))).collect()
    }

    /// Returns the settings for a command, which a person runs. It ends after one pass: it does not retry while the runtime
    /// is unavailable.
    #[must_use]
    pub fn for_command(mut self, environment: &Environment) -> Self {
        self.settings.runtime.options.patience = Duration::ZERO;
        self.settings.pods.by_person = Some(environment.proxies.clone());
        self
    }

    /// Returns a warning, one sentence each, for settings that are allowed but probably not intended.
    pub fn warnings(&self) -> Vec<String> {
        let high = self.origins.get("images.high_threshold_percent");
        let off = match high {
            Some(Origin::OtherProgram(path, name)) if self.settings.policy.images.high_threshold_percent == 100 => {
                Some(format!(
                    "{}: {name} = 100 turns off kubegc's image collection for disk space too; set \
                     images.high_threshold_percent",
                    path.display()
                ))
            }
            _ => None,
        };
        let has_crio = self.settings.runtime.endpoint.as_ref().is_some_and(|socket| socket.contains("crio"));
        let undo = (has_crio && !self.settings.policy.images.undo.is_zero())
            .then(|| "images.undo has no effect: CRI-O has no leases, so an image is removed for good".to_owned());
        let doubts = self.doubts_of_rules.iter().cloned().chain(self.unkept_logs()).chain(self.settings.unmet());
        self.warnings.iter().cloned().chain(off).chain(undo).chain(doubts).collect()
    }

    /// Returns a warning for each rule for logs that needs an archive, where there is none.
    fn unkept_logs(&self) -> Vec<String> {
        let Settings { policy, host_root, kubelet_root, .. } = &self.settings;
        // The kubelet deletes the logs of a pod within seconds of the pod.
        let has_kubelet = || HostFs::new(host_root).exists(&kubelet_root.join("pods")).unwrap_or_default();
        let warning = |rule: &Rule| {
            let (name, limits) = (&rule.text().name, rule.limits().cloned().unwrap_or_default());
            if limits.budget.is_some() {
                return Some(format!("rule {name:?}: budget has no effect without logs.archive"));
            }
            let keeps = rule.text().then == Then::Keep || limits.keep_for.is_some_and(|time| !time.is_zero());
            (keeps && has_kubelet()).then(|| {
                format!(
                    "rule {name:?}: the kubelet deletes the logs of a pod with the pod; set logs.archive to keep them"
                )
            })
        };
        let of_logs = policy
            .rules
            .iter()
            .filter(|rule| rule.text().subject == RuleSubject::Log && policy.logs.archive.is_empty());
        of_logs.filter_map(warning).collect()
    }

    /// Takes the sockets from the first program that names the runtime's, if no setting names it. The image
    /// service's comes from the same program, unless a setting names it.
    pub(super) fn adopt(&mut self, others: [Sockets; 2]) {
        if let Some(sockets) = others.into_iter().find(|[runtime, _]| runtime.is_some()) {
            self.default_sockets(sockets);
        }
    }

    /// Returns the settings with the sockets that are used, for `config show`. If no runtime is found, the origin says
    /// why.
    #[must_use]
    pub fn with_endpoint(mut self, found: &Result<Endpoint, CriError>) -> Self {
        match found {
            Ok(Endpoint { runtime, images, .. }) => self.default_sockets([
                Some((runtime.clone(), Origin::Search)),
                Some((images.clone(), Origin::SameAs(RUNTIME))),
            ]),
            Err(error) if self.settings.runtime.endpoint.is_none() => {
                // Without the list of the sockets that were tried, the comment fits beside the value.
                let is_plain = matches!(error, CriError::NoEndpoint { .. });
                let cause = if is_plain { "no runtime found".to_owned() } else { error.to_string() };
                self.origins.insert(RUNTIME, Origin::NotFound(cause));
            }
            Err(_) => {}
        }
        self
    }

    /// Returns the sockets that are named, for the search.
    pub fn candidates(&self) -> EndpointCandidates {
        let named = |socket: &Option<String>, key| {
            let named_by = || self.origins.get(key).map(ToString::to_string).unwrap_or_default();
            socket.clone().map(|endpoint| Named { endpoint, named_by: named_by() })
        };
        let runtime = &self.settings.runtime;
        EndpointCandidates {
            runtime: named(&runtime.endpoint, RUNTIME),
            images: named(&runtime.image_endpoint, IMAGES),
            host: HostFs::new(&self.settings.host_root),
            ..EndpointCandidates::default()
        }
    }

    /// Adds the file to an error of a socket, if another program's file names the socket.
    #[must_use]
    pub fn explain(&self, error: CriError) -> CriError {
        let runtime = &self.settings.runtime;
        let text = error.to_string();
        let is_of = |socket: &Option<String>| {
            let path = socket.as_ref().map(|socket| socket.trim_start_matches("unix://"));
            path.is_some_and(|path| text.contains(path))
        };
        let mut named = [(RUNTIME, &runtime.endpoint), (IMAGES, &runtime.image_endpoint)].into_iter();
        let origin = named.find(|(_, socket)| is_of(socket)).and_then(|(key, _)| self.origins.get(key));
        match origin {
            Some(origin @ Origin::OtherProgram(..)) if error.is_unreachable() => {
                CriError::NamedElsewhere { named_by: origin.to_string(), source: Box::new(error) }
            }
            _ => error,
        }
    }

    /// Sets the sockets that are not set yet.
    fn default_sockets(&mut self, [runtime, images]: Sockets) {
        let settings = &mut self.settings.runtime;
        let fields = [(RUNTIME, &mut settings.endpoint, runtime), (IMAGES, &mut settings.image_endpoint, images)];
        for (key, field, socket) in fields {
            if field.is_none()
                && let Some((socket, origin)) = socket
            {
                *field = Some(socket);
                self.origins.insert(key, origin);
            }
        }
    }
}
