//! What policies of the cluster say of images, and what a pass over images learns for the cluster: the rules by which a pass removes the
//! images that policies list, and what became of them; the last copies that it keeps; which images there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use jiff::Timestamp;

use super::Cycle;
use super::pauses::PauseState;
use super::planning::Planned;
use crate::fleet::{Fates, FleetPart, ImageFate, ImageHashes, ListAnswer, MOST_COPIES, NodePolicies, copy_label};
use crate::model::{Image, ImageId};
use crate::plan::{ImageUsers, KeepReason, Kind, LastCopies, Outcome, PassState, Policy, Report};
use crate::record::Pass;

/// What a pass saw, with the policies that list images.
pub(super) struct SeenImages {
    policies: NodePolicies,
    images: Vec<Image>,
    /// A container that uses the image, by the id of that.
    used_by: BTreeMap<ImageId, String>,
    hashes: ImageHashes,
    /// The images whose last copy a policy keeps, and those of them that another node keeps.
    copies: BTreeSet<ImageId>,
    elsewhere: BTreeSet<ImageId>,
}

/// What the last pass over images learned for the cluster.
#[derive(Clone, Debug, Default)]
pub struct ImagesReport {
    /// What became of the images that policies list.
    pub answers: Vec<ListAnswer>,
    /// Which images there are; `None` = no pass has yet seen them.
    pub hashes: Option<ImageHashes>,
    /// The labels of those whose last copy a policy keeps.
    pub copies: BTreeSet<String>,
    /// Those that would be removed if another node kept them, and those of which it does.
    pub waiting: Vec<ImageId>,
}

// === impl Cycle ===

impl Cycle {
    /// Returns the policies of the cluster that apply to the node.
    pub(in crate::daemon) async fn policies(&self) -> NodePolicies {
        self.pauses.read(|stops| stops.policies.clone()).await
    }

    /// Returns what the last pass over images learned for the cluster; `None` = none has ended yet.
    pub(in crate::daemon) fn images_report(&self) -> Option<ImagesReport> {
        self.images_report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the policy of a pass: after the rules of the node come those for the images that policies of the cluster list. These
    /// policies are the second part.
    pub(super) async fn policy(&self) -> (Policy, NodePolicies) {
        let (now, policy) = ((self.clock)(), self.settings.policy.clone());
        let read = |stops: &PauseState| (stops.policies.rules(&stops.lists, now), stops.policies.clone());
        let (listed, policies) = self.pauses.read(read).await;
        let rules = policy.rules.iter().cloned().chain(listed).collect();
        let pass = PassState { last_copies: last_copies(&policies, now), ..policy.pass };
        (Policy { rules, pass, ..policy }, policies)
    }

    /// Keeps what a pass over images learned. A node that does not see its images shows no copies.
    pub(super) fn note_for_cluster(&self, listed: Option<SeenImages>, pass: &Pass) {
        let mut known = self.images_report.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.take().unwrap_or_default();
        let Some(listed) = listed else {
            *known = Some(ImagesReport { copies: BTreeSet::new(), ..before });
            return;
        };
        let fates = listed.fates(pass);
        let SeenImages { policies, images, hashes, mut copies, elsewhere, .. } = listed;
        let images: Vec<_> = images.iter().collect();
        let answers = policies.answers(&images, &fates, &before.answers, (self.clock)());
        copies.retain(|id| fates.get(id) != Some(&ImageFate::Removed));
        let kept = pass.plan.kept.iter().filter(|kept| matches!(kept.reason, KeepReason::LastCopy { .. }));
        let mut waiting: BTreeSet<_> = kept.map(|kept| ImageId::from(kept.id.as_str())).collect();
        waiting.extend(copies.intersection(&elsewhere).cloned());
        let copies = copies.iter().filter_map(copy_label).take(MOST_COPIES).collect();
        *known = Some(ImagesReport { answers, hashes: Some(hashes), copies, waiting: waiting.into_iter().collect() });
    }
}

/// Returns the images whose last copy the policies keep.
fn last_copies(policies: &NodePolicies, now: Timestamp) -> LastCopies {
    let Some((policy, patterns)) = policies.last_copies() else { return LastCopies::default() };
    let patterns = patterns.into_iter().map(Into::into).collect();
    LastCopies { policy: Some(policy.to_owned()), patterns, elsewhere: policies.copies.elsewhere(now) }
}

// === impl SeenImages ===

impl SeenImages {
    /// Returns what is needed to answer the policies that list images, and what the cluster is shown of images; `None` = a pass over images
    /// did not see them.
    pub(super) fn of(planned: &Planned, fleet: &BTreeSet<FleetPart>) -> Option<Self> {
        let images = planned.snapshot.images.as_ref()?;
        let policies = planned.policies.clone();
        let shows = fleet.contains(&FleetPart::Disks) || fleet.contains(&FleetPart::Images);
        let hashes = if shows { ImageHashes::of(images) } else { ImageHashes::default() };
        let kept = last_copies(&policies, planned.snapshot.taken_at);
        let copies = images.iter().filter(|image| kept.covers(image)).map(|image| image.id.clone()).collect();
        let (images_of_lists, used_by, elsewhere) = (Vec::new(), BTreeMap::new(), kept.elsewhere);
        let seen = Self { policies, hashes, copies, elsewhere, images: images_of_lists, used_by };
        if !seen.policies.lists_images() {
            return Some(seen);
        }
        let users = ImageUsers::new(&planned.snapshot);
        let used = images.iter().filter_map(|image| Some((image.id.clone(), users.of(image).first()?.full_name())));
        Some(Self { used_by: used.collect(), images: images.clone(), ..seen })
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
    use crate::sim::{Fault, Node, Rpc, Sim, Times};

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
        assert_eq!(cycle.images_report().unwrap_or_default().answers, []);

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
            let [answer] = &cycle.images_report().unwrap_or_default().answers[..] else {
                panic!("{:?}", cycle.images_report().unwrap_or_default().answers)
            };
            assert_eq!((answer.policy.as_str(), answer.generation), ("purge", 3));
            assert_eq!((answer.removed, answer.absent, answer.kept, &answer.notes), (5, 1, 2, &notes));
        };
        let notes =
            ["r.example/kept:1: matches images.keep (r.example/kept:*)", "r.example/used:1: in use by default/web/app"];
        answer(&notes);
        assert_eq!(pass(&cycle).await, [""; 0]);
        answer(&notes);
    }

