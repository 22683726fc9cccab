//! What users of kubectl, crictl and docker write, and what it means here.

use super::*;

/// Returns the error and the hint of a command that fails with status 2.
fn refused(arguments: &[&str]) -> String {
    let text = Shell::new().run(arguments);
    assert!(text.starts_with("exit Some(2)\n"), "{arguments:?}: {text}");
    text.replace("exit Some(2)\n", "")
}

#[test]
fn a_command_refuses_unsupported_output_formats() {
    for (command, known) in [
        (&["why", "web", "--snapshot", FULL_DISK][..], "table, json and yaml"),
        (&["status"], "table, json and yaml"),
        (&["version"], "table, json and yaml"),
        (&["snapshot"], "json and yaml"),
        (&["report"], "html and json"),
        (&["history", "--runs"], "table, wide, json and yaml"),
        (&["history", "--sums"], "table, json and yaml"),
        (&["config", "show"], "table, json and yaml"),
        (&["config", "check"], "table, json and yaml"),
        (&["config", "rules"], "table, wide, json and yaml"),
        (&["config", "schema", "plan"], "json"),
        (&["controller", "why", "pod/web"], "table, json and yaml"),
        (&["controller", "status"], "table, json and yaml"),
        (&["controller", "snapshot"], "json and yaml"),
    ] {
        let error = refused(&[command, &["-o", "name"]].concat());
        assert!(error.starts_with("! error: `kubegc ") && error.contains("has no output format \"name\""), "{error}");
        assert!(error.ends_with(&format!("! hint: -o accepts {known} here\n")), "{command:?}: {error}");
    }
    for command in [&["run"][..], &["controller", "run"], &["config", "default"], &["completions", "bash"], &["demo"]] {
        let error = refused(&[command, &["-o", "json"]].concat());
        assert!(error.ends_with("has no output format \"json\"\n! hint: omit -o\n"), "{error}");
    }
    assert!(refused(&["plan", "-o", "html"]).contains("-o accepts table, wide, json, yaml and name here"));
}

#[test]
fn ids_of_images_are_printed_alone_as_by_crictl() {
    let shell = Shell::new();
    let quiet = shell.run(&["images", "--snapshot", FULL_DISK, "-q"]);
    let names = shell.run(&["images", "--snapshot", FULL_DISK, "-o", "name"]);
    let ids: Vec<_> = names.lines().map(|name| name.trim_start_matches("image/")).collect();
    assert_eq!((ids.len(), quiet.lines().collect::<Vec<_>>()), (13, ids));
}

#[test]
fn a_kind_may_be_a_word_of_its_own() {
    let shell = Shell::new();
    let run = |arguments: &[&str]| shell.run(&[arguments, &["--snapshot", FULL_DISK]].concat());
    let pod = run(&["why", "pod/old-6c5b9"]);
    assert!(pod.contains("container app f019e610bfc59"), "{pod}");
    assert_eq!(run(&["why", "pod", "old-6c5b9"]), pod);
    assert_eq!(run(&["why", "pods", "shop/old-6c5b9"]), pod);
    assert!(run(&["why", "deployment", "web"]).contains("! error: no kind \"deployment\"\n! hint: kinds are pod, "));
    let plan = run(&["plan", "-o", "name", "container", "f019e610bfc59", "2ed73f9875cda"]);
    assert_eq!(plan.lines().count(), 2, "{plan}");
    let id = plan.lines().find_map(|line| line.strip_prefix("container/f019")).unwrap();
    assert!(run(&["why", &format!("containerd://f019{id}")]).starts_with("container app f019e610bfc59"));
}

#[test]
fn namespaces_have_the_flags_of_kubectl() {
    let shell = Shell::new();
    let run = |arguments: &[&str]| shell.run(&[arguments, &["--snapshot", FULL_DISK]].concat());
    let of = |flags: &[&str]| run(&[&["plan", "-o", "name"], flags].concat());
    let (all, shop) = (of(&[]), of(&["--namespace", "shop"]));
    assert!(shop.lines().count() > 3 && shop.lines().count() < all.lines().count(), "{shop}");
    assert_eq!(of(&["-n", "shop"]), shop);
    assert_eq!([of(&["-A"]), of(&["--all-namespaces"]), of(&["-n", "shop", "-A"])], [all.clone(), all.clone(), all]);
    assert!(run(&["why", "app", "-n", "shop"]).contains("of pod shop/old-6c5b9"), "the container of one namespace");
    assert!(run(&["why", "app", "-A"]).contains("\"app\" matches "), "several containers");
    let elsewhere = run(&["why", "pod", "old-6c5b9", "-n", "default"]);
    assert!(elsewhere.contains("no container, sandbox, image, pod or path matches"), "{elsewhere}");
}

