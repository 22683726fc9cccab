//! The families of nodes: with containers and sandboxes, and with images. There are no rules of the operator, no limits of logs, no targets, no
//! pace and no pressure of a disk.

use std::time::Duration;

use jiff::Timestamp;
use kubegc_core::model::ContainerState::{self, Created, Exited, Running, Unknown};
use kubegc_core::model::SandboxState::{NotReady, Ready};
use kubegc_core::model::{
    Absence, Confirms, Container, FileSystem, Image, ImageMemory, ImageName, Phase, Pod, PodList, PodRef, Sandbox,
    Seen, Snapshot,
};
use kubegc_core::plan::Scope;

use super::{ago, check_node, play, policy, seen};

/// The age of a container or a sandbox; `None` = it is not known.
type Age = Option<i64>;

const HOUR: i64 = 3600;

/// When an image was seen first and used last, in seconds; `None` = before the memory began, and never.
type History = (Option<i64>, Option<i64>);

const OLD: History = (Some(2 * HOUR), None);
const NAME: &str = "docker.io/library/i0:1";

/// Which instances the limits remove: three containers in one slot, in two or in three, of a pod that exists and of one that may be missing.
#[test]
fn limits() {
    const STATES: [ContainerState; 4] = [Running, Exited, Created, Unknown];
    const AGES: [Age; 3] = [Some(30), Some(HOUR), None];
    const LIMITS: [Option<u64>; 4] = [Some(0), Some(1), Some(2), None];
    const SLOTS: [[(usize, &str); 3]; 4] =
        [[(0, "a"); 3], [(0, "a"), (0, "a"), (0, "b")], [(0, "a"), (0, "a"), (1, "a")], [(0, "a"), (0, "b"), (1, "a")]];
    play("limits", |choices| {
        let mut policy = policy(choices.is());
        policy.containers.max_per_pod_container = choices.of(&LIMITS);
        policy.containers.max_containers = choices.of(&LIMITS);
        let containers = choices.of(&SLOTS).map(|(pod, name)| {
            let (state, attempt) = (choices.of(&STATES), choices.of(&[0, 1]));
            Container { state, attempt, created_at: at(choices.of(&AGES)), ..container(pod, name) }
        });
        let sandboxes = [0, 1].map(|pod| Sandbox { state: NotReady, ..sandbox(pod) });
        let mut node = node(containers, sandboxes);
        if choices.is() {
            list(&mut node.pods).pods.pop();
        }
        check_node(&node, &policy, Scope::Containers)
    });
}

/// From when on a container is dead: two instances of one container at all ages, one of them in any sandbox, the other perhaps of no pod.
#[test]
fn ages() {
    const AGES: [Age; 7] = [Some(-5), Some(59), Some(60), Some(599), Some(600), Some(HOUR), None];
    play("ages", |choices| {
        let mut policy = policy(choices.is());
        policy.containers.max_per_pod_container = choices.of(&[Some(0), Some(1)]);
        policy.containers.min_age = Duration::from_secs(choices.of(&[0, 60]));
        let mut one = || {
            let (state, attempt) = (choices.of(&[Created, Running, Exited, Unknown]), choices.of(&[0, 1]));
            Container { state, attempt, created_at: at(choices.of(&AGES)), ..container(0, "a") }
        };
        let mut containers = [one(), one()];
        containers[0].sandbox_id = choices.of(&["s0", "s1", ""]).into();
        containers[1].pod = choices.is().then(|| pod_ref(0));
        let sandboxes = [sandbox(0), Sandbox { state: NotReady, ..sandbox(0) }];
        check_node(&node(containers, sandboxes), &policy, Scope::Containers)
    });
}

/// When a pod is deleted or terminated: everything that may prove it. The pod, static or not, has two containers and two sandboxes.
#[test]
fn proofs() {
    use Phase as P;
    const PHASES: [(P, bool); 4] = [(P::Running, false), (P::Running, true), (P::Failed, false), (P::Succeeded, true)];
    play("proofs", |choices| {
        let mut policy = policy(choices.is());
        policy.containers.evict_terminated_pods = choices.is();
        let pod = PodRef { name: choices.of(&["p0", ""]).to_owned(), uid: choices.of(&UIDS[..2]).into(), ..pod_ref(0) };
        let container = |name, state| Container { state, pod: Some(pod.clone()), ..container(0, name) };
        let sandbox = |state| Sandbox { state, pod: Some(pod.clone()), ..sandbox(0) };
        let containers = [container("a", choices.of(&[Exited, Unknown, Running])), container("b", Exited)];
        let mut node = node(containers, [sandbox(choices.of(&[NotReady, Ready])), sandbox(NotReady)]);
        let of_pod = choices.of(&PHASES);
        list(&mut node.pods).pods[0] = Pod { uid: pod.uid.clone(), phase: of_pod.0, deleting: of_pod.1, ..listed(0) };
        match choices.of(&["listed", "listed by another name", "not listed"]) {
            "listed" => {}
            "listed by another name" => list(&mut node.pods).pods[0].name = "other".to_owned(),
            _ => _ = list(&mut node.pods).pods.remove(0),
        }
        list(&mut node.pods).confirms = choices.of(&[Confirms::ByUid, Confirms::ByName]);
        list(&mut node.pods).complete = choices.is();
        match choices.of(&["all", "no pods", "no containers", "no sandboxes"]) {
            "no pods" => node.pods = seen(None),
            "no containers" => node.containers = seen(None),
            "no sandboxes" => node.sandboxes = seen(None),
            _ => {}
        }
        let has_dir = choices.of(&[Some(false), Some(true), None]);
        node.pod_dirs = seen(has_dir.map(|has| has.then(|| pod.uid.clone()).into_iter().collect()));
        let missing_for = choices.of(&[None, Some(59), Some(60)]);
        let absence = missing_for.map(|age| Absence { uid: pod.uid.clone(), since: ago(age) });
        node.memory.absent_since = absence.into_iter().collect();
        node.listening_since =
            seen(choices.of(&[Some(None), Some(Some(59)), Some(Some(60)), None]).map(|age| age.map(ago)));
        check_node(&node, &policy, Scope::Containers)
    });
}

