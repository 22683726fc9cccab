//! The command line as a user sees it: hermetic, with transcripts.

mod cluster;
mod habits;
mod images;
mod lab;
mod past;
mod sizes;
mod times;

use std::io::{BufRead, BufReader, Write as _};
use std::process::Stdio;
use std::time::Duration;

use kubegc::model::Snapshot;
use kubegc::plan::{FailureCause, Measure, Outcome, Plan, Policy, Pressure, Refusal, Report, Scope, Summary, decide};
use kubegc::record::{Retention, RunEnd, RunStart, Store};

use crate::shell::Shell;

/// A snapshot of a node with a full image disk.
const FULL_DISK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/snapshots/full_disk.json");
/// A snapshot with the largest sizes that there are.
const EXTREMES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/snapshots/extremes.json");

fn full_disk() -> Snapshot {
    serde_json::from_str(&std::fs::read_to_string(FULL_DISK).unwrap()).unwrap()
}

/// Returns the snapshot on one line, with another node name.
fn line(node: &str) -> String {
    serde_json::to_string(&Snapshot { node: node.to_owned(), ..full_disk() }).unwrap() + "\n"
}

/// Sums of the largest sizes overflowed.
#[test]
fn commands_show_extreme_sizes() {
    for verb in [&["plan"][..], &["images"], &["disk"], &["lab", "--suggest", "--since", "2026-01-01"]] {
        let text = Shell::new().run(&[verb, &["--snapshot", EXTREMES]].concat());
        assert!(!text.starts_with("exit"), "{verb:?}: {text}");
    }
}