/// An image whose full name is the word is more precise than the containers with that name.
#[test]
fn why_reports_containers_that_share_an_image_name() {
    let mut snapshot = full_disk();
    let kubegc::model::Seen::Seen(images) = &mut snapshot.images else { panic!("no images") };
    let image = images.iter_mut().find(|image| image.tags == ["docker.io/library/busybox:1.36"]).unwrap();
    image.tags = vec!["docker.io/library/worker:latest".to_owned()];
    let shell = Shell::new().with("node.json", &serde_json::to_string(&snapshot).unwrap());
    let why = |word: &str| shell.run(&["why", "--snapshot", "node.json", word]);
    let image = why("worker");
    assert!(image.starts_with("image docker.io/library/worker:latest"), "{image}");
    assert!(image.ends_with("\n5 containers have this name too: `kubegc why container/worker`\n"), "{image}");
    let containers = why("container/worker");
    assert!(containers.starts_with("container worker ") && !containers.contains("this name too"), "{containers}");
}

/// Two instances of one container have opposite decisions by one rule.
#[test]
fn why_does_not_contradict_itself_about_two_instances() {
    let text = Shell::new().run(&["why", "--snapshot", FULL_DISK, "shop/crash-7d9f4/worker"]);
    for rule in [
        "remove: kubegc keeps only the newest dead container of this name in its pod, and this one is older\n",
        "keep: kubegc keeps the newest dead container of this name in its pod, and this is it\n",
    ] {
        assert!(text.contains(rule), "{text}");
    }
}

#[test]
fn a_yaml_error_has_one_prefix_and_a_hint() {
    let shell = Shell::new().with("crictl.yaml", "runtime-endpoint: [a\nb: c: d\n");
    let text = shell.run(&["config", "show"]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[1],
        "! error: $CRI_CONFIG_FILE: cannot read crictl.yaml: line 2 column 2: illegal placement of ':' indicator"
    );
    let hint = "! hint: correct crictl's configuration, unset CRI_CONFIG_FILE, or set --runtime-endpoint";
    assert_eq!(lines.last(), Some(&hint));
    let shell = Shell::new().with("kubelet.yaml", "kind: [a\nb: c: d\n").with("admin.conf", "kind: [a\nb: c: d\n");
    let kubelet = shell.run(&["config", "show", "--kubelet-config", "kubelet.yaml"]);
    assert!(kubelet.contains("! error: kubelet.yaml: not YAML: line 2 column 2: "), "{kubelet}");
    let admin = shell.run(&["controller", "plan", "--kubeconfig", "admin.conf"]);
    assert!(admin.contains("used: line 2 column 2: "), "{admin}");
}

/// A cluster in which one object is deleted with its owner and another one waits for a finalizer.
const CLUSTER: &str = r#"{
    "kind": "kubegc.controller.snapshot", "version": 1, "taken_at": "2026-11-21T12:00:00Z", "server": "https://api",
    "served": [{"api_version": "apps/v1", "kind": "Deployment", "resource": "deployments", "namespaced": true}],
    "resources": [{"api_version": "apps/v1", "kind": "Deployment", "resource": "deployments", "namespaced": true,
        "objects": {"seen": [
            {"namespace": "shop", "name": "left", "uid": "u1", "owners": [{"api_version": "apps/v1",
                "kind": "Deployment", "name": "owner", "uid": "u0", "controller": false, "blocking": false}]},
            {"namespace": "shop", "name": "held", "uid": "u2", "owners": [],
                "deletion_timestamp": "2026-11-21T11:00:00Z", "finalizers": ["example.com/backup"]}
        ]}}],
    "unavailable": [],
    "owners": [{"api_version": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "owner", "uid": "u0",
        "read_at": "2026-11-21T12:00:00Z", "answer": "not_found"}]
}"#;

#[test]
fn objects_of_a_cluster_are_named_as_by_kubectl() {
    let shell = Shell::new().with("cluster.json", CLUSTER);
    let run = |arguments: &[&str]| shell.run(&[&["controller"], arguments, &["--snapshot", "cluster.json"]].concat());
    assert_eq!(run(&["plan", "-o", "name"]), "deployment.apps/left\n", "what only waits is not deleted");
    assert_eq!(run(&["plan", "-o", "name", "-n", "other"]), "");
    assert_eq!(run(&["plan", "-o", "name", "-n", "other", "-A"]), "deployment.apps/left\n");
    let held = run(&["why", "deployment.apps/held"]);
    assert!(held.contains("Being deleted: since 2026-11-21T11:00:00Z\n  finalizer example.com/backup\n"), "{held}");
    for words in [&["deploy", "held"][..], &["deployments", "held", "-n", "shop"], &["deploy/held", "-A"]] {
        assert_eq!(run(&[&["why"], words].concat()), held, "{words:?}");
    }
}

#[test]
fn collect_prints_the_names_of_what_it_removed() {
    let host = crate::cli_on_sim::Host::new();
    let names = host.run(&["collect", "--dry-run", "-o", "name", "--kind", "sandbox"]);
    assert_eq!(names, "sandbox/s-job-0\n");
    assert_eq!(host.run(&["collect", "-o", "name", "--kind", "sandbox"]), names);
    assert_eq!(host.run(&["history", "-o", "name"]), names);
    assert_eq!(host.run(&["history", "--namespace", "default", "-A", "-o", "name"]), names);
    assert_eq!(host.run(&["history", "--namespace", "other"]), "no entry matches\n");
}