    /// Writes policies that list three images, of which the last copies of two are kept, and which of them another node keeps.
    fn write_copies(cycle: &Cycle, elsewhere: &[&ImageId]) {
        let asked = json!({ "at": now(), "is_elsewhere": true, "repeated": 0 });
        let copies: serde_json::Map<_, _> = elsewhere.iter().map(|id| (id.to_string(), asked.clone())).collect();
        let list = json!({ "names": ["r.example/a:1", "r.example/b:1", "r.example/c:1"] });
        let spec = json!({ "keepLastCopy": { "images": ["r.example/a", "r.example/b"] }, "removeImages": list });
        let policies = json!({ "policies": { "air-gap": spec }, "copies": copies });
        std::fs::write(cycle.settings().state.policies_file(), policies.to_string()).unwrap();
    }

    #[tokio::test]
    async fn an_image_waits_for_another_node_and_is_shown_until_it_is_removed() {
        let node = Node::new().now(now()).disk(100 << 30, 10 << 30);
        let image = |node: Node, name: &str| node.image(&format!("r.example/{name}:1"), &[(name, 1 << 20)]);
        let sim = Sim::start(["a", "b", "c", "d"].into_iter().fold(node, image)).unwrap();
        let of = |elsewhere: &[&ImageId]| {
            let cycle = cycle(&sim);
            write_copies(&cycle, elsewhere);
            cycle
        };
        let first = of(&[]);
        assert!(first.images_report().is_none(), "no pass has seen the images");
        assert_eq!(pass(&first).await, ["r.example/c:1"]);
        let seen = first.images_report().unwrap();
        let [a, b] = &seen.waiting[..] else { panic!("{seen:?}") };
        assert_eq!(seen.copies, [a, b].into_iter().filter_map(copy_label).collect());

        let paused = of(&[a]);
        let file = paused.settings().state.pause_file();
        std::fs::write(&file, "").unwrap();
        pass(&paused).await;
        let waiting = paused.images_report().unwrap().waiting;
        assert_eq!(waiting, seen.waiting, "the answer is still needed");
        crate::daemon::end_pause(&file).unwrap();

        let removed = of(&[a]);
        assert_eq!(pass(&removed).await.len(), 1);
        let left = removed.images_report().unwrap();
        assert_eq!((left.waiting, left.copies), (vec![b.clone()], copy_label(b).into_iter().collect()));
        sim.fault(Rpc::ListImages, Fault::BreakOff, Times::Forever);
        pass(&removed).await;
        let unseen = removed.images_report().unwrap();
        assert_eq!(
            (unseen.copies, unseen.hashes),
            (BTreeSet::new(), left.hashes),
            "it shows none that it does not see"
        );
    }
}
