use crate::plan::{Guards, Policy, Profile};

use super::*;

fn of(profile: Profile) -> ExecuteOptions {
    let policy = Policy { profile, guards: Guards::of(profile), ..Policy::default() };
    let settings = Settings { kubelet_root: "/var/lib/kubelet".into(), policy, ..Settings::default() };
    options(&settings, Duration::ZERO)
}

#[test]
fn the_rechecks_follow_the_guards() {
    let (safe, kubelet) = (of(Profile::Safe), of(Profile::Kubelet));
    let rechecks =
        |options: ExecuteOptions| (options.confirms_deletions, options.keeps_pod_images, options.kubelet_pods);
    assert_eq!(rechecks(safe), (true, true, Some("/var/lib/kubelet/pods".into())));
    assert_eq!(rechecks(kubelet), (false, false, None));
}
