//! What the settings need: directories to write, one mount, capabilities, permissions at the API server.
//!
//! This is the one table of it. `config check` and the start of the service compare it with what the process has, before a pass fails.
//! Tests compare it with each form of installation.

use std::path::{Path, PathBuf};

use procfs::process::{MountInfo, Process};

use super::settings::{Mode, Settings};
use crate::fleet::FleetPart;
use crate::host_path::{HostFs, Resolved};
use crate::model::{LeftoverKind, PodSourceName};
use crate::rules::{Fact, RuleSubject, RuleText, Then};

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Need {
    /// A directory of the host that kubegc writes to.
    Write(PathBuf),
    /// A directory that kubegc writes to, as the process sees it.
    WriteHere(PathBuf),
    /// A directory of the host that kubegc reads.
    Read(PathBuf),
    /// Two directories of the host on one mount: a file has names on one only.
    OneMount(PathBuf, PathBuf),
    /// A process outside of containers, which sees the mounts of the host.
    OutsideContainers,
    /// A capability of Linux, and its number.
    Capability(&'static str, u8),
    /// Permissions at the API server: group, resource and verbs.
    Api(&'static str, &'static str, &'static [&'static str]),
}

/// A need, and the setting that has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Requirement {
    /// The key of the setting.
    pub key: &'static str,
    pub need: Need,
}

// === impl Settings ===

impl Settings {
    /// Returns what these settings need. While kubegc only observes, it removes nothing and needs no permission for that.
    #[rustfmt::skip]
    pub fn requirements(&self) -> Vec<Requirement> {
        use Need::{Api, Capability, OneMount, OutsideContainers, Read, Write, WriteHere};
        let (logs, leftovers) = (&self.policy.logs, &self.policy.leftovers.0);
        let collects = self.mode == Mode::Collect;
        let removes = |kind| collects && leftovers.contains(&kind);
        let pods = self.kubelet_root.join("pods");
        let beside = |path: &Path| path.parent().unwrap_or(path).to_owned();
        let archives = collects && !logs.archive.is_empty();
        let is_of_one = |rule: &RuleText| rule.subject == RuleSubject::Checkpoint && rule.then == Then::Remove;
        let of_checkpoints = self.policy.rules.iter().any(|rule| is_of_one(rule.text()));
        let workloads = self.policy.guards.keep_workload_images || self.policy.facts_in_use().contains(&Fact::ImageWorkloads);
        let from = |source| self.pods.sources.contains(&source);
        let from_api = from(PodSourceName::KubeApi) || from(PodSourceName::Auto);
        let fleet = |part| self.fleet.contains(&part);
        let rows = [
            ("state.path", true, WriteHere(beside(&self.state.path))),
            ("state.lock", true, WriteHere(beside(&self.state.lock))),
            ("metrics.file", self.metrics.file.is_some(), WriteHere(self.metrics.file.as_deref().map(beside).unwrap_or_default())),
            ("logs.pods_root", collects, Write(logs.pods_root.clone())),
            ("logs.containers_root", collects, Write(logs.containers_root.clone())),
            // The logs are files of any owner, also in sticky directories.
            ("logs.pods_root", collects, Capability("DAC_OVERRIDE", 1)),
            ("logs.pods_root", collects, Capability("FOWNER", 3)),
            ("logs.archive", archives, Write(beside(&logs.pods_root))),
            ("logs.archive", archives, OneMount(logs.pods_root.clone(), beside(&logs.pods_root))),
            ("leftovers.remove", removes(LeftoverKind::TerminationLog), Write(pods.clone())),
            ("leftovers.remove", removes(LeftoverKind::PodDirectory), Write(pods.clone())),
            ("leftovers.remove", removes(LeftoverKind::PodDirectory), OutsideContainers),
            ("rule", collects && of_checkpoints, Write(self.kubelet_root.join("checkpoints"))),
            ("pods.source", from_api || from(PodSourceName::Kubelet), Read(pods)),
            ("pods.source", from_api || from(PodSourceName::Kubelet), Read(self.kubelet_root.join("image_manager"))),
            ("pods.source", from_api, Api("", "pods", &["get", "list", "watch"])),
            ("pods.source", from_api, Api("", "nodes", &["get"])),
            ("pods.source", from(PodSourceName::Kubelet), Api("", "nodes/pods", &["get"])),
            ("pods.source", from(PodSourceName::Kubelet), Api("", "nodes/metrics", &["get"])),
            ("events.enabled", self.writes_events && from_api, Api("", "events", &["create", "patch"])),
            ("fleet", fleet(FleetPart::Policies), Api("kubegc.dev", "nodediskpolicies", &["list", "watch"])),
            ("fleet", fleet(FleetPart::Disks), Api("kubegc.dev", "nodedisks", &["create", "patch"])),
            ("fleet", fleet(FleetPart::Disks), Api("kubegc.dev", "nodedisks/status", &["patch"])),
            ("guards.keep_workload_images", workloads, Api("batch", "cronjobs", &["list"])),
            ("guards.keep_workload_images", workloads, Api("batch", "jobs", &["list"])),
            ("guards.keep_workload_images", workloads, Api("apps", "statefulsets", &["list"])),
            ("guards.keep_workload_images", workloads, Api("apps", "replicasets", &["list"])),
        ];
        rows.into_iter().filter(|row| row.1).map(|(key, _, need)| Requirement { key, need }).collect()
    }

