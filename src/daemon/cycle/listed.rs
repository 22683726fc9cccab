//! The images that policies of the cluster list, for the policy of a pass, and what became of them.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use super::Cycle;
use super::planning::Planned;
use crate::fleet::{Fates, ImageFate, ListAnswer, NodePolicies};
use crate::model::{Image, ImageId};
use crate::plan::{ImageUsers, KeepReason, Kind, Outcome, Pass, Policy, Report};

/// What a pass saw, with the policies that list images.
pub(super) struct SeenImages {
    policies: NodePolicies,
    images: Vec<Image>,
    /// A container that uses the image, by the id of that.
    used_by: BTreeMap<ImageId, String>,
}

// === impl Cycle ===

impl Cycle {
    /// Returns the policies of the cluster that apply to the node.
    pub(in crate::daemon) async fn policies(&self) -> NodePolicies {
        self.pauses.read(|stops| stops.policies.clone()).await
    }

    /// Returns what became of the images that policies list, in the last pass that saw the images.
    pub(in crate::daemon) fn list_answers(&self) -> Vec<ListAnswer> {
        self.list_answers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the policy of a pass, with the images that policies of the cluster list. These policies are the second part.
    pub(super) async fn policy(&self) -> (Policy, NodePolicies) {
        let (mut policy, policies) = (self.settings.policy.clone(), self.policies().await);
        let listed = policies.listed((self.clock)()).into_iter();
        policy.pass.listed = listed.map(|(name, images)| (format!("policy {name}"), images)).collect();
        (policy, policies)
    }

    /// Keeps what became of the images in a pass.
    pub(super) fn note_answers(&self, seen: &SeenImages, pass: &Pass) {
        let mut answers = self.list_answers.lock().unwrap_or_else(PoisonError::into_inner);
        let images: Vec<_> = seen.images.iter().collect();
        *answers = seen.policies.answers(&images, &seen.fates(pass), &answers, (self.clock)());
    }
}

// === impl SeenImages ===

impl SeenImages {
    /// Returns what is needed to answer the policies that list images; `None` = a pass did not see the images.
    pub(super) fn of(planned: &Planned) -> Option<Self> {
        let images = planned.snapshot.images.as_ref()?;
        let policies = planned.policies.clone();
        if !policies.lists_images() {
            return Some(Self { policies, images: Vec::new(), used_by: BTreeMap::new() });
        }
        let users = ImageUsers::new(&planned.snapshot);
        let used = images.iter().filter_map(|image| Some((image.id.clone(), users.of(image).first()?.full_name())));
        Some(Self { used_by: used.collect(), images: images.clone(), policies })
    }