/// Which sandboxes are dead: two, of one pod, of two or of none, with containers or without.
#[test]
fn sandboxes() {
    play("sandboxes", |choices| {
        let mut policy = policy(choices.is());
        policy.containers.evict_terminated_pods = choices.is();
        let mut one = || Sandbox {
            state: choices.of(&[Ready, NotReady]),
            created_at: at(choices.of(&[Some(59), Some(60), Some(HOUR), None])),
            attempt: choices.of(&[0, 1]),
            ..sandbox(0)
        };
        let mut sandboxes = [one(), one()];
        let pods = choices.of(&[[Some(0), Some(0)], [Some(0), Some(1)], [Some(0), None], [None, None]]);
        sandboxes.iter_mut().zip(pods).for_each(|(sandbox, pod)| sandbox.pod = pod.map(pod_ref));
        let mut containers = [container(0, "a"), Container { created_at: ago(2 * HOUR), ..container(0, "a") }];
        containers[0].sandbox_id = choices.of(&["s0", "s1", ""]).into();
        containers[0].state = choices.of(&[Exited, Running]);
        containers[1].sandbox_id = choices.of(&["s0", ""]).into();
        let mut node = node(containers, sandboxes);
        match choices.of(&["exists", "terminated", "missing", "deleted"]) {
            "exists" => {}
            "terminated" => list(&mut node.pods).pods[0].phase = Phase::Failed,
            of => {
                list(&mut node.pods).pods.remove(0);
                let since = ago(if of == "deleted" { HOUR } else { 0 });
                node.memory.absent_since = [Absence { uid: pod_ref(0).uid, since }].into();
            }
        }
        list(&mut node.pods).complete = choices.is();
        check_node(&node, &policy, Scope::Containers)
    });
}

/// What keeps an image, and what was not observed: one that may be used and named in every way, beside one that nothing keeps, and a nameless one.
#[test]
fn uses() {
    const DIGEST: &str = "docker.io/library/i0@sha256:d0";
    play("uses", |choices| {
        let mut policy = policy(choices.is());
        (policy.images.all_unused, policy.images.max_age) = (choices.is(), Duration::from_mins(1));
        policy.containers.evict_terminated_pods = choices.is();
        let mut node = with_images(&[OLD; 3]);
        list(&mut node.images)[0].digests = vec![DIGEST.to_owned()];
        list(&mut node.images)[2].tags.clear();
        list(&mut node.images)[0].pinned = choices.is();
        policy.images.keep = choices.is().then(|| ImageName::from(NAME)).into_iter().collect();
        let pod = Some(PodRef { uid: "u".into(), ..PodRef::default() });
        let mut user = Container { state: choices.of(&[Exited, Running]), pod, ..super::container() };
        user.image_id = choices.of(&[None, Some("sha256:0"), Some(DIGEST)]).map(str::to_owned);
        user.image = choices.is().then(|| NAME.to_owned());
        user.image_volumes = choices.is().then(|| "sha256:0".to_owned()).into_iter().collect();
        let unseen = choices.of(&["", "containers", "images", "pods", "uses", "pause", "disk"]);
        node.containers = seen((unseen != "containers").then(|| vec![user]));
        let images = choices.of(&[None, Some(NAME), Some(DIGEST)]).map(str::to_owned).into_iter().collect();
        let pod =
            Pod { uid: "u".into(), phase: choices.of(&[Phase::Running, Phase::Failed]), images, ..Pod::default() };
        node.pods = seen((unseen != "pods").then(|| PodList { complete: true, pods: vec![pod], ..PodList::default() }));
        let pause = choices.of(&[None, Some(NAME)]).map(str::to_owned);
        node.sandbox_image = seen((unseen != "pause").then_some(pause));
        node.image_uses = seen((unseen != "uses").then_some(()));
        node.image_filesystem = seen((unseen != "disk").then(FileSystem::default));
        node.listening_since = Seen::Seen(choices.of(&[None, Some(59), Some(60)]).map(ago));
        if unseen == "images" {
            node.images = seen(None);
        }
        check_node(&node, &policy, Scope::Images)
    });
}

