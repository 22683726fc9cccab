//! Tests of the whole module: layers, faults, the commented file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::config_error::ConfigError;
use super::resolve::{settle, sound};
use super::sources::layers::Layers;
use super::*;
use crate::cri::{CriError, Endpoint, EndpointCandidates, Named};
use crate::model::{AgentSettings, EvictionLimits, LeftoverKind, PodSourceName};
use crate::plan::{Guards, Policy, Profile};

/// A temporary directory with configuration files.
struct Etc(tempfile::TempDir);

impl Etc {
    fn new(files: &[(&str, &str)]) -> Self {
        let etc = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(etc.path("conf.d")).unwrap();
        for (name, text) in [&[("crictl.yaml", "")], files].concat() {
            std::fs::write(etc.path(name), text).unwrap();
        }
        etc
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// Returns the start of the paths in messages.
    fn shown(&self) -> String {
        format!("{}/", self.0.path().display())
    }

    fn environment(&self) -> Environment {
        Environment {
            config: Some(self.path("kubegc.toml")),
            crictl_config: Some(self.path("crictl.yaml")),
            ..Environment::default()
        }
    }

    fn load(&self, typed: &Typed) -> Result<Loaded, ConfigError> {
        load(typed, &self.environment())
    }

    fn origin(&self, loaded: &Loaded, key: &str) -> String {
        let origin = loaded.origin(find(key).unwrap()).to_string();
        origin.replace(&self.shown(), "")
    }

    /// Returns the faults, one per line, without the directory's name.
    fn faults(&self, typed: &Typed) -> Vec<String> {
        let faults = self.load(typed).unwrap_err().faults;
        faults.iter().map(|fault| fault.to_string().replace(&self.shown(), "")).collect()
    }
}

fn set(set: &[&str]) -> Typed {
    Typed { set: set.iter().map(|text| (*text).to_owned()).collect(), ..Typed::default() }
}

pub(super) fn of_toml(text: &str) -> Result<Loaded, ConfigError> {
    let mut layers = Layers::default();
    layers.toml(Path::new("f"), text);
    sound(settle(layers))
}

/// Also what has no key, such as guards that follow the profile.
#[test]
fn the_settings_of_an_agent_are_those_that_it_shows() {
    let rule = "[[rule]]\nname = \"a\"\nfor = \"image\"\nwhen = \"image.pinned\"\nthen = \"keep\"\n";
    for text in [
        "",
        "profile = \"kubelet\"",
        "profile = \"kubelet\"\nguards.keep_foreign = true\nguards.gone_after = \"2m\"",
        "leftovers.remove = []\nimages.max_age = \"7d\"\nimages.targets = [\"total 9GiB..7GiB\"]\nimages.order = \"image.size_bytes\"",
        rule,
    ] {
        let mut settings = of_toml(text).unwrap().settings;
        settings.policy.eviction.images = None;
        let agent = AgentSettings { keys: settings.that_decide(), eviction: settings.policy.eviction };
        assert_eq!(Settings::of_agent(&agent), settings, "{text}");
    }
}

#[test]
fn the_command_line_changes_the_settings_of_an_agent() {
    let of = of_toml("profile = \"kubelet\"\nguards.keep_foreign = true\nimages.max_age = \"7d\"").unwrap().settings;
    let agent = AgentSettings { keys: of.that_decide(), eviction: EvictionLimits { images: None, node: None } };
    let upon = |typed| load_upon(&agent, &typed, &Environment::default()).unwrap().settings;
    let changed = upon(set(&["images.high_threshold_percent=95"]));
    assert_eq!((changed.policy.images.high_threshold_percent, changed.policy.guards.clone()), (95, of.policy.guards));
    assert_eq!(
        (changed.policy.eviction, changed.changes_of(&upon(set(&[])))),
        (agent.eviction, vec!["images.high_threshold_percent=95".to_owned()])
    );
    assert_eq!(upon(set(&["profile=safe"])).policy.guards, Guards::default(), "as for a profile of a file");
    let file = tempfile::NamedTempFile::new().unwrap();
    let named = upon(Typed { config: Some(file.path().to_owned()), ..Typed::default() });
    assert_eq!(named.policy, Policy::default(), "files that are named replace them");
    let fault = load_upon(&agent, &set(&["images.max_age=1s"]), &Environment::default()).unwrap_err();
    assert!(fault.to_string().contains("expected 0 or more than images.min_age"), "{fault}");
}

pub(super) fn messages(text: &str) -> Vec<String> {
    let faults = of_toml(text).unwrap_err().faults;
    let without_place = |fault: ConfigFault| {
        let (line, column) = fault.position().unwrap();
        fault.to_string().replacen(&format!("f:{line}:{column}:"), "f:", 1)
    };
    faults.into_iter().map(without_place).collect()
}

/// Returns the file with all defaults, each key uncommented.
fn uncommented() -> String {
    let is_key = |line: &&str| line.starts_with('#') && !line.starts_with("# ") && *line != "#";
    let lines = default_toml();
    lines.lines().map(|line| if is_key(&line) { &line[1..] } else { line }.to_owned() + "\n").collect()
}

#[test]
fn the_commented_file_says_what_the_code_says() {
    assert_eq!(of_toml(&uncommented()).unwrap().settings, Settings::default());
    let mut layers = Layers::default();
    layers.toml(Path::new("f"), &uncommented());
    let written: BTreeSet<_> = layers.entries.iter().map(|entry| entry.key.as_str()).collect();
    let known: BTreeSet<_> = KEYS.iter().map(|key| key.name).collect();
    assert_eq!(written, known);
    for entry in &layers.entries {
        assert_eq!(entry.value, find(&entry.key).unwrap().default(), "{}", entry.key);
    }
}

/// A key that is set would override the kubelet's configuration, and each guard the profile.
#[test]
fn the_commented_file_sets_no_key() {
    let mut layers = Layers::default();
    layers.toml(Path::new("f"), &default_toml());
    assert_eq!(layers.entries.len(), 0, "{:?}", layers.entries);
    assert_eq!(layers.faults, []);
}

#[test]
fn the_commented_file_names_every_flag_of_its_key() {
    let text = default_toml();
    for flag in KEYS.iter().filter_map(Key::flag) {
        assert!(text.contains(&format!("# Flag: --{flag}\n")), "--{flag}");
    }
}

/// Compares a file with what the declarations make of it. `scripts/generate.sh` writes it instead.
#[expect(clippy::disallowed_methods, reason = "scripts/generate.sh sets a variable for the test")]
fn is_current(file: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("KUBEGC_GENERATE").is_some() {
        std::fs::write(&path, generated).unwrap();
    }
    assert!(std::fs::read_to_string(&path).unwrap() == generated, "{file} is not current: run scripts/generate.sh");
}

#[test]
fn generated_files_are_current() {
    is_current("config/default.toml", &default_toml());
    is_current("docs/configuration.md", &reference());
}

#[test]
fn generated_lines_have_at_most_120_columns() {
    let (toml, markdown) = (default_toml(), reference());
    let is_text = |line: &&str| !line.starts_with("- Value: ");
    let long: Vec<_> = toml.lines().chain(markdown.lines().filter(is_text)).filter(|line| line.len() > 120).collect();
    assert_eq!(long, Vec::<&str>::new());
}

#[test]
fn the_schema_holds_the_commented_file_and_refuses_others() {
    let schema = jsonschema::validator_for(&schema()).unwrap();
    let valid = |text: &str| schema.is_valid(&serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap());
    assert!(valid(&uncommented()));
    assert!(valid(&default_toml()));
    assert!(valid(""));
    assert!(!valid("colour = 1"));
    assert!(!valid("[images]\nkeep_all = true"));
    assert!(!valid("[images]\nhigh_threshold_percent = 101"));
    assert!(!valid("profile = \"wild\""));
}

#[test]
fn what_config_show_prints_can_be_read_again() {
    let etc = Etc::new(&[("kubegc.toml", "profile = \"kubelet\"\n[images]\nkeep = [\"a-b*\"]\nmax_age = \"36h\"\n")]);
    let loaded = etc.load(&set(&["guards.keep_foreign=true"])).unwrap();
    assert_eq!(of_toml(&loaded.to_toml()).unwrap().settings, loaded.settings);
}

#[test]
fn later_layers_win() {
    let etc = Etc::new(&[
        ("kubegc.toml", "[images]\nhigh_threshold_percent = 90\nlow_threshold_percent = 50\nmin_age = \"1m\"\n"),
        ("conf.d/20-b.toml", "images.high_threshold_percent = 92\n"),
        ("conf.d/10-a.toml", "[images]\nhigh_threshold_percent = 91\nlow_threshold_percent = 51\n"),
        ("conf.d/.30.toml.swp", "not toml"),
        ("conf.d/.40.toml", "not toml"),
        ("conf.d/30.toml.bak", "not toml"),
        (
            "kubelet.yaml",
            "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nimageMinimumGCAge: 5m\nimageMaximumGCAge: 9h\npodLogsDir: /data/pods\n",
        ),
    ]);
    let kubelet_config = Some(etc.path("kubelet.yaml"));
    let flags = vec![("image-maximum-gc-age", "10h".to_owned()), ("maximum-dead-containers", "-1".to_owned())];
    let typed = Typed { kubelet_config, flags, ..set(&["images.all_unused=true", "containers.max_containers=240"]) };
    let loaded = etc.load(&typed).unwrap();
    let wanted = [
        ("images.high_threshold_percent", "92", "conf.d/20-b.toml"),
        ("images.low_threshold_percent", "51", "conf.d/10-a.toml"),
        ("images.min_age", "\"1m\"", "kubegc.toml"),
        ("logs.pods_root", "\"/data/pods\"", "kubelet.yaml (podLogsDir)"),
        ("images.max_age", "\"10h\"", "--image-maximum-gc-age"),
        ("images.all_unused", "true", "--set"),
        ("containers.max_containers", "240", "--set"),
        ("images.interval", "\"5m\"", "built-in"),
        ("guards.settle", "\"1m\"", "built-in"),
    ];
    for (key, value, origin) in wanted {
        assert_eq!(find(key).unwrap().get(&loaded.settings).to_string(), value, "{key}");
        assert_eq!(etc.origin(&loaded, key), origin, "{key}");
    }
}

/// Loads kubegc's own files on top of a kubelet's file that turns its image collection off.
fn beside_a_kubelet_that_keeps_images(own: &str) -> (Etc, Loaded) {
    let kubelet =
        "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nimageGCHighThresholdPercent: 100\n";
    let etc = Etc::new(&[("kubegc.toml", own), ("kubelet.yaml", kubelet)]);
    let typed = Typed { kubelet_config: Some(etc.path("kubelet.yaml")), ..Typed::default() };
    let loaded = etc.load(&typed).unwrap();
    (etc, loaded)
}

#[test]
fn a_set_threshold_overrides_a_kubelet_without_image_collection() {
    let (etc, loaded) = beside_a_kubelet_that_keeps_images("images.high_threshold_percent = 85\n");
    assert_eq!(loaded.settings.policy.images.high_threshold_percent, 85);
    assert_eq!(etc.origin(&loaded, "images.high_threshold_percent"), "kubegc.toml");
    assert_eq!(loaded.warnings(), Vec::<String>::new());
}

#[test]
fn a_rule_that_needs_an_archive_causes_a_warning_without_one() {
    let rule = |then: &str| format!("[[rule]]\nname = \"jobs\"\nfor = \"log\"\nwhen = \"true\"\nthen = {then}\n");
    let warnings = |text: String, has_kubelet: bool| {
        let etc = Etc::new(&[]);
        let kubelet = etc.path("kubelet");
        std::fs::write(etc.path("kubegc.toml"), format!("kubelet_root = {:?}\n{text}", kubelet.display().to_string()))
            .unwrap();
        if has_kubelet {
            std::fs::create_dir_all(kubelet.join("pods")).unwrap();
        }
        etc.load(&Typed::default()).unwrap().warnings()
    };
    let short = "rule \"jobs\": the kubelet deletes the logs of a pod with the pod; set logs.archive to keep them";
    let useless = "rule \"jobs\": budget has no effect without logs.archive";
    for (then, beside_kubelet, alone) in [
        ("\"keep\"", vec![short], vec![]),
        ("{ keep_for = \"72h\" }", vec![short], vec![]),
        ("{ keep_for = \"0s\" }", vec![], vec![]),
        ("{ budget = \"1GiB\", keep_for = \"72h\" }", vec![useless], vec![useless]),
    ] {
        assert_eq!(
            (warnings(rule(then), true), warnings(rule(then), false)),
            (to_strings(&beside_kubelet), to_strings(&alone)),
            "{then}"
        );
        let archived = format!("logs.archive = [\"keep 1h\"]\n{}", rule(then));
        assert_eq!(warnings(archived, true), Vec::<String>::new(), "{then}");
    }
}

/// A file of a version that removed them is no error (I21).
#[test]
fn pull_records_in_the_kinds_to_remove_cause_a_warning() {
    let etc = Etc::new(&[("kubegc.toml", "leftovers.remove = [\"pull_record\", \"pod_directory\"]\n")]);
    let loaded = etc.load(&Typed::default()).unwrap();
    assert_eq!(loaded.settings.policy.leftovers.0, [LeftoverKind::PodDirectory].into());
    let [warning] = &loaded.warnings()[..] else { panic!("{:?}", loaded.warnings()) };
    let expected =
        "leftovers.remove: pull_record has no effect: without the kubelet's record any pod could use a private image";
    assert!(warning.contains("kubegc.toml") && warning.contains(expected), "{warning}");
}

fn to_strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

#[test]
fn a_kubelet_without_image_collection_causes_a_warning() {
    let (etc, loaded) = beside_a_kubelet_that_keeps_images("");
    assert_eq!(loaded.settings.policy.images.high_threshold_percent, 100);
    let expected = format!(
        "{}: imageGCHighThresholdPercent = 100 turns off kubegc's image collection for disk space too; \
         set images.high_threshold_percent",
        etc.path("kubelet.yaml").display()
    );
    assert_eq!(loaded.warnings(), [expected]);
    let (_, loaded) = beside_a_kubelet_that_keeps_images("images.high_threshold_percent = 100\n");
    assert_eq!(loaded.warnings(), Vec::<String>::new(), "our own file says so");
}

#[test]
fn number_like_text_is_kept_as_text() {
    let etc = Etc::new(&[("kubegc.toml", "")]);
    for text in ["12345", "1e3", "true", "2024-01-01", "0x10", "inf", "[a]", "{}"] {
        let flag = Typed { flags: vec![("node-name", text.to_owned())], ..Typed::default() };
        assert_eq!(etc.load(&flag).unwrap().settings.node, text);
        assert_eq!(etc.load(&set(&[&format!("node={text}")])).unwrap().settings.node, text);
        let environment = Environment { node_name: Some(text.to_owned()), ..etc.environment() };
        assert_eq!(load(&Typed::default(), &environment).unwrap().settings.node, text);
    }
    assert_eq!(etc.load(&set(&["node=\"12345\""])).unwrap().settings.node, "12345", "quoted as in a file");
    let flags = [("state", "7"), ("lock", "8"), ("kubeconfig", "9")].map(|(flag, text)| (flag, text.to_owned()));
    let settings = etc.load(&Typed { flags: flags.to_vec(), ..Typed::default() }).unwrap().settings;
    assert_eq!((settings.state.path, settings.state.lock), ("7".into(), "8".into()));
    assert_eq!(settings.pods.kubeconfigs, [PathBuf::from("9")]);
    let keep = etc.load(&set(&["images.keep=2024"])).unwrap().settings.policy.images.keep;
    assert_eq!(keep, ["2024".into()]);
}

/// Loads the sockets of the runtime and of the image service from five places: flags, environment, kubegc's file,
/// crictl's, the kubelet's. Returns those that count, with their origin.
fn sockets([flag, variable, own, crictl, kubelet]: [[&str; 2]; 5]) -> [String; 2] {
    let text = |[runtime_key, images_key]: [&str; 2], is: &str, [runtime, images]: [&str; 2]| {
        format!("{runtime_key}{is} \"{runtime}\"\n{images_key}{is} \"{images}\"\n")
    };
    let header = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n";
    let kubelet = text(["containerRuntimeEndpoint", "imageServiceEndpoint"], ":", kubelet);
    let etc = Etc::new(&[
        ("kubegc.toml", &text(["runtime.endpoint", "runtime.image_endpoint"], " =", own)),
        ("conf.d/empty.toml", "runtime.endpoint = \"\"\n"),
        ("kubelet.yaml", &format!("{header}{kubelet}")),
        ("crictl.yaml", &text(["runtime-endpoint", "image-endpoint"], ":", crictl)),
    ]);
    let flags = [("runtime-endpoint", flag[0].to_owned()), ("image-endpoint", flag[1].to_owned())];
    let typed = Typed { kubelet_config: Some(etc.path("kubelet.yaml")), flags: flags.to_vec(), ..Typed::default() };
    let [runtime_endpoint, image_endpoint] = variable.map(|socket| Some(socket.to_owned()));
    let loaded = load(&typed, &Environment { runtime_endpoint, image_endpoint, ..etc.environment() }).unwrap();
    let EndpointCandidates { runtime, images, .. } = loaded.candidates();
    let text = |Named { endpoint, named_by }| format!("{endpoint} by {named_by}").replace(&etc.shown(), "");
    [runtime, images].map(|named| named.map_or_else(String::new, text))
}

#[test]
fn the_strongest_source_that_names_a_socket_wins() {
    let mut places = [
        ["/flag", "/flag-i"],
        ["/env", "/env-i"],
        ["/own", "/own-i"],
        ["unix:///crictl", "/crictl-i"],
        ["unix:///kubelet", "/kubelet-i"],
    ];
    assert_eq!(sockets(places), ["/flag by --runtime-endpoint", "/flag-i by --image-endpoint"]);
    places[0] = ["", ""];
    assert_eq!(sockets(places), ["/env by $CONTAINER_RUNTIME_ENDPOINT", "/env-i by $IMAGE_SERVICE_ENDPOINT"]);
    places[1] = [" ", ""];
    assert_eq!(sockets(places), ["/own by kubegc.toml", "/own-i by kubegc.toml"]);
    places[2] = ["", ""];
    let crictl = ["unix:///crictl by crictl.yaml (runtime-endpoint)", "/crictl-i by crictl.yaml (image-endpoint)"];
    assert_eq!(sockets(places), crictl);
    places[3] = ["", "/crictl-i"];
    let kubelet = [
        "unix:///kubelet by kubelet.yaml (containerRuntimeEndpoint)",
        "/kubelet-i by kubelet.yaml (imageServiceEndpoint)",
    ];
    assert_eq!(sockets(places), kubelet);
    places[4] = ["", "/kubelet-i"];
    assert_eq!(sockets(places), ["", ""]);
}

#[test]
fn the_image_endpoint_follows_the_runtime_endpoint_origin() {
    let none = ["", ""];
    let crictl = ["/crictl", "/crictl-i"];
    let by_crictl = "/crictl by crictl.yaml (runtime-endpoint)";
    let rows = [
        ("a flag alone", [["/a", ""], none, none, none, none], ["/a by --runtime-endpoint", ""]),
        (
            "the flag names the runtime, the file the images",
            [["/a", ""], none, ["/b", "/b-i"], none, none],
            ["/a by --runtime-endpoint", "/b-i by kubegc.toml"],
        ),
        (
            "crictl's images do not go with another runtime",
            [["/a", ""], none, none, crictl, none],
            ["/a by --runtime-endpoint", ""],
        ),
        (
            "crictl names the runtime, the flag the images",
            [["", "/a-i"], none, none, crictl, none],
            [by_crictl, "/a-i by --image-endpoint"],
        ),
        ("crictl names the runtime alone", [none, none, none, ["/crictl", ""], none], [by_crictl, ""]),
    ];
    for (row, places, expected) in rows {
        assert_eq!(sockets(places), expected, "{row}");
    }
}

#[test]
fn the_found_socket_is_shown_with_its_origin() {
    let etc = Etc::new(&[("kubegc.toml", "")]);
    let found = Endpoint::at("/run/a.sock".to_owned());
    let shown = |typed: &Typed, found| {
        let text = etc.load(typed).unwrap().with_endpoint(&found).to_toml();
        of_toml(&text).unwrap();
        let lines = text.lines().filter(|line| line.contains("endpoint = ") && !line.starts_with("kubelet"));
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    let searched =
        ["endpoint = \"/run/a.sock\" # well-known socket", "image_endpoint = \"/run/a.sock\" # as runtime.endpoint"];
    assert_eq!(shown(&Typed::default(), Ok(found.clone())), searched);
    let named = ["endpoint = \"unix:///run/a.sock\" # --set", "image_endpoint = \"/run/a.sock\" # as runtime.endpoint"];
    assert_eq!(shown(&set(&["runtime.endpoint=unix:///run/a.sock"]), Ok(found)), named);
    let missing = [
        (CriError::NoEndpoint { tried: vec!["/run/b.sock".to_owned()] }, "no runtime found"),
        (
            CriError::Unconnected {
                endpoint: "/run/b.sock".into(),
                cause: std::io::ErrorKind::ConnectionRefused.into(),
            },
            "/run/b.sock: nothing listens on this socket",
        ),
    ];
    for (error, cause) in missing {
        let missed = shown(&Typed::default(), Err(error));
        assert!(missed[0].starts_with(&format!("endpoint = \"\" # {cause}")), "{missed:?}");
        assert_eq!(missed[1], "image_endpoint = \"\" # built-in");
    }
}

#[test]
fn only_the_service_retries_for_the_patience() {
    let etc = Etc::new(&[("kubegc.toml", "")]);
    let loaded = etc.load(&Typed::default()).unwrap();
    assert_eq!(loaded.settings.runtime.options.patience, Duration::from_secs(10));
    assert_eq!(loaded.for_command(&etc.environment()).settings.runtime.options.patience, Duration::ZERO);
}

#[test]
fn drop_ins_are_read_in_order_of_name() {
    // Enough files that no file system lists them in the right order by chance.
    let files: Vec<_> =
        (10..60).map(|n| (format!("conf.d/{n}.toml"), format!("images.interval = \"{n}m\"\n"))).collect();
    let mut files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    files.rotate_left(20);
    files.push(("kubegc.toml", ""));
    let loaded = Etc::new(&files).load(&Typed::default()).unwrap();
    assert_eq!(loaded.settings.intervals.images, Duration::from_mins(59));
}

#[test]
fn an_empty_name_leaves_it_to_the_source_before() {
    let etc = Etc::new(&[
        ("kubegc.toml", "runtime.endpoint = \"/own\"\n"),
        ("conf.d/default.toml", "node = \"\"\nruntime.endpoint = \"\"\n"),
    ]);
    let loaded = etc.load(&Typed::default()).unwrap();
    assert_eq!(loaded.settings.runtime.endpoint.as_deref(), Some("/own"));
    assert_eq!(etc.origin(&loaded, "node"), "host name");
    assert_ne!(loaded.settings.node, "");
}

/// A file at the default place is optional; one that a person names is meant.
#[test]
fn an_unreadable_crictl_file_from_environment_fails() {
    let etc =
        Etc::new(&[("kubegc.toml", ""), ("broken.yaml", "runtime-endpoint: [\n"), ("list.yaml", "- /run/a.sock\n")]);
    for (name, cause) in [("absent.yaml", "No such file"), ("broken.yaml", ""), ("list.yaml", "")] {
        let environment = Environment { crictl_config: Some(etc.path(name)), ..etc.environment() };
        let error = load(&Typed::default(), &environment).unwrap_err().to_string();
        let path = etc.path(name).display().to_string();
        assert!(error.starts_with(&format!("$CRI_CONFIG_FILE: cannot read {path}: {cause}")), "{error}");
        let named = load(&set(&["runtime.endpoint=/run/a.sock"]), &environment).unwrap();
        assert_eq!(named.settings.runtime.endpoint.as_deref(), Some("/run/a.sock"), "it does not matter then");
    }
}

#[test]
fn crictls_file_is_looked_for_on_the_host() {
    let etc = Etc::new(&[("kubegc.toml", "")]);
    std::fs::create_dir(etc.path("etc")).unwrap();
    // The symlink is absolute for the host.
    std::os::unix::fs::symlink("/crictl", etc.path("etc/crictl.yaml")).unwrap();
    std::fs::write(etc.path("crictl"), "runtime-endpoint: /here\n").unwrap();
    let host_root = format!("host_root={}", etc.0.path().display());
    let environment = Environment { crictl_config: None, ..etc.environment() };
    let loaded = load(&set(&[&host_root]), &environment).unwrap();
    assert_eq!(loaded.settings.runtime.endpoint.as_deref(), Some("/here"));
    assert_eq!(loaded.candidates().host.root(), etc.0.path());
    assert_eq!(etc.load(&Typed::default()).unwrap().settings.runtime.endpoint, None);
}

#[test]
fn all_faults_are_reported_together_with_place_and_hint() {
    let etc = Etc::new(&[
        (
            "kubegc.toml",
            "profil = \"safe\"\n[images]\nhigh_threshold_percent = 120\nmin_age = 120\nmax_age = \"-1h\"\n[image]\nkeep = []\n[nonsense]\n",
        ),
        ("conf.d/a.toml", "[logs]\npods_root = \"/\"\n"),
        ("conf.d/b.toml", "x = ,\n"),
    ]);
    let typed =
        Typed { flags: vec![("maximum-dead-containers", "many".to_owned())], ..set(&["pods.source=kube", "nothing"]) };
    insta::assert_snapshot!(etc.faults(&typed).join("\n"), @r#"
    conf.d/b.toml:1:5: not TOML: unexpected key or value, expected newline, `#`
    --set: "nothing" is not key=value
    kubegc.toml:7:1: image.keep = []: no such setting; did you mean images.keep?
    kubegc.toml:3:1: images.high_threshold_percent = 120: expected an integer from 0 to 100
    kubegc.toml:5:1: images.max_age = "-1h": expected a duration such as "90s", "2m", "168h" or "7d", at most 100 years
    kubegc.toml:4:1: images.min_age = 120: expected a unit: "120s" for seconds, "120m" for minutes
    kubegc.toml:8:2: nonsense = {}: no such setting
    kubegc.toml:1:1: profil = "safe": no such setting; did you mean profile?
    conf.d/a.toml:2:1: logs.pods_root = "/": expected an absolute path without "..", and not "/"
    --maximum-dead-containers: containers.max_containers = "many": expected an integer; negative = no limit
    --set: pods.source = "kube": expected "auto", "none", or one or several of "kube-api", "kubelet" and "runtime", each once, with commas
    "#);
}

#[test]
fn a_wrong_limit_on_logs_is_reported() {
    let etc = Etc::new(&[("kubegc.toml", "")]);
    let fault = |value: &str| etc.faults(&set(&[&format!("logs.limits={value}")])).join("\n");
    for limit in ["pod", "pod 0", "node 10", "pods 1GiB"] {
        let expected =
            format!("\"{limit}\" is not a limit: expected \"pod BYTES\", \"namespace BYTES\" or \"node BYTES\"");
        assert!(fault(limit).contains(&expected), "{}", fault(limit));
    }
    assert!(fault("pod 1GiB,pod 2GiB").contains("expected a list of limits such as"), "{}", fault("pod 1GiB,pod 2GiB"));
    let loaded = etc.load(&set(&["logs.limits=node 10GiB, pod 200MiB"])).unwrap();
    let limits = loaded.settings.policy.logs.limits.iter().map(ToString::to_string);
    assert_eq!(limits.collect::<Vec<_>>(), ["node 10GiB", "pod 200MiB"]);
}

#[test]
fn each_bad_value_is_reported_what_is_right() {
    let cases = [
        (
            "containers.min_age = \"soon\"",
            "f: containers.min_age = \"soon\": expected a duration such as \"90s\", \"2m\", \"168h\" or \"7d\", at most 100 years",
        ),
        (
            "containers.min_age = 90",
            "f: containers.min_age = 90: expected a unit: \"90s\" for seconds, \"90m\" for minutes",
        ),
        (
            "containers.min_age = \"90\"",
            "f: containers.min_age = \"90\": expected a unit: \"90s\" for seconds, \"90m\" for minutes",
        ),
        (
            "containers.interval = \"0s\"",
            "f: containers.interval = \"0s\": expected a duration of at least 1s, such as \"90s\", \"2m\" or \"1h\", at most 100 years",
        ),
        (
            "containers.max_containers = 1.5",
            "f: containers.max_containers = 1.5: expected an integer; negative = no limit",
        ),
        ("containers.age_from = \"birth\"", "f: containers.age_from = \"birth\": expected \"created\" or \"finished\""),
        (
            "images.low_threshold_percent = -1",
            "f: images.low_threshold_percent = -1: expected an integer from 0 to 100",
        ),
        (
            "images.low_threshold_percent = \"80%\"",
            "f: images.low_threshold_percent = \"80%\": expected an integer from 0 to 100",
        ),
        (
            "images.keep = [\"\"]",
            "f: images.keep = [\"\"]: expected a list of image names such as [\"registry.k8s.io/pause:*\"]",
        ),
        ("images.all_unused = \"yes\"", "f: images.all_unused = \"yes\": expected true or false"),
        (
            "logs.pods_root = \"/\"",
            "f: logs.pods_root = \"/\": expected an absolute path without \"..\", and not \"/\"",
        ),
        ("host_root = \"host\"", "f: host_root = \"host\": expected an absolute path without \"..\""),
        (
            "runtime.endpoint = \"tcp://x:1\"",
            "f: runtime.endpoint = \"tcp://x:1\": expected a unix socket such as \"unix:///run/containerd/containerd.sock\"",
        ),
        (
            "logs.pods_root = \"/var/log\"",
            "f: logs.pods_root = \"/var/log\": is a directory of the system; choose another path",
        ),
        ("state.path = \"/etc/\"", "f: state.path = \"/etc/\": is a directory of the system; choose another path"),
        (
            "images.keep = [\"a b\"]",
            "f: images.keep = [\"a b\"]: a pattern is not an image name, so it matches nothing; expected a list of image names such as [\"registry.k8s.io/pause:*\"]",
        ),
        (
            "pressure.free_bytes = 65536",
            "f: pressure.free_bytes = 65536: expected a unit: \"65536MiB\" or \"65536GiB\"",
        ),
        ("pressure.free_bytes = \"1\"", "f: pressure.free_bytes = \"1\": expected a unit: \"1MiB\" or \"1GiB\""),
        ("pod_gc.per_namespace = -1", "f: pod_gc.per_namespace = -1: expected an integer from 0"),
        ("state.path = \"\"", "f: state.path = \"\": expected a path"),
        ("node = 1", "f: node = 1: expected a string"),
        ("profile = \"wild\"", "f: profile = \"wild\": expected \"safe\" or \"kubelet\" or \"upstream\""),
        (
            "runtime.removal_timeout = \"0s\"",
            "f: runtime.removal_timeout = \"0s\": expected a duration of at least 1s, such as \"90s\", \"2m\" or \"1h\", at most 100 years",
        ),
        ("pods.kubeconfig = 7", "f: pods.kubeconfig = 7: expected a path, or several with \":\" between them"),
        ("log.format = 1", "f: log.format = 1: expected \"text\" or \"json\""),
        ("images = 5", "f: images = 5: expected a table [images]"),
        ("images.keep.all = true", "f: images.keep.all = true: no such setting; did you mean images.keep?"),
        (
            "imageGCHighThresholdPercent = 70",
            "f: imageGCHighThresholdPercent = 70: no such setting; did you mean images.high_threshold_percent?",
        ),
    ];
    for (text, wanted) in cases {
        assert_eq!(messages(text), [wanted], "{text}");
    }
}

#[test]
fn sources_of_pods_are_written_as_words_with_commas() {
    use PodSourceName::{Auto, KubeApi, Kubelet, None, Runtime};
    let rows: [(&str, &[PodSourceName]); 6] = [
        ("auto", &[Auto]),
        ("none", &[None]),
        ("runtime", &[Runtime]),
        ("kube-api,kubelet", &[KubeApi, Kubelet]),
        ("kubelet, kube-api ,runtime", &[Kubelet, KubeApi, Runtime]),
        ("kubelet,runtime", &[Kubelet, Runtime]),
    ];
    for (text, expected) in rows {
        let sources = of_toml(&format!("pods.source = \"{text}\"")).unwrap().settings.pods.sources;
        assert_eq!(sources, expected, "{text}");
    }
    for text in ["kube", "", "auto,kubelet", "kubelet,none", "kubelet,kubelet", "kubelet,", "kubelet kube-api"] {
        let wanted = format!(
            "f: pods.source = \"{text}\": expected \"auto\", \"none\", or one or several of \"kube-api\", \"kubelet\" and \"runtime\", each once, with commas"
        );
        assert_eq!(messages(&format!("pods.source = \"{text}\"")), [wanted]);
    }
}

#[test]
fn pod_sources_may_be_a_list_of_toml() {
    let sources = |text: &str| of_toml(text).map(|loaded| loaded.settings.pods.sources);
    let both = vec![PodSourceName::KubeApi, PodSourceName::Kubelet];
    assert_eq!(sources("pods.source = [\"kube-api\", \"kubelet\"]").unwrap(), both);
    for wrong in ["[]", "[\"auto\", \"kubelet\"]", "[7]"] {
        assert!(sources(&format!("pods.source = {wrong}")).is_err(), "{wrong}");
    }
}

#[test]
fn a_list_setting_takes_a_toml_array() {
    let settings = of_toml("pods.kubeconfig = [\"/a\", \"/b\"]\nimages.keep = \"a\"").unwrap().settings;
    assert_eq!(settings.pods.kubeconfigs, [PathBuf::from("/a"), "/b".into()]);
    assert_eq!(settings.policy.images.keep, ["a".into()]);
    assert!(of_toml("pods.kubeconfig = [7]").is_err());
}

#[test]
fn kubelet_credentials_must_be_complete_and_encrypted() {
    let plain = "kubelet_endpoint = \"http://127.0.0.1:10255\"\n";
    let cases = [
        (
            "kubelet_client_certificate = \"/c\"",
            "f: pods.kubelet_client_certificate = \"/c\": expected together with pods.kubelet_client_key, which is \"\" (built-in)",
        ),
        (
            "kubelet_client_key = \"/k\"",
            "f: pods.kubelet_client_key = \"/k\": expected together with pods.kubelet_client_certificate, which is \"\" (built-in)",
        ),
        (
            &format!("{plain}kubelet_token_file = \"/t\""),
            "f: pods.kubelet_token_file = \"/t\": expected \"https\" in pods.kubelet_endpoint, which is \"http://127.0.0.1:10255\" (f)",
        ),
        (
            &format!("{plain}kubelet_ca = \"/a\""),
            "f: pods.kubelet_ca = \"/a\": expected \"https\" in pods.kubelet_endpoint, which is \"http://127.0.0.1:10255\" (f)",
        ),
        (
            &format!("{plain}kubelet_client_certificate = \"/c\"\nkubelet_client_key = \"/c\""),
            "f: pods.kubelet_client_certificate = \"/c\": expected \"https\" in pods.kubelet_endpoint, which is \"http://127.0.0.1:10255\" (f)",
        ),
        (
            "kubelet_endpoint = \"127.0.0.1:10250\"",
            "f: pods.kubelet_endpoint = \"127.0.0.1:10250\": expected an address such as \"https://127.0.0.1:10250\"",
        ),
        (
            "kubelet_endpoint = \"https://127.0.0.1:10250/pods\"",
            "f: pods.kubelet_endpoint = \"https://127.0.0.1:10250/pods\": expected an address such as \"https://127.0.0.1:10250\"",
        ),
    ];
    for (text, wanted) in cases {
        assert_eq!(messages(&format!("[pods]\n{text}")), [wanted], "{text}");
    }
    assert!(of_toml("[pods]\nkubelet_client_certificate = \"/c\"\nkubelet_client_key = \"/c\"").is_ok());
    assert!(of_toml(&format!("[pods]\n{plain}")).is_ok());
}

#[test]
fn the_environments_kubeconfig_is_weaker_than_a_flag() {
    let etc = Etc::new(&[("kubegc.toml", "")]);
    let environment = Environment { kubeconfig: Some("/e::/g".to_owned()), ..etc.environment() };
    let kubeconfig =
        |flags| load(&Typed { flags, ..Typed::default() }, &environment).unwrap().settings.pods.kubeconfigs;
    assert_eq!(kubeconfig(Vec::new()), [PathBuf::from("/e"), "/g".into()]);
    assert_eq!(kubeconfig(vec![("kubeconfig", "/f".to_owned())]), [PathBuf::from("/f")]);
}

#[test]
fn settings_must_fit_together() {
    let cases = [
        (
            "images.high_threshold_percent = 70",
            "f: images.high_threshold_percent = 70: expected at least images.low_threshold_percent, which is 80 (built-in)",
        ),
        (
            "images.low_threshold_percent = 90",
            "f: images.low_threshold_percent = 90: expected at most images.high_threshold_percent, which is 85 (built-in)",
        ),
        (
            "images.max_age = \"2m\"",
            "f: images.max_age = \"2m\": expected 0 or more than images.min_age, which is \"2m\" (built-in)",
        ),
        (
            "logs.pods_root = \"/var/log/containers/pods\"",
            "f: logs.pods_root = \"/var/log/containers/pods\": expected a directory apart from logs.containers_root, which is \"/var/log/containers\" (built-in)",
        ),
    ];
    for (text, wanted) in cases {
        assert_eq!(messages(text), [wanted], "{text}");
    }
    // A value that is wrong alone is reported only once.
    assert_eq!(messages("images.high_threshold_percent = 170\nimages.low_threshold_percent = 90").len(), 1);
    assert!(of_toml("images.high_threshold_percent = 80").is_ok());
    assert!(of_toml("images.max_age = \"121s\"").is_ok());
    assert!(of_toml("images.max_age = 0\nimages.min_age = \"9h\"").is_ok());
}

#[test]
fn guards_in_files_override_the_profile_in_files() {
    let etc = Etc::new(&[
        ("kubegc.toml", "profile = \"safe\"\n[guards]\nkeep_foreign = true\n"),
        ("conf.d/a.toml", "profile = \"kubelet\"\n"),
    ]);
    let loaded = etc.load(&Typed::default()).unwrap();
    assert_eq!(loaded.settings.policy.profile, Profile::Kubelet);
    assert_eq!(loaded.settings.policy.guards, Guards { keep_foreign: true, ..Guards::of(Profile::Kubelet) });
    assert_eq!(etc.origin(&loaded, "guards.settle"), "profile kubelet");
    assert_eq!(etc.origin(&loaded, "guards.keep_foreign"), "kubegc.toml");
}

#[test]
fn a_command_line_profile_discards_guards_in_files() {
    let etc = Etc::new(&[("kubegc.toml", "[guards]\nkeep_foreign = true\nsettle = \"9m\"\n")]);
    for profile in
        [Typed { flags: vec![("profile", "kubelet".to_owned())], ..Typed::default() }, set(&["profile=kubelet"])]
    {
        let mut typed = profile;
        typed.set.insert(0, "guards.gone_after=5m".to_owned());
        let guards = etc.load(&typed).unwrap().settings.policy.guards;
        assert_eq!(guards, Guards { gone_after: Duration::from_mins(5), ..Guards::of(Profile::Kubelet) });
    }
}

#[test]
fn set_needs_no_quotes() {
    let etc = Etc::new(&[("kubegc.toml", "")]);
    let typed = set(&[
        "containers.min_age=2m",
        "images.max_age = \"7d\"",
        "images.keep=docker.io/library/*",
        "images.low_threshold_percent=60",
        "images.min_age=0",
    ]);
    let policy = etc.load(&typed).unwrap().settings.policy;
    assert_eq!(policy.containers.min_age, Duration::from_mins(2));
    assert_eq!(policy.images.max_age, Duration::from_hours(168));
    assert_eq!(policy.images.keep, ["docker.io/library/*".into()]);
    assert_eq!(policy.images.low_threshold_percent, 60);
    assert_eq!(policy.images.min_age, Duration::ZERO);
    assert_eq!(etc.load(&set(&["images.keep=[\"a\", \"b\"]"])).unwrap().settings.policy.images.keep.len(), 2);
}

#[test]
fn a_named_file_must_be_there() {
    let etc = Etc::new(&[]);
    let message = "cannot be read: No such file or directory (os error 2)";
    assert_eq!(etc.faults(&Typed::default()), [format!("kubegc.toml: {message}")]);
    let kubelet_config = Some(etc.path("kubelet.yaml"));
    assert_eq!(etc.faults(&Typed { kubelet_config, ..Typed::default() })[0], format!("kubelet.yaml: {message}"));
}

#[test]
fn a_pace_has_each_part_once_and_none_of_nothing() {
    let pace =
        |text: &str| of_toml(&format!("[images]\npace = [{text}]")).map(|loaded| loaded.settings.policy.images.pace);
    let whole = pace("'images 20', 'bytes 50GiB', 'pause 5s', 'start 10m'").unwrap();
    let seconds = (whole.pause_seconds, whole.start_seconds);
    assert_eq!((whole.images, whole.bytes, seconds), (Some(20), Some(50 << 30), (5, 600)));
    for wrong in
        ["images 0", "images -1", "images", "bytes 5", "bytes 0", "pause 0s", "pause 61s", "start 25h", "speed 9"]
    {
        let messages = messages(&format!("images.pace = ['pause 1s', '{wrong}']"));
        assert!(messages[0].contains(&format!("{wrong:?} is not a part of a pace")), "{messages:?}");
    }
    assert!(pace("'images 1', 'images 2'").is_err());
}

#[test]
fn a_file_that_every_user_may_write_gives_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubegc.toml");
    std::fs::write(&path, "mode = \"observe\"\n").unwrap();
    let warnings = |mode| {
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        let typed = Typed { config: Some(path.clone()), ..Typed::default() };
        super::sources::layers::Layers::read(&typed, &Environment::default()).warnings
    };
    assert_eq!(warnings(0o664), Vec::<String>::new());
    let warned = warnings(0o666);
    assert!(warned.len() == 1 && warned[0].starts_with("every user may write "), "{warned:?}");
}
