//! API servers whose discovery, lists or health are odd. kubectl works with each of them.

use serde_json::Value;

use super::data;
use super::fake_api::Fake;
use crate::shell::Shell;

const DANGLING: &str = "delete  ConfigMap  shop       dangling  owner ConfigMap/gone absent\n";

/// The lines of a plan that has all, apart from warnings.
fn assert_complete(name: &str, text: &str) {
    assert!(!text.starts_with("exit") && text.contains(DANGLING) && !text.contains("rror: "), "{name}: {text}");
}

fn plan(name: &str) -> String {
    Fake::start(&format!("t4/{name}.json")).run(&["plan"])
}

#[test]
fn odd_forms_of_discovery_are_read() {
    for name in [
        "T4-C7-no-preferred-version",
        "T4-C8-empty-group-version",
        "T4-C9-rancher-prefix",
        "T4-C14-mixed-discovery",
        "extra/T4-C-legacy",
    ] {
        assert_complete(name, &plan(name));
    }
}

#[test]
fn either_path_may_have_the_older_form() {
    let mut scenario: Value = serde_json::from_str(&data("t4/T4-C14-mixed-discovery.json")).unwrap();
    scenario["mixed"] = "/api".into();
    assert_complete("/api", &Fake::play(&scenario).run(&["plan"]));
}

/// A group-version that does not answer as it should is named, and the others count.
#[test]
fn an_unavailable_group_version_is_named() {
    for (name, cause) in [("legacy-html", "expected value at line 1"), ("legacy-metrics-down", "code 503")] {
        let text = plan(&format!("extra/T4-C-{name}"));
        let error = text.lines().find(|line| line.starts_with("Error: discovery of metrics.k8s.io/v1beta1: "));
        assert!(text.starts_with("exit Some(1)\n") && text.contains(DANGLING), "{name}: {text}");
        assert!(error.is_some_and(|line| line.contains(cause)), "{name}: {text}");
    }
}

#[test]
fn objects_with_odd_metadata_are_listed() {
    for field in [
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "selfLink",
    ] {
        assert_complete(field, &plan(&format!("extra/T4-C-null-{field}")));
    }
}

/// A version that is no text is not JSON of Kubernetes, so its list is an error and the others count.
#[test]
fn a_list_that_cannot_be_read_is_named() {
    let text = plan("extra/T4-C-null-resourceVersion");
    assert!(text.contains(DANGLING), "{text}");
    assert!(text.contains("rror: cannot list widgets (example.com/v1)") || !text.starts_with("exit"), "{text}");
}

#[test]
fn a_list_whose_pages_expire_is_continued_or_begun_again() {
    for name in ["expired", "expired-inconsistent"] {
        assert_complete(name, &plan(&format!("extra/T4-C-{name}")));
    }
    let text = plan("extra/T4-C-expired-always");
    assert!(text.contains(DANGLING) && text.contains("its pages expire before the next one is read"), "{text}");
}

#[test]
fn unaccepted_credentials_are_reported() {
    let text = plan("extra/T4-C-401");
    assert!(text.starts_with("exit Some(3)\n") && text.contains("Unauthorized (401)"), "{text}");
}

#[test]
fn a_failing_check_is_named_and_stops_nothing() {
    let text = plan("T4-C13-readyz-kms");
    assert!(!text.starts_with("exit") && text.contains(DANGLING) && text.contains("kms-providers"), "{text}");
    let mut scenario: Value = serde_json::from_str(&data("t4/T4-C13-readyz-kms.json")).unwrap();
    scenario["print_deletions"] = true.into();
    let mut fake = Fake::play(&scenario);
    let mut service = fake.begin(&["run", "--owners-only", "--set", "controller.address="]);
    service.says(&["the API server answers, but reports that it is not ready", "kms-providers"]);
    fake.wait_for("gone: ConfigMap/dangling");
    service.stop();
}