    /// Returns what became of each image in a pass.
    fn fates(&self, pass: &Pass) -> Fates {
        let kept = pass.plan.kept.iter().filter(|kept| kept.kind == Kind::Image);
        let kept = kept.map(|kept| {
            let id = ImageId::from(kept.id.as_str());
            let used_by = self.used_by.get(&id).filter(|_| matches!(kept.reason, KeepReason::InUse { .. }));
            let why = used_by.map(|user| format!("in use by {user}"));
            let why = why.unwrap_or_else(|| kept.reason.clone().explain().phrase.into_owned());
            (id, ImageFate::Kept(why))
        });
        let of = |report: &Report| (ImageId::from(report.action.target.id()), fate(report));
        let reports = pass.reports.iter().filter(|report| report.action.target.kind() == Kind::Image);
        kept.chain(reports.map(of)).collect()
    }
}

fn fate(report: &Report) -> ImageFate {
    let why = match &report.outcome {
        Outcome::Removed {} | Outcome::AlreadyRemoved {} => return ImageFate::Removed,
        Outcome::WouldRemove {} => "a dry run would have removed it".to_owned(),
        Outcome::NotNeeded {} => "its removal has not begun".to_owned(),
        Outcome::Refused { refusal } => refusal.to_string(),
        Outcome::Failed { error, .. } => error.clone(),
    };
    ImageFate::Kept(why)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::config::Settings;
    use crate::cri::Endpoint;
    use crate::daemon::cycle::planning::PassKind;
    use crate::daemon::node::LocalNode;
    use crate::daemon::now;
    use crate::fleet::FleetPart;
    use crate::model::Memory;
    use crate::observe::{DiskFn, RuntimePods};
    use crate::plan::Scope;
    use crate::record::Store;
    use crate::sim::{Node, Sim};

    fn cycle(sim: &Sim) -> Cycle {
        let mut settings = Settings { kubelet_root: sim.dir().join("kubelet"), ..Settings::default() };
        settings.fleet = [FleetPart::Policies].into();
        settings.state.path = sim.dir().join("kubegc.db");
        let policy = &mut settings.policy;
        (policy.logs.pods_root, policy.logs.containers_root) = (sim.log_roots().pods, sim.log_roots().containers);
        (policy.images.min_age, policy.guards.settle) = (Duration::ZERO, Duration::ZERO);
        policy.images.keep = vec!["r.example/kept:*".into()];
        let disks = Arc::new(DiskFn(sim.disk_reader()));
        let place = LocalNode::new(Endpoint::at(sim.endpoint()), disks, Arc::new(RuntimePods));
        Cycle::live(settings, &place, Store::without_file(Memory::default()), now())
    }

    /// Writes the policies as the follower does.
    fn write(cycle: &Cycle, list: &serde_json::Value) {
        let policies = json!({ "policies": { "purge": { "generation": 3, "removeImages": list } } });
        std::fs::write(cycle.settings().state.policies_file(), policies.to_string()).unwrap();
    }

    async fn pass(cycle: &Cycle) -> Vec<String> {
        let pass = cycle.pass(PassKind::Scheduled(Scope::Images), &CancellationToken::new(), |_, _| {}).await;
        let tags = pass.reports.iter().map(|report| match &report.action.target {
            crate::plan::Target::RemoveImage { tags, .. } => tags.join(" "),
            other => panic!("{other:?}"),
        });
        let mut tags: Vec<_> = tags.collect();
        tags.sort();
        tags
    }

    /// What the rules remove is what the answer counts.
    #[tokio::test]
    async fn a_list_removes_unused_images_under_the_guards_of_the_node() {
        let images = ["a:1", "a:2", "ab:1", "by-digest:1", "by-id:1", "kept:1", "used:1"];
        let node =
            Node::new().now(now()).disk(100 << 30, 10 << 30).image("docker.io/library/nginx:1", &[("n", 1 << 20)]);
        let node = images.iter().fold(node, |node, name| node.image(&format!("r.example/{name}"), &[(name, 1 << 20)]));
        let sim = Sim::start(node.pod("default", "web", "u0").running("app", "r.example/used:1")).unwrap();
        let cycle = cycle(&sim);
        let (snapshot, _) = cycle.plan_now(Scope::Images, crate::observe::Needs::new()).await;
        let seen = snapshot.images.as_ref().unwrap();
        let find = |tag: &str| seen.iter().find(|image| image.tags.iter().any(|it| it == tag)).unwrap();
        let digest = find("r.example/by-digest:1").digests[0].split_once('@').unwrap().1;
        let names = [
            "nginx:1",
            find("r.example/by-id:1").id.as_str(),
            digest,
            "r.example/kept:1",
            "r.example/used:1",
            "r.example/absent:1",
        ];
        write(&cycle, &json!({ "names": names, "repositories": ["r.example/a"], "expires": "2000-01-01T00:00:00Z" }));
        assert_eq!(pass(&cycle).await, [""; 0], "the list has expired");
        assert_eq!(cycle.list_answers(), []);

        let asked = ["r.example/used:1", "r.example/absent:1"];
        write(&cycle, &json!({ "names": asked, "repositories": ["r.example/a"], "dryRun": true }));
        assert_eq!(pass(&cycle).await, [""; 0], "the list is only answered");
        let [answer] = &cycle.list_answers()[..] else { panic!("{:?}", cycle.list_answers()) };
        assert_eq!((answer.removed, answer.absent, answer.kept), (0, 1, 3), "{answer:?}");
        let notes = ["r.example/used:1: in use by default/web/app", "r.example/a:1: disk usage 11% < 85%"];
        assert_eq!(answer.notes[..2], notes);

        let cycle = self::cycle(&sim);
        write(&cycle, &json!({ "names": names, "repositories": ["r.example/a"] }));
        let removed = [
            "docker.io/library/nginx:1",
            "r.example/a:1",
            "r.example/a:2",
            "r.example/by-digest:1",
            "r.example/by-id:1",
        ];
        assert_eq!(pass(&cycle).await, removed);
        let answer = |notes: &[&str]| {
            let notes: Vec<_> = notes.iter().map(ToString::to_string).collect();
            let [answer] = &cycle.list_answers()[..] else { panic!("{:?}", cycle.list_answers()) };
            assert_eq!((answer.policy.as_str(), answer.generation), ("purge", 3));
            assert_eq!((answer.removed, answer.absent, answer.kept, &answer.notes), (5, 1, 2, &notes));
        };
        let notes =
            ["r.example/kept:1: matches images.keep (r.example/kept:*)", "r.example/used:1: in use by default/web/app"];
        answer(&notes);
        assert_eq!(pass(&cycle).await, [""; 0]);
        answer(&notes);
    }
}
