//! Removals that a real runtime refuses.

use serde_json::json;

use crate::rig::{Rig, Version};

const SETTINGS: [&str; 4] = [
    "--set=pods.source=runtime",
    "--set=guards.gone_after=1ms",
    "--set=guards.sandbox_grace=0s",
    "--set=guards.settle=0s",
];

/// containerd 1.6 keeps a sandbox whose network could neither be set up nor be torn down.
#[tokio::test]
async fn an_unremovable_sandbox_delays_nothing_and_backs_off() {
    let rig = Rig::start(Version::V1_6).await;
    rig.stuck_pod("stuck-0").await;
    let pod = rig.pod("default", "job-0", "uid-job").await;
    pod.exited("work", 0).await;
    pod.stop_sandbox().await;
    rig.kubegc(&with_settings(&["collect"])).ok(); // the first pass: no pod counts as deleted yet

    let failed = rig.kubegc(&with_settings(&["collect"]));
    assert_eq!(failed.code, 1, "{failed:#?}");
    assert!((failed.stdout.clone() + &failed.stderr).contains("failed to destroy network"), "{failed:#?}");
    let left = rig.names().await.words();
    let left: Vec<_> = left.iter().filter(|name| !name.starts_with("image ")).collect();
    assert_eq!(left, ["dir default_stuck-0_stuck-0", "sandbox stuck-0#0 notready"]);

    let plan = rig.kubegc(&with_settings(&["plan", "-o", "json"])).ok().json();
    assert_eq!(plan["actions"], json!([]));
    let kept = plan["kept"].as_array().unwrap().iter().find(|kept| kept["kind"] == "sandbox").unwrap();
    assert_eq!((kept["reason"].as_str(), kept["failures"].as_u64()), (Some("backing_off"), Some(1)), "{kept}");
}

fn with_settings<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &SETTINGS].concat()
}