#[test]
fn a_plan_shows_removals_and_reasons_to_keep() {
    insta::assert_snapshot!(Shell::new().run(&["plan", "--snapshot", FULL_DISK]), @"
    KIND       ID             NAME                              AGE    SIZE      WHY
    container  f019e610bfc59  shop/old-6c5b9/app                33h              pod deleted
    container  2ed73f9875cda  shop/crash-7d9f4/worker           60m              over containers.max_per_pod_container (1)
    container  30e79a31c290b  shop/crash-7d9f4/worker           50m              over containers.max_per_pod_container (1)
    container  52b3fd0091fb2  shop/crash-7d9f4/worker           40m              over containers.max_per_pod_container (1)
    sandbox    8a3c0e1cba8dd  shop/migrate-29x                  5h               pod has a newer sandbox
    sandbox    b8bd8ed4f8061  shop/old-6c5b9                    33h              pod deleted
    log dir    a6173aaf-ad5f  shop/gone-1                       2d18h            pod deleted
    log dir    85d2fd70-0962  shop/old-6c5b9                    11h              pod deleted
    log link   283bb9deef02e  shop/gone-1/app                                    dangling symlink
    image      5db2c03fbaa9f  <none>                            2d18h  88.0MiB   disk usage 91% >= 85%
    image      9b0ff0bc1b2ce  registry.example.com/web:0.9      6d6h   171.0MiB  disk usage 91% >= 85%
    image      ca3f18ddf0484  registry.example.com/ml/train:11  5d13h  3.0GiB    disk usage 91% >= 85%
    image      95a8cb4e331a8  registry.example.com/ml/train:12  2d2h   11.0GiB   disk usage 91% >= 85%

    Kept:
      3 containers        running
      2 containers        within containers.max_per_pod_container (1)
      1 container         not managed by the kubelet (guards.keep_foreign)
      1 container         possibly starting (guards.created_grace = 10m)
      4 sandboxes         sandbox ready
      1 sandbox           sandbox has containers
      5 log directories   pod exists (kube-api)
      1 log directory     unrecognized name
      1 log link          symlink target exists
      6 images            in use by a container
      1 image             not needed to reach low threshold
      1 image             pinned by the runtime
      1 image             younger than min_age (2m)

    Pods: kube-api (5 pods)
    Image disk: 91% used, 11.0GiB to free.
    1 image would be removed too if these reclaim less space than estimated (fallback candidates).
    To remove: 4 containers, 2 sandboxes, 2 log directories, 1 log link and 4 images, about 14.3GiB. 28 kept.
    ");
}

#[test]
fn a_scope_limits_the_plan() {
    insta::assert_snapshot!(Shell::new().run(&["plan", "--snapshot", FULL_DISK, "--scope", "containers"]), @"
    KIND       ID             NAME                     AGE    WHY
    container  f019e610bfc59  shop/old-6c5b9/app       33h    pod deleted
    container  2ed73f9875cda  shop/crash-7d9f4/worker  60m    over containers.max_per_pod_container (1)
    container  30e79a31c290b  shop/crash-7d9f4/worker  50m    over containers.max_per_pod_container (1)
    container  52b3fd0091fb2  shop/crash-7d9f4/worker  40m    over containers.max_per_pod_container (1)
    sandbox    8a3c0e1cba8dd  shop/migrate-29x         5h     pod has a newer sandbox
    sandbox    b8bd8ed4f8061  shop/old-6c5b9           33h    pod deleted
    log dir    a6173aaf-ad5f  shop/gone-1              2d18h  pod deleted
    log dir    85d2fd70-0962  shop/old-6c5b9           11h    pod deleted
    log link   283bb9deef02e  shop/gone-1/app                 dangling symlink

    Kept:
      3 containers        running
      2 containers        within containers.max_per_pod_container (1)
      1 container         not managed by the kubelet (guards.keep_foreign)
      1 container         possibly starting (guards.created_grace = 10m)
      4 sandboxes         sandbox ready
      1 sandbox           sandbox has containers
      5 log directories   pod exists (kube-api)
      1 log directory     unrecognized name
      1 log link          symlink target exists

    Pods: kube-api (5 pods)
    To remove: 4 containers, 2 sandboxes, 2 log directories and 1 log link. 19 kept.
    ");
}

#[test]
fn flags_change_the_plan() {
    let shell = Shell::new();
    let last = |arguments: &[&str]| {
        let all = [&["plan", "--snapshot", FULL_DISK], arguments].concat();
        shell.run(&all).lines().last().unwrap().to_owned()
    };
    insta::assert_snapshot!(last(&["--set", "images.low_threshold_percent=60"]), @"To remove: 4 containers, 2 sandboxes, 2 log directories, 1 log link and 5 images, about 14.7GiB. 27 kept.");
    insta::assert_snapshot!(last(&["--image-gc-high-threshold", "95"]), @"To remove: 4 containers, 2 sandboxes, 2 log directories and 1 log link. 32 kept.");
    insta::assert_snapshot!(last(&["--profile", "kubelet"]), @"To remove: 6 containers, 2 sandboxes, 3 log directories, 1 log link and 4 images, about 14.3GiB. 25 kept.");
    insta::assert_snapshot!(last(&["--maximum-dead-containers-per-container", "-1", "--scope=containers"]), @"To remove: 1 container, 2 sandboxes, 2 log directories and 1 log link. 22 kept.");
}

#[test]
fn the_wide_table_has_every_object() {
    let text = Shell::new().run(&["plan", "--snapshot", FULL_DISK, "-o", "wide"]);
    let plan = decide(&full_disk(), &Policy::default(), Scope::All);
    for id in plan.actions.iter().map(|action| action.target.id()).chain(plan.kept.iter().map(|kept| kept.id.clone())) {
        assert_eq!(text.split_whitespace().filter(|word| *word == id).count(), 1, "{id}\n{text}");
    }
}

/// The snapshot with a pod, a container and images of long names.
fn long_names() -> Snapshot {
    let text = std::fs::read_to_string(FULL_DISK).unwrap();
    let long = |name: &str| format!("{name}{}", "-of-a-very-long-name".repeat(5));
    let text = text.replace("\"crash-7d9f4\"", &format!("\"{}\"", long("crash")));
    let text = text.replace("\"worker\"", &format!("\"{}\"", long("worker")));
    serde_json::from_str(&text.replace("registry.example.com/", &format!("{}/", long("registry")))).unwrap()
}

/// A program may read it.
#[test]
fn in_a_pipe_every_name_and_error_is_whole() {
    let plan = decide(&long_names(), &Policy::default(), Scope::All);
    let shell = Shell::new().with("s.json", &serde_json::to_string(&long_names()).unwrap());
    store(&shell.path("kubegc.db"), &plan);
    for command in [
        &["plan", "--snapshot", "s.json"][..],
        &["history", "--state", "kubegc.db"],
        &["images", "--snapshot", "s.json"],
    ] {
        let text = shell.run(command);
        assert!(!text.contains('…') && text.contains("-of-a-very-long-name/"), "{command:?}\n{text}");
    }
    let history = shell.run(&["history", "--state", "kubegc.db"]);
    assert!(history.contains("; RemoveImage: disk quota exceeded\n"), "{history}");
}

#[test]
fn json_output_is_the_plan_on_one_line() {
    let text = Shell::new().run(&["plan", "--snapshot", FULL_DISK, "-o", "json"]);
    assert_eq!(text.lines().count(), 1);
    let plan: Plan = serde_json::from_str(&text).unwrap();
    assert_eq!(plan, decide(&full_disk(), &Policy::default(), Scope::All));
}

#[test]
fn yaml_output_is_the_same_document() {
    let text = Shell::new().run(&["plan", "--snapshot", FULL_DISK, "-o", "yaml"]);
    let plan: Plan = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(plan, decide(&full_disk(), &Policy::default(), Scope::All));
}

#[test]
fn several_snapshots_give_one_plan_per_line() {
    let input = line("n1") + "\n" + &line("n2") + &line("n3");
    let text = Shell::new().run_on(&input, &["plan", "--snapshot", "-"]);
    let nodes: Vec<_> = text.lines().map(|line| serde_json::from_str::<Plan>(line).unwrap().node).collect();
    assert_eq!(nodes, ["n1", "n2", "n3"]);
}

#[test]
fn each_plan_is_printed_before_the_next_snapshot() {
    let shell = Shell::new();
    let mut command = shell.command(&["plan", "--snapshot", "-", "-o", "json"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (sender, plans) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        BufReader::new(output).lines().for_each(|line| sender.send(line.unwrap()).unwrap());
    });
    for node in ["n1", "n2"] {
        input.write_all(line(node).as_bytes()).unwrap();
        let plan = plans.recv_timeout(Duration::from_mins(3)).expect("no plan before the next snapshot");
        assert_eq!(serde_json::from_str::<Plan>(&plan).unwrap().node, node);
    }
    drop(input);
    reader.join().unwrap();
    assert!(plans.recv().is_err());
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_invalid_line_is_reported_with_file_and_line() {
    let shell = Shell::new().with("s.jsonl", &format!("{}{}\n", line("n1"), &line("n2")[..60]));
    let text = shell.run(&["plan", "--snapshot", "s.jsonl", "-o", "json"]);
    let (status, rest) = text.split_once('\n').unwrap();
    let (plan, error) = rest.split_once('\n').unwrap();
    assert_eq!(status, "exit Some(2)");
    assert_eq!(serde_json::from_str::<Plan>(plan).unwrap().node, "n1");
    insta::assert_snapshot!(error, @r#"
    ! error: s.jsonl, line 2: control character (\u0000-\u001F) found while parsing a string
    "#);
}

#[test]
fn other_documents_are_refused_clearly() {
    let newer = line("n1").replacen('{', "{\"kind\":\"Snapshot\",\"version\":2,", 1);
    let shell = Shell::new().with("new.json", &newer).with("no.json", "\n");
    let plan = shell.run(&["plan", "--snapshot", FULL_DISK, "-o", "json"]);
    let shell = shell.with("plan.json", &plan);
    insta::assert_snapshot!(shell.run(&["plan", "--snapshot", "plan.json"]), @r#"
    exit Some(2)
    ! error: plan.json, line 1: a Snapshot is wanted, and this is a Plan
    "#);
    insta::assert_snapshot!(shell.run(&["plan", "--snapshot", "new.json"]), @r#"
    exit Some(2)
    ! error: new.json, line 1: a snapshot of version 2; this program reads version 1
    "#);
    insta::assert_snapshot!(shell.run(&["plan", "--snapshot", "no.json"]), @r#"
    exit Some(2)
    ! error: no snapshot in no.json
    ! hint: `kubegc snapshot` prints one
    "#);
    insta::assert_snapshot!(shell.run(&["plan", "--snapshot", "nowhere.json"]), @r#"
    exit Some(2)
    ! error: cannot open nowhere.json: No such file or directory (os error 2)
    "#);
}

#[test]
fn a_closed_standard_output_is_no_failure() {
    let input = line("n1").repeat(500);
    let shell = Shell::new().with("s.jsonl", &input);
    let mut command = shell.command(&["plan", "--snapshot", "s.jsonl"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn all_configuration_errors_are_reported_together_with_status_2() {
    let shell = Shell::new()
        .with("kubegc.toml", "[images]\nhigh_treshold_percent = 70\nmin_age = 120\n")
        .with("conf.d/10.toml", "pods.source = \"kube\"\n");
    insta::assert_snapshot!(shell.run(&["config", "check", "--image-gc-low-threshold", "101"]), @r#"
    exit Some(2)
    ! error: 4 faults in the configuration:
    !   kubegc.toml:2:1: images.high_treshold_percent = 70: no such setting; did you mean images.high_threshold_percent?
    !   kubegc.toml:3:1: images.min_age = 120: expected a unit: "120s" for seconds, "120m" for minutes
    !   conf.d/10.toml:1:6: pods.source = "kube": expected "auto", "none", or one or several of "kube-api", "kubelet" and "runtime", each once, with commas
    !   --image-gc-low-threshold: images.low_threshold_percent = 101: expected an integer from 0 to 100
    ! hint: `kubegc config default` prints every setting with its default
    "#);
    insta::assert_snapshot!(Shell::new().run(&["config", "check"]), @"the configuration is sound");
}

#[test]
fn a_kubelet_file_without_image_gc_causes_a_warning() {
    let kubelet =
        "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nimageGCHighThresholdPercent: 100\n";
    let shell = Shell::new().with("kubelet.yaml", kubelet);
    insta::assert_snapshot!(shell.run(&["config", "check", "--kubelet-config", "kubelet.yaml"]), @r"
    warning: kubelet.yaml: imageGCHighThresholdPercent = 100 turns off kubegc's image collection for disk space too; set images.high_threshold_percent
    the configuration is sound, with 1 warning
    ");
    let set = ["config", "check", "--kubelet-config", "kubelet.yaml", "--image-gc-high-threshold", "85"];
    insta::assert_snapshot!(shell.run(&set), @"the configuration is sound");
}

#[test]
fn the_settings_in_force_are_shown_with_their_origins() {
    let shell = Shell::new()
        .with("kubegc.toml", "profile = \"kubelet\"\n[containers]\nmax_per_pod_container = 2\n")
        .with("conf.d/10.toml", "[images]\nmax_age = \"7d\"\n")
        .with(
            "kubelet.yaml",
            "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nimageMinimumGCAge: 5m0s\n",
        );
    let arguments = "config show --kubelet-config kubelet.yaml --node-name n1 -r /r --set guards.settle=5m";
    let arguments: Vec<_> = arguments.split(' ').collect();
    insta::assert_snapshot!(shell.run(&arguments), @r#"
    profile = "kubelet"                          # kubegc.toml
    mode = "collect"                             # built-in
    quiet = []                                   # built-in
    fleet = []                                   # built-in
    rule = []                                    # built-in
    node = "n1"                                  # --node-name
    host_root = "/"                              # built-in
    kubelet_root = "/var/lib/kubelet"            # built-in

    [containers]
    min_age = "0s"                               # built-in
    max_per_pod_container = 2                    # kubegc.toml
    max_containers = -1                          # built-in
    age_from = "created"                         # built-in
    evict_terminated_pods = false                # built-in
    interval = "1m"                              # built-in

    [images]
    high_threshold_percent = 85                  # built-in
    low_threshold_percent = 80                   # built-in
    min_age = "5m"                               # kubelet.yaml (imageMinimumGCAge)
    max_age = "7d"                               # conf.d/10.toml
    keep = []                                    # built-in
    targets = []                                 # built-in
    pace = []                                    # built-in
    order = "least-recently-used"                # built-in
    undo = "0s"                                  # built-in
    all_unused = false                           # built-in
    interval = "5m"                              # built-in

    [pressure]
    free_bytes = "0"                             # built-in
    free_percent = 0                             # built-in
    free_inodes_percent = 0                      # built-in

    [logs]
    pods_root = "/var/log/pods"                  # built-in
    containers_root = "/var/log/containers"      # built-in
    leftover_max_age = "0s"                      # built-in
    limits = []                                  # built-in
    archive = []                                 # built-in

    [leftovers]
    remove = []                                  # profile kubelet
    networks_root = "/var/lib/cni/networks"      # built-in

    [guards]
    created_grace = "0s"                         # profile kubelet
    keep_foreign = false                         # profile kubelet
    sandbox_grace = "0s"                         # profile kubelet
    gone_after = "0s"                            # profile kubelet
    keep_pod_images = false                      # profile kubelet
    keep_workload_images = false                 # profile kubelet
    settle = "5m"                                # --set
    fall_hold = "0s"                             # profile kubelet
    brake_count = 0                              # profile kubelet

    [pods]
    source = "auto"                              # built-in
    kubeconfig = ""                              # built-in
    exec_plugins = false                         # built-in
    kubelet_endpoint = "https://127.0.0.1:10250" # built-in
    kubelet_ca = ""                              # built-in
    kubelet_token_file = ""                      # built-in
    kubelet_client_certificate = ""              # built-in
    kubelet_client_key = ""                      # built-in

    [runtime]
    endpoint = "/r"                              # --runtime-endpoint
    image_endpoint = "/r"                        # as runtime.endpoint
    removal_timeout = "10m"                      # built-in

    [state]
    path = "/var/lib/kubegc/kubegc.db"           # built-in
    lock = "/run/kubegc/kubegc.lock"             # built-in
    history_max_age = "30d"                      # built-in

    [events]
    enabled = true                               # built-in

    [metrics]
    address = "127.0.0.1:10273"                  # built-in
    file = ""                                    # built-in

    [log]
    format = "text"                              # built-in
    level = "info"                               # built-in

    [controller]
    address = "127.0.0.1:10274"                  # built-in
    calls_per_second = 100                       # built-in
    history = ""                                 # built-in
    janitor_annotations = []                     # built-in
    namespaces = false                           # built-in
    lease_namespace = "kubegc-system"            # built-in

    [pod_gc]
    terminated_pod_threshold = 12500             # built-in
    per_namespace = 0                            # built-in
    failed_pod_threshold = 0                     # built-in
    max_age = "0s"                               # built-in
    node_quarantine = "40s"                      # built-in
    "#);
}

#[test]
fn the_default_file_changes_nothing() {
    let shell = Shell::new();
    let default = shell.run(&["config", "default"]);
    let shown = shell.run(&["config", "show", "--node-name", "n1", "-o", "json"]);
    let again = shell.with("kubegc.toml", &default).run(&["config", "show", "--node-name", "n1", "-o", "json"]);
    let values = |text: &str| {
        let document: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).unwrap();
        document.into_iter().map(|(key, entry)| (key, entry["value"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(values(&shown), values(&again));
    let kubelet =
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nimageGCHighThresholdPercent: 82\n";
    let shell = Shell::new().with("kubegc.toml", &default).with("kubelet.yaml", kubelet);
    let shown = shell.run(&["config", "show", "--kubelet-config", "kubelet.yaml", "--set", "profile=kubelet"]);
    for line in ["high_threshold_percent = 82 ", "keep_foreign = false "] {
        assert!(shown.contains(line), "the kubelet's file and the profile count\n{shown}");
    }
}

#[test]
fn schemas_accept_real_documents_and_refuse_others() {
    let shell = Shell::new();
    let schema = |of: &str| {
        let schema = serde_json::from_str(&shell.run(&["config", "schema", of])).unwrap();
        jsonschema::validator_for(&schema).unwrap()
    };
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let snapshot = json(&std::fs::read_to_string(FULL_DISK).unwrap());
    let holds = |schema: &jsonschema::Validator, document: &serde_json::Value| {
        let errors: Vec<_> = schema.iter_errors(document).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
    };
    holds(&schema("snapshot"), &snapshot);
    holds(&schema("snapshot"), &json(&line("n1")));
    for profile in ["safe", "kubelet"] {
        let plan = json(&shell.run(&["plan", "--snapshot", FULL_DISK, "-o", "json", "--profile", profile]));
        holds(&schema("plan"), &plan);
        assert!(!schema("snapshot").is_valid(&plan));
    }
    assert!(!schema("plan").is_valid(&snapshot));
    let mut broken = snapshot;
    broken["containers"]["seen"][0]["state"] = "asleep".into();
    assert!(!schema("snapshot").is_valid(&broken));
}

#[test]
fn usage_errors_have_status_2_and_help_has_0() {
    let shell = Shell::new();
    assert!(shell.run(&["plan", "--nonsense"]).starts_with("exit Some(2)\n"));
    let prune = shell.run(&["prune"]);
    assert!(prune.starts_with("exit Some(2)\n") && prune.contains("'collect'"), "{prune}");
    let (help, settings) = (shell.run(&["plan", "--help"]), shell.run(&["config", "explain"]));
    for flag in ["--image-gc-high-threshold", "--minimum-container-ttl-duration", "--runtime-endpoint"] {
        assert!(settings.contains(flag) && !help.contains(flag), "{flag}\n{help}\n{settings}");
    }
    assert!(help.contains("--snapshot") && help.contains("`kubegc config explain`"), "{help}");
    insta::assert_snapshot!(shell.run(&["plan", "-h"]), @"
    Show what would be removed, and why (read-only)

    Usage: kubegc plan [OPTIONS] [OBJECT]...

    Arguments:
      [OBJECT]...  Include only these objects: `KIND/NAME`, `KIND NAME...`, or a form that `why` accepts

    Options:
          --snapshot <FILE>        Plan for snapshots in a file (- for standard input)
          --scope <SCOPE>          Object kinds to plan for [default: all] [possible values: containers,
                                   images, all]
          --kind <KIND>            Include only objects of these kinds [possible values: container,
                                   sandbox, log-dir, log-file, log-link, leftover, image]
      -n, --namespace <NAMESPACE>  Include only objects of this namespace; images have none
      -A, --all-namespaces         Include objects of all namespaces (default)
          --evict-terminated-pods  Also remove dead containers and sandboxes of terminated pods
          --pressure               Remove everything unused, as under disk pressure
      -h, --help                   Print help (see more with '--help')

    Options of every verb:
      -c, --config <FILE>                   Configuration file [default: /etc/kubegc/kubegc.toml] [env:
                                            `KUBEGC_CONFIG`]
          --kubelet-config <FILE>           Read defaults from this KubeletConfiguration file
          --kubelet-config-dir <DIRECTORY>  Directory with drop-in files of the KubeletConfiguration, as
                                            the kubelet's --config-dir [default: FILE.d]
          --set <KEY=VALUE>                 Set a configuration key, as
                                            `images.low_threshold_percent=60` (repeatable)
      -o, --output <FORMAT>                 Output format [possible values: table, wide, json, yaml,
                                            name]
          --no-headers                      Print tables without a header
          --no-trunc                        Do not shorten names on a terminal
          --color <WHEN>                    When to use color; auto respects `NO_COLOR` [default: auto]
                                            [possible values: auto, always, never]
      -v, --verbose...                      Log more to standard error (-vv for debug)
          --log-level <LEVEL>               Log messages of this level and above; overrides -v and
                                            `RUST_LOG` [possible values: error, warn, info, debug,
                                            trace]
      -D, --debug                           Log debug messages, as -vv
    ");
}

#[test]
fn completions_are_printed_for_every_shell() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(Shell::new().run(&["completions", shell]).contains("kubegc"), "{shell}");
    }
}

#[test]
fn why_of_a_pod_shows_phase_and_source() {
    let shell = Shell::new();
    for word in ["shop/migrate-29x", "7d54523b-cea3-0ddf-db5b-796339a26499"] {
        let why = shell.run(&["why", "--snapshot", FULL_DISK, word]);
        let pod = "pod shop/migrate-29x (7d54523b-cea3-0ddf-db5b-796339a26499), succeeded\n";
        assert!(why.starts_with(pod) && why.contains("\ncontainer "), "{why}");
        assert!(why.ends_with("\npods: kube-api (5 pods)\n") && why.matches("kube-api (5 pods)").count() == 1, "{why}");
    }
    let answers: serde_json::Value =
        serde_json::from_str(&shell.run(&["why", "--snapshot", FULL_DISK, "shop/migrate-29x", "-o", "json"])).unwrap();
    assert_eq!((&answers[0]["kind"], &answers[0]["phase"]), (&"pod".into(), &"succeeded".into()));
    assert_eq!(answers[1]["pods"]["seen"]["source"], "kube-api");
}

#[test]
fn flags_plan_as_under_disk_pressure() {
    let shell = Shell::new();
    let plan = |flag: &str| {
        let text = shell.run(&["plan", "--snapshot", FULL_DISK, flag, "-o", "json"]);
        serde_json::from_str::<Plan>(&text).unwrap()
    };
    let reasons = |plan: &Plan| {
        let reasons = plan.actions.iter().map(|action| action.reason.kind());
        reasons.filter(|kind| ["pod_terminal", "unused"].contains(kind)).collect::<std::collections::BTreeSet<_>>()
    };
    let evict = plan("--evict-terminated-pods");
    assert_eq!((reasons(&evict).into_iter().collect::<Vec<_>>(), evict.pressure), (vec!["pod_terminal"], None));
    let pressure = plan("--pressure");
    assert_eq!(reasons(&pressure).into_iter().collect::<Vec<_>>(), ["pod_terminal", "unused"]);
    assert_eq!(pressure.pressure, Some(Pressure::Requested {}));
    let text = shell.run(&["plan", "--snapshot", FULL_DISK, "--pressure"]);
    assert!(text.contains("\nPressure: requested by a flag: removing everything unused\n"), "{text}");
    assert!(text.contains("  pod terminated (disk pressure)") && text.contains("  unused (disk pressure)"), "{text}");
    for off in ["all_unused", "evict_terminated_pods"] {
        assert!(!text.contains(off), "{off} is off\n{text}");
    }
    let set = ["--set", "images.all_unused=true"];
    let text = shell.run(&[&["plan", "--snapshot", FULL_DISK, "--pressure"], &set[..]].concat());
    assert!(text.contains("  unused (images.all_unused)"), "{text}");
}

#[test]
fn why_shows_rule_setting_and_what_changes_the_decision() {
    let shell = Shell::new().with("kubegc.toml", "[images]\nkeep = [\"registry.example.com/ml/*\"]\n");
    let why = |what: &str| shell.run(&["why", "--snapshot", FULL_DISK, what]);
    insta::assert_snapshot!(why("2ed73f98"), @"
    container worker 2ed73f9875cda0716b41f8d0e3c53ebed5e19b4c847eef768cd68600f419f2b1, exited, of pod shop/crash-7d9f4
      attempt 0, created 60m ago, finished 59m ago
      remove: kubegc keeps only the newest dead container of this name in its pod, and this one is older
      setting: containers.max_per_pod_container = 1 (built-in)
      changes when: containers.max_per_pod_container is higher; a negative value is no limit

    pods: kube-api (5 pods)
    ");
    insta::assert_snapshot!(why("registry.example.com/web"), @"
    image registry.example.com/web:2.0, registry.example.com/web:latest, sha256:2c91238ec2eb73e8dee40c4d0c33bf5a08e31217e793561fd312cfd3c5b5f1de
      size 180.0MiB, first seen 11h ago, last used 0s ago
      used by: default/web-0/app, default/web-1/app
      keep: container 2855d15d983b704a6dcda09145155a23f87104b8cbe9d4e5b23ecf84f5717eed uses it
      changes when: no container uses it
    ");
    insta::assert_snapshot!(why("registry.example.com/ml/train:12"), @r#"
    image registry.example.com/ml/train:12, sha256:95a8cb4e331a803a8c93597f232d80ef48824be2a6beab7cb4e295e16398bd58
      size 11.0GiB, first seen 2d2h ago, last used 41h ago
      keep: the pattern registry.example.com/ml/* in images.keep matches it
      setting: images.keep = ["registry.example.com/ml/*"] (kubegc.toml)
      changes when: the pattern is deleted from images.keep
    "#);
    insta::assert_snapshot!(why("shop/old-6c5b9"), @r#"
    container app f019e610bfc5947d4c1efcdf389206cd70d34b1ac6fbf047bc25fa28555aef67, exited, of pod shop/old-6c5b9
      attempt 0, created 33h ago, finished 6h40m ago
    sandbox b8bd8ed4f8061db4e58582e835d9f8142362e13261ce8b59c340210119d18fff, not ready, of pod shop/old-6c5b9
      created 33h ago
    log directory /var/log/pods/shop_old-6c5b9_85d2fd70-0962-fe22-2f77-e841d9b3c48f
      remove: its pod is deleted
      setting: guards.gone_after = "1m" (built-in)
      changes when: the pod exists again

    pods: kube-api (5 pods)
    "#);
    insta::assert_snapshot!(why("/var/log/pods/lost+found"), @r#"
    log directory /var/log/pods/lost+found
      keep: the kubelet creates no entry with this name or type
      setting: profile = "safe" (built-in)
      changes when: it is removed by hand
    "#);
    insta::assert_snapshot!(why("no/such-pod"), @r#"
    exit Some(2)
    ! error: no container, sandbox, image, pod or path matches "no/such-pod"
    ! hint: name an id or its beginning, an image, a pod, NAMESPACE/POD/CONTAINER, or a log path
    "#);
}

#[test]
fn why_has_json_output() {
    let text = Shell::new().run(&["why", "--snapshot", FULL_DISK, "registry.example.com/next:1", "-o", "json"]);
    insta::assert_snapshot!(text, @r#"[{"kind":"image","id":"sha256:5f2d47ca10f634c8fb9d0e0d7f84e2faca45b0141fc7f96ee2c90b155838f33b","decision":"keep","reason":{"min_age_seconds":120,"reason":"younger_than_min_age"},"rule":"it is younger than 2m","setting":{"key":"images.min_age","value":"2m","origin":"built-in"},"change":"it is older, or min_age is shorter","seconds_to_go":60,"size_bytes":67108864,"first_seen":"2026-11-21T11:59:00Z","users":[]}]"#);
}

/// Creates a store with a run that carried out some actions of the plan.
fn store(path: &std::path::Path, plan: &Plan) {
    store_with(path, plan, Summary::default());
}

fn store_with(path: &std::path::Path, plan: &Plan, mut summary: Summary) {
    let store = Store::open_blocking(path).unwrap();
    let at = |second: i64| plan.taken_at + jiff::SignedDuration::from_secs(second);
    let start = RunStart { started_at: at(0), scope: Scope::All, dry: false, triggered_by: None };
    let run = store.change_blocking(|state| state.begin_run(start));
    let outcomes = [
        (0, Outcome::Removed {}, None),
        (4, Outcome::Refused { refusal: Refusal::Ready }, None),
        (6, Outcome::Removed {}, Some(8192)),
        (9, Outcome::Removed {}, Some(200 << 20)),
        (
            10,
            Outcome::Failed { error: "RemoveImage: disk quota exceeded".to_owned(), cause: FailureCause::Runtime },
            None,
        ),
    ];
    for (second, (index, outcome, freed_bytes)) in (1..).zip(outcomes) {
        let report = Report {
            action: plan.actions[index].clone(),
            outcome,
            freed_bytes,
            measure: Measure::Measured,
            proven_by: None,
            note: None,
            kept_until: None,
        };
        store.change_blocking(|state| state.record(&run, at(second), std::slice::from_ref(&report), Duration::ZERO));
        summary.add(&report);
    }
    let keep = Retention { max_age: Duration::MAX, max_rows: u64::MAX };
    let end = RunEnd { at: at(75), summary, error: Some("1 removal failed".to_owned()), keep };
    store.change_blocking(|state| state.end_run(&run, end));
}

#[test]
fn history_shows_what_was_removed_and_what_was_not() {
    let shell = Shell::new();
    store(&shell.path("kubegc.db"), &decide(&full_disk(), &Policy::default(), Scope::All));
    let history = |arguments: &[&str]| shell.run(&[&["history", "--state", "kubegc.db"], arguments].concat());
    insta::assert_snapshot!(history(&[]), @"
    TIME                  KIND       ID             NAME                          OUTCOME  FREED     WHY
    2026-11-21T12:00:05Z  image      9b0ff0bc1b2ce  registry.example.com/web:0.9  failed             disk usage 91% >= 85%; RemoveImage: disk quota exceeded
    2026-11-21T12:00:04Z  image      5db2c03fbaa9f  <none>                        removed  200.0MiB  disk usage 91% >= 85%
    2026-11-21T12:00:03Z  log dir    a6173aaf-ad5f  shop/gone-1                   removed  8.0KiB    pod deleted
    2026-11-21T12:00:02Z  sandbox    8a3c0e1cba8dd  shop/migrate-29x              refused            pod has a newer sandbox; the sandbox is ready
    2026-11-21T12:00:01Z  container  f019e610bfc59  shop/old-6c5b9/app            removed            pod deleted
    ");
    insta::assert_snapshot!(history(&["--runs"]), @"
    RUN  STARTED               TOOK  SCOPE  REMOVED  FAILED  FREED     ERROR
    1    2026-11-21T12:00:00Z  75s   all    3        1       200.0MiB  1 removal failed
    ");
    insta::assert_snapshot!(history(&["web:0.9", "-o", "json"]), @r#"
    {"run":1,"at":"2026-11-21T12:00:05Z","kind":"image","id":"sha256:9b0ff0bc1b2ceb570eac9785817222185ea9f78b0a22013909e2a4ae429f6fa6","name":"registry.example.com/web:0.9","tags":["registry.example.com/web:0.9"],"age_seconds":540000,"reason":"space","high_threshold_percent":85,"used_percent":91,"outcome":"failed","detail":"RemoveImage: disk quota exceeded","estimated_bytes":179306496,"freed_bytes":null}
    "#);
    assert_eq!(history(&["-n", "2", "-o", "json"]).lines().count(), 2);
    assert_eq!(history(&["--kind", "image", "-o", "json"]).lines().count(), 2);
    assert_eq!(history(&["--since", "2026-11-21T12:00:05Z", "-o", "json"]).lines().count(), 1);
    insta::assert_snapshot!(history(&["no such thing"]), @"no entry matches");
}

#[test]
fn history_without_a_store_is_no_failure() {
    insta::assert_snapshot!(Shell::new().run(&["history", "--state", "kubegc.db"]), @"no removals recorded: no store at kubegc.db");
    assert_eq!(Shell::new().run(&["history", "--state", "kubegc.db", "-o", "json"]), "");
}

#[test]
fn set_flags_before_and_after_the_command_apply() {
    let shell = Shell::new();
    let both = ["--set", "images.min_age=7m", "config", "show", "--set", "images.max_age=9h"];
    let shown = shell.run(&both);
    assert!(shown.contains("min_age = \"7m\"") && shown.contains("max_age = \"9h\""), "{shown}");
    let before = shell.run(&["--set", "images.min_age=7m", "config", "show"]);
    assert!(before.contains("min_age = \"7m\""), "{before}");
    let later_wins = shell.run(&["--set", "images.min_age=7m", "config", "show", "--set", "images.min_age=8m"]);
    assert!(later_wins.contains("min_age = \"8m\""), "{later_wins}");
}
