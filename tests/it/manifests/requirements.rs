//! Each form of installation has what its settings need: `Settings::requirements` is the one table of that.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{PodSpec, VolumeMount};
use kubegc::config::{Environment, KEYS, Mode, Need, Settings, Typed, load};
use serde_json::Value;

use super::chart::chart_text;
use super::{AGENTS, container, mounts, packaging, rendered};

/// What an installation gives the process.
struct Form {
    name: String,
    settings: Settings,
    /// Paths as the process sees them.
    written: Vec<PathBuf>,
    read: Vec<PathBuf>,
    capabilities: String,
    /// Group, resource and verb; `None` = the credentials are the user's.
    permitted: Option<BTreeSet<(String, String, String)>>,
    is_container: bool,
}

// === impl Form ===

impl Form {
    fn meets(&self, need: &Need) -> bool {
        let here = |path: &Path| self.settings.host_root.join(path.strip_prefix("/").unwrap());
        let is_in = |list: &[PathBuf], path: PathBuf| list.iter().any(|root| path.starts_with(root));
        let mount = |path: &Path| self.written.iter().filter(|root| here(path).starts_with(root)).max();
        match need {
            Need::Write(path) => is_in(&self.written, here(path)),
            Need::WriteHere(path) => is_in(&self.written, path.clone()),
            Need::Read(path) => is_in(&self.written, here(path)) || is_in(&self.read, here(path)),
            Need::OneMount(one, other) => mount(one).is_some() && mount(one) == mount(other),
            Need::OutsideContainers => !self.is_container,
            Need::Capability(name, _) => self.capabilities.contains(name),
            Need::Api(group, resource, verbs) => self.permitted.as_ref().is_none_or(|all| {
                verbs.iter().all(|verb| all.contains(&((*group).into(), (*resource).into(), (*verb).into())))
            }),
        }
    }

    fn unmet(&self) -> Vec<String> {
        let collecting = Settings { mode: Mode::Collect, ..self.settings.clone() };
        let all = collecting.requirements();
        assert!(all.len() > 6, "{all:?}");
        let unmet = all.into_iter().filter(|requirement| !self.meets(&requirement.need));
        unmet.map(|requirement| format!("{}: {requirement:?}", self.name)).collect()
    }
}

/// Returns the settings of a configuration and of arguments.
fn settings(toml: &str, args: &[String]) -> Settings {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubegc.toml");
    std::fs::write(&path, toml).unwrap();
    let mut typed = Typed { config: Some(path), ..Typed::default() };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.strip_prefix("--set") {
            Some("") => typed.set.push(args.next().unwrap().clone()),
            Some(set) => typed.set.push(set.trim_start_matches('=').to_owned()),
            None => {
                let Some((flag, value)) = arg.trim_start_matches("--").split_once('=') else { continue };
                let key = KEYS.iter().find(|key| key.flags.contains(&flag)).unwrap();
                typed.flags.push((key.flags[0], value.to_owned()));
            }
        }
    }
    load(&typed, &Environment::default()).unwrap().settings
}

fn of_pod(name: &str, objects: &[Value]) -> Form {
    let of_kind = |kind: &str| objects.iter().filter(move |object| object["kind"] == kind).cloned().collect::<Vec<_>>();
    let set: DaemonSet = serde_json::from_value(of_kind("DaemonSet").remove(0)).unwrap();
    let pod: PodSpec = set.spec.unwrap().template.spec.unwrap();
    let container = container(&pod);
    let configs = of_kind("ConfigMap");
    let has_file = |map: &&Value| map["data"]["kubegc.toml"].as_str().is_some_and(|text| text.contains("host_root"));
    let toml = configs.iter().find(has_file).unwrap()["data"]["kubegc.toml"].as_str().unwrap();
    let (read, written): (Vec<_>, Vec<_>) = mounts(container).iter().partition(|mount| mount.read_only == Some(true));
    let paths = |mounts: Vec<&VolumeMount>| -> Vec<PathBuf> {
        mounts.into_iter().map(|mount| PathBuf::from(&mount.mount_path)).collect()
    };
    let roles = [of_kind("ClusterRole"), of_kind("Role")].concat();
    Form {
        name: name.to_owned(),
        settings: settings(toml, container.args.as_deref().unwrap_or_default()),
        written: paths(written),
        read: paths(read),
        capabilities: container.security_context.clone().unwrap().capabilities.unwrap().add.unwrap().join(" "),
        permitted: Some(
            roles
                .iter()
                .flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default())
                .flat_map(|rule| permitted(&rule))
                .collect(),
        ),
        is_container: true,
    }
}