/// Which images are removed, and in which order: three of different sizes and histories, on disks at and near the thresholds.
#[test]
fn histories() {
    const FIRST_SEEN: [Option<i64>; 4] = [None, Some(119), Some(120), Some(2 * HOUR)];
    const LAST_USED: [Option<i64>; 5] = [None, Some(0), Some(HOUR), Some(HOUR + 1), Some(2 * HOUR)];
    const AVAILABLE: [u64; 5] = [0, 200, 209, 210, 1100];
    const THRESHOLDS: [(u64, u64); 5] = [(80, 70), (80, 80), (100, 0), (100, 100), (0, 0)];
    /// Whether all unused images are removed, the maximum age, and for how long the agent runs.
    const AGES: [(bool, i64, i64); 4] = [(false, 0, 0), (false, HOUR, HOUR), (false, HOUR, HOUR + 1), (true, 0, 0)];
    play("histories", |choices| {
        let mut policy = policy(choices.is());
        let (all_unused, max_age, runs_for) = choices.of(&AGES);
        (policy.images.all_unused, policy.images.max_age) = (all_unused, Duration::from_secs(max_age.unsigned_abs()));
        (policy.images.high_threshold_percent, policy.images.low_threshold_percent) = choices.of(&THRESHOLDS);
        let mut one = || (choices.of(&FIRST_SEEN), choices.of(&LAST_USED));
        let mut node = with_images(&[one(), one(), one()]);
        node.memory.agent_started_at = Some(ago(runs_for));
        let disk =
            FileSystem { capacity_bytes: 1000, available_bytes: choices.of(&AVAILABLE), ..FileSystem::default() };
        node.image_filesystem = Seen::Seen(disk);
        let image_id = choices.is().then(|| "sha256:0".to_owned());
        node.containers = Seen::Seen(vec![Container { image_id, ..super::container() }]);
        check_node(&node, &policy, Scope::Images)
    });
}

/// The second is that of a static pod.
const UIDS: [&str; 3] = ["u0", "000000000000000000000000000000a1", "u1"];

fn pod_ref(pod: usize) -> PodRef {
    PodRef { uid: UIDS[2 * pod].into(), namespace: "ns".to_owned(), name: format!("p{pod}") }
}

fn listed(pod: usize) -> Pod {
    let PodRef { uid, namespace, name } = pod_ref(pod);
    Pod { uid, namespace, name, phase: Phase::Running, ..Pod::default() }
}

/// An exited container in the sandbox of a pod.
fn container(pod: usize, name: &str) -> Container {
    let (of, sandbox_id) = (Some(pod_ref(pod)), format!("s{pod}").into());
    Container { pod: of, name: name.to_owned(), sandbox_id, ..super::container() }
}

fn sandbox(pod: usize) -> Sandbox {
    let (pod, created_at) = (Some(pod_ref(pod)), ago(HOUR));
    Sandbox { id: "".into(), pod, attempt: 0, state: Ready, created_at, is_static: false }
}

/// A node with these objects and two pods that run.
fn node<const N: usize>(mut containers: [Container; N], mut sandboxes: [Sandbox; 2]) -> Snapshot {
    containers.iter_mut().zip(0..).for_each(|(it, at)| it.id = format!("c{at}").into());
    sandboxes.iter_mut().zip(0..).for_each(|(it, at)| it.id = format!("s{at}").into());
    let pods = PodList { complete: true, pods: vec![listed(0), listed(1)], ..PodList::default() };
    let (containers, sandboxes) = (Seen::Seen(containers.to_vec()), Seen::Seen(sandboxes.to_vec()));
    Snapshot { containers, sandboxes, pods: Seen::Seen(pods), ..super::node() }
}

fn list<T>(seen: &mut Seen<T>) -> &mut T {
    let Seen::Seen(list) = seen else { panic!("there is a list") };
    list
}

fn at(age: Age) -> Timestamp {
    age.map_or(Timestamp::UNIX_EPOCH, ago)
}

/// Three images `docker.io/library/iN:1` of one, two and three hundred bytes.
fn with_images(histories: &[History; 3]) -> Snapshot {
    let image = |at: u64| {
        let (id, tags) = (format!("sha256:{at}").into(), vec![format!("docker.io/library/i{at}:1")]);
        Image { id, tags, size_bytes: 100 * (at + 1), ..Image::default() }
    };
    let past = |(at, (first_seen, last_used)): (usize, &History)| {
        let (id, first_seen, last_used) = (format!("sha256:{at}").into(), first_seen.map(ago), last_used.map(ago));
        ImageMemory { id, first_seen, last_used, last_used_by: None }
    };
    let mut node = Snapshot { images: Seen::Seen((0..3).map(image).collect()), ..super::node() };
    node.memory.images = histories.iter().enumerate().map(past).collect();
    node
}