/// A server that starts serves its custom resources last.
#[test]
fn a_server_that_starts_is_not_used() {
    let mut scenario: Value = serde_json::from_str(&data("t4/T4-C13-readyz-kms.json")).unwrap();
    let text = "[+]ping ok\n[-]poststarthook/crd-informer-synced failed: reason withheld\n[-]kms-providers failed\n";
    scenario["readyz"][1] = text.into();
    let text = Fake::play(&scenario).run(&["plan"]);
    let cause = "not ready: /readyz has code 500, because of poststarthook/crd-informer-synced, kms-providers";
    assert!(text.starts_with("exit Some(3)\n") && text.contains(cause), "{text}");
}

/// Each owner that cannot be resolved is a finding, and the others are judged.
#[test]
fn odd_owner_references_are_findings() {
    let text = plan("T4-C6-odd-references");
    let deleted: Vec<_> = text.lines().filter(|line| line.starts_with("delete ")).collect();
    let deleted: Vec<_> = deleted.iter().filter_map(|line| line.split_whitespace().nth(3)).collect();
    assert_eq!(deleted, ["really-gone", "same-name-new-uid", "upper-uid"], "{text}");
    assert!(text.contains("kept: 1 owner exists, 11 owner kind not served, 2 owner unverified."), "{text}");
}

/// Nothing else waits for a resource whose conversion webhook is broken, and the plan is what the collection does. The list of
/// a namespace without objects of the resource succeeds.
#[test]
fn only_finalizers_wait_for_a_resource_without_a_list() {
    let text = plan("broken-conversion");
    let waits = |name: &str| {
        let of_name = |line: &&str| line.starts_with("being deleted") && line.contains(&format!(" {name} "));
        text.lines().find(of_name).is_some_and(|line| line.contains("waits for the list of widgets.example.com"))
    };
    assert!(waits("foreground") && waits("orphaning"), "{text}");
    assert_eq!(text.matches("orphan dependents").count(), 1, "{text}");
    assert!(!text.contains("end foreground") && !waits("orphaning-idle"), "{text}");
    assert!(text.contains("2 objects to delete"), "{text}");
    let fake = Fake::start("t4/broken-conversion.json");
    let report = fake.run(&["collect"]);
    assert!(report.contains("2 objects deleted, 2 changed."), "{report}");
    let left = fake.end();
    for name in ["foreground (deleting)", "orphaning (deleting)", "of-orphaning", "of-widget"] {
        assert!(left.contains(&format!("ConfigMap/{name}")), "{name}: {left}");
    }
    assert!(left.contains("'ConfigMap/of-orphaning-idle'") && !left.contains("'ConfigMap/orphaning-idle"), "{left}");
}

/// Kubernetes writes times of failed pods in several forms.
#[test]
fn evicted_pods_are_deleted_first() {
    let fake = Fake::start("t4/T4-C12-evicted-pods.json");
    let text = fake.run(&["plan", "--pods-only", "--terminated-pod-gc-threshold", "3"]);
    let deleted = text.lines().filter(|line| line.starts_with("delete "));
    let deleted: Vec<_> = deleted.filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(deleted.len(), 7, "{text}");
    assert_eq!(deleted[..2], ["csu-null", "evicted"], "{text}");
    assert!(!deleted.contains(&"running"), "{text}");
}

#[test]
fn the_first_current_context_that_is_not_empty_counts() {
    let fake = Fake::start("t4/extra/T4-C-legacy.json");
    let second = data("t4/T4-C1-second.yaml").replace("http://127.0.0.1:18080", &fake.address);
    let shell = Shell::new().with("first", &data("t4/T4-C1-first.yaml")).with("second", &second);
    let output = shell.command(&["controller", "plan"]).env("KUBECONFIG", "first:second").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains(DANGLING), "{output:?}");
}

#[test]
fn an_expired_id_token_is_named() {
    let fake = Fake::start("t4/extra/T4-C-legacy.json").with_kubeconfig(&data("t4/T4-C10-oidc-expired.yaml"));
    let text = fake.run(&["plan"]);
    let cause = "the id-token of the user expired at 2026-01-01T00:00:00Z: log in again";
    assert!(text.starts_with("exit Some(2)\n") && text.contains(cause), "{text}");
}