/// Returns each permission of a rule.
fn permitted(rule: &Value) -> Vec<(String, String, String)> {
    let texts = |key: &str| -> Vec<String> { serde_json::from_value(rule[key].clone()).unwrap_or_default() };
    let (groups, resources, verbs) = (texts("apiGroups"), texts("resources"), texts("verbs"));
    let of_group = |group: &String| -> Vec<_> {
        let of_resource = |resource: &String| -> Vec<_> {
            verbs.iter().map(|verb| (group.clone(), resource.clone(), verb.clone())).collect()
        };
        resources.iter().flat_map(of_resource).collect()
    };
    groups.iter().flat_map(of_group).collect()
}

fn of_unit(unit: &str, settings: &Settings) -> Form {
    let text = std::fs::read_to_string(packaging("../systemd").join(unit)).unwrap();
    let value = |key: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        lines.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(value("ProtectSystem"), "strict", "{unit}: all else is read-only");
    let given = value("ReadWritePaths");
    let own = [Path::new("/var/lib").join(value("StateDirectory")), Path::new("/run").join(value("RuntimeDirectory"))];
    let written = given.split_whitespace().map(|path| PathBuf::from(path.trim_start_matches('-'))).chain(own);
    Form {
        name: unit.to_owned(),
        settings: settings.clone(),
        written: written.collect(),
        read: vec!["/".into()],
        capabilities: value("CapabilityBoundingSet"),
        permitted: None,
        is_container: false,
    }
}

#[test]
fn every_form_of_installation_has_what_its_settings_need() {
    let package = std::fs::read_to_string(packaging("deb/kubegc.toml")).unwrap();
    let mut forms = Vec::new();
    for toml in ["", &package] {
        for unit in ["kubegc.service", "kubegc-collect.service"] {
            forms.push(of_unit(unit, &settings(toml, &[])));
        }
    }
    forms.extend(AGENTS.map(|agent| of_pod(agent.within, &rendered(agent.within))));
    for values in [
        "dryRun=false",
        "podSource=kubelet",
        "fleet=true",
        "keepWorkloadImages=true",
        "distribution=k0s",
        "distribution=openshift",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain(["logArchive=keep 24h\\,node 5GiB".to_owned()])
    {
        let objects: Vec<Value> = serde_saphyr::from_multiple(&chart_text(&packaging("chart"), &values)).unwrap();
        forms.push(of_pod(&format!("chart with {values}"), &objects));
    }
    let unmet: Vec<_> = forms.iter().flat_map(Form::unmet).collect();
    assert_eq!(unmet, Vec::<String>::new());
}

/// The comparison finds what an installation lacks.
#[test]
fn an_installation_that_lacks_something_is_found() {
    let lacking = |toml: &str| {
        let unmet = of_unit("kubegc.service", &settings(toml, &[])).unmet();
        unmet
            .iter()
            .map(|text| text.split("key: \"").nth(1).unwrap().split('"').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(lacking("logs.archive = [\"keep 1h\"]"), ["logs.archive"; 2]);
    assert_eq!(lacking("kubelet_root = \"/data/kubelet\""), ["leftovers.remove"]);
    assert_eq!(lacking("logs.pods_root = \"/data/pods\""), ["logs.pods_root"]);
    let pods = "leftovers.remove = [\"pod_directory\"]";
    assert_eq!(lacking(pods), [""; 0]);
    let in_pod = Form {
        settings: settings(&format!("host_root = \"/host\"\n{pods}"), &[]),
        ..of_pod("daemonset", &rendered("daemonset"))
    };
    assert_eq!(
        in_pod.unmet().len(),
        2,
        "its mount is read-only, and it does not see the mounts of the host: {:?}",
        in_pod.unmet()
    );
}