    /// Returns a sentence for each need that this process cannot meet. Permissions at the API server show in its answers, and a
    /// directory that does not exist yet may be created.
    pub(super) fn unmet(&self) -> Vec<String> {
        let Ok(process) = Process::myself() else { return Vec::new() };
        let capabilities = process.status().map_or(u64::MAX, |status| status.capeff);
        let access = Access {
            host: HostFs::new(&self.host_root),
            mounts: process.mountinfo().map(|mounts| mounts.0).unwrap_or_default(),
            capabilities: if nix::unistd::geteuid().is_root() { capabilities } else { u64::MAX },
        };
        let said = |Requirement { key, need }| access.why_not(&need).map(|cause| format!("{key}: {cause}"));
        let mut unmet: Vec<_> = self.requirements().into_iter().filter_map(said).collect();
        unmet.dedup();
        unmet
    }
}

/// What a process sees and may do.
struct Access {
    host: HostFs,
    mounts: Vec<MountInfo>,
    capabilities: u64,
}

// === impl Access ===

impl Access {
    fn why_not(&self, need: &Need) -> Option<String> {
        match need {
            Need::Write(path) => self.read_only(&self.existing(path)?, path),
            Need::WriteHere(path) => self.read_only(path, path),
            Need::OneMount(path, beside) => self.apart(path, beside),
            Need::OutsideContainers if !self.host.is_agents() => {
                Some("pod_directory has no effect in a container, which does not see the mounts of the host".to_owned())
            }
            Need::Capability(name, bit) if (self.capabilities >> bit) & 1 == 0 => {
                Some(format!("the process lacks the capability {name}, so it cannot remove each log file"))
            }
            Need::OutsideContainers | Need::Capability(..) | Need::Read(_) | Need::Api(..) => None,
        }
    }

    fn read_only(&self, here: &Path, shown: &Path) -> Option<String> {
        let is_read_only =
            |mount: &&MountInfo| mount.mount_options.contains_key("ro") || mount.super_options.contains_key("ro");
        self.mount_of(here).filter(is_read_only)?;
        Some(format!(
            "{} is read-only for this process, so nothing can be removed or written there; hint: mount it writable, in a unit of systemd with ReadWritePaths",
            shown.display()
        ))
    }

    /// Returns that two directories are on two mounts, and the directory that can be set instead.
    fn apart(&self, path: &Path, beside: &Path) -> Option<String> {
        let (here, beside_here) = (self.existing(path)?, self.existing(beside)?);
        let (one, other) = (self.mount_of(&here)?, self.mount_of(&beside_here)?);
        if one.mnt_id == other.mnt_id {
            return None;
        }
        let on_host = |path: &Path| Path::new("/").join(path.strip_prefix(self.host.root()).unwrap_or(path));
        let within = Path::new(&one.root).join(here.strip_prefix(&one.mount_point).ok()?);
        let elsewhere = |mount: &MountInfo| {
            let rest = within.strip_prefix(&mount.root).ok().filter(|_| mount.majmin == one.majmin)?;
            let found = mount.mount_point.join(rest);
            (mount.mnt_id != one.mnt_id && found != here && found.parent() != Some(&beside_here))
                .then(|| on_host(&found))
        };
        // A link leads to another directory; a bind mount shows one that has another path too.
        let linked = Some(on_host(&here)).filter(|at| at != path);
        let hint = match linked.or_else(|| self.mounts.iter().find_map(elsewhere)) {
            Some(at) => format!("set logs.pods_root = \"{}\"", at.display()),
            None => format!("mount {} in place of it, in a unit of systemd with ReadWritePaths", beside.display()),
        };
        let (path, beside) = (path.display(), beside.display());
        Some(format!(
            "{path} is on another mount than {beside}, and a file has names on one mount only; hint: {hint} (docs/logs.md)"
        ))
    }

    fn existing(&self, path: &Path) -> Option<PathBuf> {
        self.host.resolve(path).ok().and_then(Resolved::existing)
    }

    /// Returns the mount of a path without links: the last one of the longest mountpoint that it is in.
    fn mount_of(&self, path: &Path) -> Option<&MountInfo> {
        let within = self.mounts.iter().filter(|mount| path.starts_with(&mount.mount_point));
        within.max_by_key(|mount| mount.mount_point.components().count())
    }
}
