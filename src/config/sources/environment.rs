//! The environment variables that kubegc reads. No other module reads the environment.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::kubernetes::Proxies;

/// The variables; `None` if unset or empty.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Environment {
    /// `KUBEGC_CONFIG`: as `--config`.
    pub config: Option<PathBuf>,
    /// `CONTAINER_RUNTIME_ENDPOINT`, as for crictl.
    pub runtime_endpoint: Option<String>,
    /// `IMAGE_SERVICE_ENDPOINT`, as for crictl.
    pub image_endpoint: Option<String>,
    /// `KUBECONFIG`, as for kubectl: a file, or several with colons between them.
    pub kubeconfig: Option<String>,
    /// `NODE_NAME`, as a pod spec sets it from `spec.nodeName`.
    pub node_name: Option<String>,
    /// `CRI_CONFIG_FILE`: the path of crictl's own configuration.
    pub crictl_config: Option<PathBuf>,
    /// `NOTIFY_SOCKET`: the socket for status notifications to the service manager.
    pub notify_socket: Option<OsString>,
    /// `WATCHDOG_USEC` and `WATCHDOG_PID`: how long the service manager waits for an answer of its watchdog. `None` if the
    /// watchdog is off, or is that of another process.
    pub watchdog: Option<Duration>,
    /// `JOURNAL_STREAM`: the stream that systemd connected to its journal.
    pub journal_stream: Option<String>,
    /// `RUST_LOG`: which messages are logged, as for other programs in Rust.
    pub log_filter: Option<String>,
    /// `NO_COLOR`, or a terminal without colors (`TERM=dumb`).
    pub plain: bool,
    /// `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, also in lower case.
    pub proxies: Proxies,
    /// `HOME`: the directory of the user.
    pub home: Option<PathBuf>,
    /// `SUDO_USER`: who runs the program through sudo.
    pub sudo_user: Option<String>,
    /// `COLUMNS`: the width of the terminal.
    pub columns: Option<usize>,
}

// === impl Environment ===

impl Environment {
    /// Reads the environment of the process.
    pub fn read() -> Self {
        Self {
            config: variable("KUBEGC_CONFIG").map(PathBuf::from),
            runtime_endpoint: variable("CONTAINER_RUNTIME_ENDPOINT"),
            image_endpoint: variable("IMAGE_SERVICE_ENDPOINT"),
            kubeconfig: variable("KUBECONFIG"),
            node_name: variable("NODE_NAME"),
            crictl_config: variable("CRI_CONFIG_FILE").map(PathBuf::from),
            notify_socket: raw("NOTIFY_SOCKET"),
            watchdog: watchdog(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"), std::process::id()),
            journal_stream: variable("JOURNAL_STREAM"),
            log_filter: variable("RUST_LOG"),
            plain: variable("NO_COLOR").is_some() || variable("TERM").as_deref() == Some("dumb"),
            proxies: Proxies { http: either("HTTP_PROXY"), https: either("HTTPS_PROXY"), none: either("NO_PROXY") },
            home: raw("HOME").map(PathBuf::from),
            sudo_user: variable("SUDO_USER"),
            columns: variable("COLUMNS").and_then(|columns| columns.parse().ok()),
        }
    }

    /// Lists the variables that set a key.
    pub(super) fn settings(&self) -> impl Iterator<Item = (&'static str, &'static str, &str)> {
        let all = [
            ("CONTAINER_RUNTIME_ENDPOINT", "runtime.endpoint", &self.runtime_endpoint),
            ("IMAGE_SERVICE_ENDPOINT", "runtime.image_endpoint", &self.image_endpoint),
            ("KUBECONFIG", "pods.kubeconfig", &self.kubeconfig),
            ("NODE_NAME", "node", &self.node_name),
        ];
        all.into_iter().filter_map(|(variable, key, value)| Some((variable, key, value.as_deref()?)))
    }
}

/// Returns the limit of the watchdog, as `sd_watchdog_enabled(3)` does: the variables of another process do not count.
fn watchdog(microseconds: Option<String>, pid: Option<String>, own_pid: u32) -> Option<Duration> {
    if pid.is_some_and(|pid| pid.parse() != Ok(own_pid)) {
        return None;
    }
    let microseconds = microseconds?.parse().ok().filter(|microseconds| *microseconds > 0)?;
    Some(Duration::from_micros(microseconds))
}

/// Returns a variable, or that with its name in lower case.
fn either(name: &str) -> Option<String> {
    variable(name).or_else(|| variable(&name.to_lowercase()))
}

/// Returns a variable. One that is not Unicode is ignored: every value here is a socket, a name or a path that a person
/// typed.
fn variable(name: &str) -> Option<String> {
    raw(name)?.into_string().ok()
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
fn raw(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_counts_only_for_this_process() {
        for (microseconds, pid, limit) in [
            (Some("60000000"), Some("7"), Some(Duration::from_mins(1))),
            (Some("60000000"), None, Some(Duration::from_mins(1))),
            (Some("60000000"), Some("8"), None),
            (Some("60000000"), Some("seven"), None),
            (Some("0"), Some("7"), None),
            (Some("soon"), Some("7"), None),
            (None, Some("7"), None),
        ] {
            let [microseconds, pid] = [microseconds, pid].map(|text| text.map(str::to_owned));
            assert_eq!(watchdog(microseconds.clone(), pid.clone(), 7), limit, "{microseconds:?} {pid:?}");
        }
    }
}
