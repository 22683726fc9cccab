//! Random nodes: few pods and names, so that objects share them; ages at and near the limits.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kubegc_core::model::{
    Absence, Container, ContainerState, EntryKind, FileSystem, Image, ImageMemory, LeftoverLog, LinkTarget, ListCounts,
    LogDir, LogLink, Memory, Phase, Pod, PodList, PodRef, PodUid, RemovedImage, Sandbox, SandboxState, Seen, Snapshot,
    pod_uid_of_dir,
};
use kubegc_core::plan::{Kind, Plan, Policy, key, update_memory};
use kubegc_core::rules::{ImageTotal, Limits, Rule, RuleSubject, RuleText, Rules, Then};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Returns the time of every snapshot.
pub fn now() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> Timestamp {
    now().checked_sub(SignedDuration::from_secs(seconds)).unwrap()
}

/// Generates a time at or near a limit, or in the future.
pub fn a_moment() -> impl Strategy<Value = Timestamp> {
    const LIMITS: [i64; 15] = [-5, 0, 1, 59, 60, 61, 119, 120, 121, 599, 600, 601, 3600, 86_400, 864_000];
    prop_oneof![select(&LIMITS[..]), 0..100_000_i64].prop_map(ago)
}

pub fn a_uid() -> impl Strategy<Value = String> {
    select(&["0a", "1b", "2c", "3d"][..]).prop_map(str::to_owned)
}

fn a_pod_ref() -> impl Strategy<Value = Option<PodRef>> {
    let pod = a_uid().prop_map(|uid| PodRef { name: format!("pod-{uid}"), namespace: "ns".into(), uid: uid.into() });
    option::weighted(0.9, pod)
}

fn an_image_name() -> impl Strategy<Value = String> {
    (0..6_u8, any::<bool>()).prop_map(|(n, by_id)| if by_id { image_id(n) } else { image_tag(n) })
}

fn image_id(n: u8) -> String {
    format!("sha256:{n}")
}

fn image_tag(n: u8) -> String {
    format!("docker.io/library/i{n}:1")
}

/// Generates an observation that is available most of the time.
fn seen<T: Clone + std::fmt::Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Seen<T>> {
    prop_oneof![9 => value.prop_map(Seen::Seen), 1 => Just(Seen::NotSeen("no answer".into()))]
}

fn a_container() -> impl Strategy<Value = Container> {
    use ContainerState::{Created, Exited, Running, Unknown};
    let state = select(&[Created, Running, Exited, Exited, Exited, Unknown][..]);
    let failed = option::weighted(0.05, Just("its status failed".to_owned()));
    let names = (
        option::weighted(0.8, an_image_name()),
        option::weighted(0.2, an_image_name()),
        vec(an_image_name(), 0..2),
        failed,
    );
    let slot = (select(&["app", "init"][..]), an_attempt());
    let from = (a_pod_ref(), slot, 0..6_u8, state, a_moment(), option::of(a_moment()), names);
    from.prop_map(
        |(
            pod,
            (name, attempt),
            sandbox,
            state,
            created_at,
            finished_at,
            (image_id, image, image_volumes, image_volumes_unknown),
        )| Container {
            id: "".into(),
            sandbox_id: format!("s{sandbox}").into(),
            pod,
            name: name.into(),
            attempt,
            state,
            created_at,
            finished_at,
            exit_code: None,
            exit_reason: None,
            log_bytes: None,
            image_id,
            image,
            image_volumes,
            image_volumes_unknown,
        },
    )
}

fn an_attempt() -> impl Strategy<Value = u32> {
    select(&[0, 0, 0, 1, 2, 5][..])
}

/// Generates logs without an instance, most of containers that exist.
fn leftover_logs() -> impl Strategy<Value = Vec<LeftoverLog>> {
    let log = (a_uid(), select(&["app", "init", "other"][..]), 0..5_u32, option::weighted(0.9, a_moment()));
    vec(log, 0..5).prop_map(|logs| {
        let logs = logs.into_iter().map(|(uid, name, attempt, at)| ((uid, name, attempt), at));
        let logs = logs.collect::<std::collections::BTreeMap<_, _>>().into_iter();
        logs.map(|((uid, name, attempt), modified_at)| LeftoverLog {
            pod: PodRef { name: format!("pod-{uid}"), namespace: "ns".into(), uid: uid.into() },
            container: name.to_owned(),
            attempt,
            modified_at,
            size_bytes: 10,
        })
        .collect()
    })
}

fn a_sandbox() -> impl Strategy<Value = Sandbox> {
    let state = select(&[SandboxState::Ready, SandboxState::NotReady, SandboxState::NotReady][..]);
    (a_pod_ref(), state, a_moment()).prop_map(|(pod, state, created_at)| Sandbox {
        id: "".into(),
        pod,
        attempt: 0,
        state,
        created_at,
        is_static: false,
    })
}

fn an_image() -> impl Strategy<Value = (u64, bool)> {
    (1..50_u64, proptest::bool::weighted(0.1))
}

fn a_pod() -> impl Strategy<Value = Pod> {
    let phase = select(&[Phase::Running, Phase::Succeeded, Phase::Failed, Phase::Pending][..]);
    (a_uid(), phase, vec(an_image_name(), 0..2)).prop_map(|(uid, phase, images)| Pod {
        name: format!("pod-{uid}"),
        namespace: "ns".into(),
        uid: uid.into(),
        phase,
        images,
        ..Pod::default()
    })
}

fn pods() -> impl Strategy<Value = PodList> {
    (vec(a_pod(), 0..3), proptest::bool::weighted(0.8)).prop_map(|(mut pods, complete)| {
        pods.sort_by(|a, b| a.uid.cmp(&b.uid));
        pods.dedup_by(|a, b| a.uid == b.uid);
        PodList { source: "test".into(), complete, pods, ..PodList::default() }
    })
}

fn log_dirs() -> impl Strategy<Value = Vec<LogDir>> {
    let name = prop_oneof![
        4 => a_uid().prop_map(|uid| format!("ns_pod-{uid}_{uid}")),
        1 => select(&["lost+found", "a_b_", "..", "x_y_z_0a", "file"][..]).prop_map(str::to_owned),
    ];
    let kind = select(&[EntryKind::Directory, EntryKind::Directory, EntryKind::Directory, EntryKind::Symlink][..]);
    vec((name, kind), 0..4).prop_map(|entries| {
        let entries = entries.into_iter().collect::<std::collections::BTreeMap<_, _>>();
        entries.into_iter().map(|(name, entry)| LogDir { name, entry, modified_at: None, size_bytes: None }).collect()
    })
}

fn log_links() -> impl Strategy<Value = Vec<LogLink>> {
    let name = prop_oneof![
        4 => (0..8_u8).prop_map(|n| format!("pod_ns_app-c{n:07}.log")),
        1 => select(&["nodash.log", "x-abc.log", "other"][..]).prop_map(str::to_owned),
    ];
    let target = select(&[LinkTarget::Exists, LinkTarget::Missing, LinkTarget::Missing, LinkTarget::Unknown][..]);
    vec((name, target), 0..4).prop_map(|entries| {
        let entries = entries.into_iter().collect::<std::collections::BTreeMap<String, LinkTarget>>();
        entries.into_iter().map(|(name, target)| LogLink { name, target }).collect()
    })
}

fn memory() -> impl Strategy<Value = Memory> {
    let image = (0..6_u8, option::weighted(0.9, a_moment()), option::of(a_moment()));
    let images = vec(image, 0..6).prop_map(|images| {
        let by_id: std::collections::BTreeMap<_, _> =
            images.into_iter().map(|(n, first, last)| (n, (first, last))).collect();
        let past = by_id.into_iter();
        past.map(|(n, (first_seen, last_used))| ImageMemory {
            id: image_id(n).into(),
            first_seen,
            last_used,
            last_used_by: None,
        })
        .collect()
    });
    let absent =
        vec((a_uid(), a_moment().prop_filter("not in the future", |at| *at <= now())), 0..4).prop_map(|absent| {
            let by_uid: std::collections::BTreeMap<String, Timestamp> = absent.into_iter().collect();
            by_uid.into_iter().map(|(uid, since)| Absence { uid: uid.into(), since }).collect()
        });
    let counts = option::of((0..40_u64, 0..10_u64, 0..8_u64));
    let counts = counts
        .prop_map(|counts| counts.map(|(containers, sandboxes, images)| ListCounts { containers, sandboxes, images }));
    let removed = (select(&["age", "space"][..]), a_moment(), option::of(a_moment()), 0..1_000_000_i64);
    let removed_images = vec((0..6_u8, removed), 0..4).prop_map(|removed| {
        let image = |(reason, at, pulled_again_at, unused_seconds): (&str, _, _, _)| {
            let reason = reason.to_owned();
            RemovedImage { at, reason, pulled_again_at, unused_seconds, ..RemovedImage::default() }
        };
        removed.into_iter().map(|(n, removed)| (image_id(n).into(), Arc::new(image(removed)))).collect()
    });
    (images, absent, counts, option::of(a_moment()), removed_images).prop_map(
        |(images, absent_since, last_counts, agent_started_at, removed_images)| Memory {
            agent_started_at,
            removed_images,
            images,
            absent_since,
            last_counts,
            ..Memory::default()
        },
    )
}

/// Generates the name of the sandbox image, and since when the runtime listens.
fn runtime() -> impl Strategy<Value = (Option<String>, Option<Timestamp>)> {
    (option::of((0..6_u8).prop_map(image_tag)), option::weighted(0.3, a_moment()))
}

fn disk() -> impl Strategy<Value = FileSystem> {
    (select(&[0, 100, 1000, 1003][..]), 0..1100_u64).prop_map(|(capacity_bytes, available_bytes)| FileSystem {
        capacity_bytes,
        available_bytes,
        ..FileSystem::default()
    })
}

/// Generates a node.
pub fn a_node() -> impl Strategy<Value = Snapshot> {
    let runtime = (
        seen(vec(a_container(), 0..12)),
        seen(vec(a_sandbox(), 0..6)),
        seen(vec(an_image(), 0..6)),
        seen(runtime()),
        seen(disk()),
    );
    let files = (
        seen(log_dirs()),
        seen(log_links()),
        seen(leftover_logs()),
        seen(vec(a_uid().prop_map(PodUid::from), 0..2)),
        vec(an_image_name(), 0..2),
    );
    (runtime, files, seen(pods()), seen(Just(())), memory()).prop_map(
        |(
            (containers, sandboxes, images, runtime, image_filesystem),
            (log_dirs, log_links, leftover_logs, pod_dirs, pulling),
            pods,
            image_uses,
            memory,
        )| {
            // If the runtime does not answer, what it names is not known, and since when it listens neither.
            let (sandbox_image, listening_since) = match runtime {
                Seen::Seen((image, since)) => (image, since),
                _ => (None, None),
            };
            Snapshot {
                containers: containers
                    .map(|list| numbered(list, |container, n| container.id = format!("c{n:07}").into())),
                sandboxes: sandboxes.map(|list| numbered(list, |sandbox, n| sandbox.id = format!("s{n}").into())),
                images: images.map(|list| list.into_iter().zip(0..).map(image).collect()),
                sandbox_image: Seen::Seen(sandbox_image),
                listening_since: Seen::Seen(listening_since),
                image_filesystem,
                log_dirs,
                log_links,
                leftover_logs,
                pod_dirs,
                pulling,
                image_uses,
                pods,
                memory,
                ..serde_json::from_value(serde_json::json!({ "taken_at": now() })).unwrap()
            }
        },
    )
}

fn image(((size_bytes, pinned), n): ((u64, bool), u8)) -> Image {
    Image { id: image_id(n).into(), tags: vec![image_tag(n)], digests: Vec::new(), size_bytes, pinned }
}

fn numbered<T>(mut list: Vec<T>, name: impl Fn(&mut T, usize)) -> Vec<T> {
    for (n, item) in list.iter_mut().enumerate() {
        name(item, n);
    }
    list
}

/// Generates no rules, or some in any order: those that hold for all, for some, and that cannot be evaluated for some.
fn some_rules() -> impl Strategy<Value = Rules> {
    static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
        use RuleSubject::{Container, Image, Log, Sandbox};
        use Then::{Keep, Remove};
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let limits = |min_age, max_age, max_per_pod_container, keep_for| {
            Then::Limits(Limits { min_age, max_age, max_per_pod_container, keep_for, ..Limits::default() })
        };
        let total = Some(ImageTotal { above_bytes: 100, until_bytes: 10 });
        let total = Then::Limits(Limits { total, ..Limits::default() });
        let rules = [
            (Image, Keep, "image.tags.exists(tag, tag.contains('/i2:'))"),
            (Image, Keep, "image.last_used < now - duration('10m')"),
            (Image, Remove, "image.unused > duration('2m')"),
            (Image, Remove, "image.last_used < now - duration('1h')"),
            (Image, total, "image.size_bytes % 2 == 0"),
            (Image, Remove, "true"),
            (Container, Keep, "pod.phase == 'running'"),
            (Container, Keep, "container.name == 'init' && container.age > duration('2m')"),
            (Container, Keep, "container.state == 'created'"),
            (Container, Remove, "container.age > duration('5m')"),
            (Container, Remove, "pod.phase != 'running'"),
            (Container, limits(None, None, Some(0), None), "container.attempt > 0"),
            (Container, limits(seconds(300), None, Some(2), None), "true"),
            (Container, limits(seconds(0), None, None, None), "container.name == 'app'"),
            (Sandbox, Keep, "sandbox.age > duration('10m')"),
            (Log, Keep, "pod.name == 'p1'"),
            (Log, limits(None, None, None, seconds(600)), "true"),
            (Image, limits(seconds(0), seconds(60), None, None), "image.size_bytes > 100"),
            (Image, limits(seconds(600), None, None, None), "true"),
        ];
        let rule = |(of, then, when): (RuleSubject, Then, &str)| {
            let (name, note, when) = (when.to_owned(), String::new(), when.to_owned());
            Rule::compile(RuleText { name, subject: of, when, then, until: None, resource: String::new(), note })
                .unwrap()
        };
        rules.map(rule).into()
    });
    let some = vec(select(&RULES[..]), 0..6);
    prop_oneof![Just(Vec::new()), some].prop_map(|rules| rules.into_iter().collect())
}

/// Generates a policy with all guards on.
pub fn a_policy() -> impl Strategy<Value = Policy> {
    let seconds = select(&[0, 60, 600][..]);
    let containers = (seconds.clone(), -1..3_i64, -1..8_i64, any::<bool>());
    let images = (
        0..=100_u64,
        0..=100_u64,
        seconds.clone(),
        seconds,
        proptest::bool::weighted(0.2),
        proptest::bool::weighted(0.2),
    );
    (containers, images, some_rules()).prop_map(
        |((min_age, per_unit, total, evict), (a, b, image_min_age, max_age, all_unused, keep), rules)| {
            let mut policy = Policy::default();
            policy.containers.min_age = Duration::from_secs(min_age);
            policy.containers.max_per_pod_container = u64::try_from(per_unit).ok();
            policy.containers.max_containers = u64::try_from(total).ok();
            policy.containers.evict_terminated_pods = evict;
            policy.images.high_threshold_percent = a.max(b);
            policy.images.low_threshold_percent = a.min(b);
            policy.images.min_age = Duration::from_secs(image_min_age);
            policy.images.max_age = Duration::from_secs(max_age);
            policy.images.all_unused = all_unused;
            policy.logs.leftover_max_age = Duration::from_secs(1);
            policy.rules = rules;
            policy.images.keep = if keep { vec!["*/i1:*".into()] } else { Vec::new() };
            policy
        },
    )
}

/// Returns the same node with every list in another order.
pub fn shuffled(node: &Snapshot, seed: u64) -> Snapshot {
    fn shuffle<T: Clone>(seen: &Seen<Vec<T>>, seed: u64) -> Seen<Vec<T>> {
        seen.clone().map(|mut list| {
            let by = seed as usize % list.len().max(1);
            list.rotate_left(by);
            if seed % 2 == 1 {
                list.reverse();
            }
            list
        })
    }
    let mut node = node.clone();
    node.containers = shuffle(&node.containers, seed);
    node.sandboxes = shuffle(&node.sandboxes, seed >> 3);
    node.images = shuffle(&node.images, seed >> 6);
    node.log_dirs = shuffle(&node.log_dirs, seed >> 9);
    node.log_links = shuffle(&node.log_links, seed >> 12);
    node.leftover_logs = shuffle(&node.leftover_logs, seed >> 15);
    Arc::make_mut(&mut node.memory.images).reverse();
    node
}

/// Returns the same node with containers of one attempt.
pub fn without_attempts(mut node: Snapshot) -> Snapshot {
    node.containers = node.containers.map(|list| numbered(list, |container, _| container.attempt = 0));
    node
}

/// Returns the same node with lists that are trusted.
pub fn believed(mut node: Snapshot) -> Snapshot {
    node.memory.last_counts = None;
    node.containers = node.containers.map(|mut containers| {
        for container in &mut containers {
            container.image_volumes_unknown = None;
        }
        containers
    });
    node.listening_since = Seen::Seen(None);
    node
}

/// Returns the node after a plan, with the memory of the pass. Each image reclaims exactly its size.
pub fn carried_out(node: &Snapshot, plan: &Plan, policy: &Policy) -> Snapshot {
    let gone: std::collections::BTreeSet<_> = plan.actions.iter().map(kubegc_core::plan::Action::key).collect();
    let is_left = |kind, id: &str| !gone.contains(&key(kind, id));
    let before = node;
    let mut node = node.clone();
    node.containers = retain(node.containers, |container: &Container| is_left(Kind::Container, container.id.as_str()));
    node.sandboxes = retain(node.sandboxes, |sandbox: &Sandbox| is_left(Kind::Sandbox, sandbox.id.as_str()));
    node.log_dirs = retain(node.log_dirs, |dir: &LogDir| is_left(Kind::LogDir, &format!("/var/log/pods/{}", dir.name)));
    node.log_links =
        retain(node.log_links, |link: &LogLink| is_left(Kind::LogLink, &format!("/var/log/containers/{}", link.name)));
    // A directory is removed with its files, and a container with its log.
    let dirs = removed_dirs(plan);
    let of_removed = |log: &LeftoverLog| {
        let mut containers = before.containers.as_ref().into_iter().flatten();
        containers.any(|one| {
            let is_its = (one.pod_uid(), &one.name, one.attempt) == (Some(&log.pod.uid), &log.container, log.attempt);
            is_its && !is_left(Kind::Container, one.id.as_str())
        })
    };
    node.leftover_logs = retain(node.leftover_logs, |log: &LeftoverLog| {
        is_left(Kind::LogFile, &log_path(log)) && !dirs.contains(&log.pod.uid) && !of_removed(log)
    });
    let freed: u64 = node
        .images
        .as_ref()
        .into_iter()
        .flatten()
        .filter(|image| !is_left(Kind::Image, image.id.as_str()))
        .map(|image| image.size_bytes)
        .sum();
    node.images = retain(node.images, |image: &Image| is_left(Kind::Image, image.id.as_str()));
    node.image_filesystem =
        node.image_filesystem.map(|disk| FileSystem { available_bytes: disk.available_bytes + freed, ..disk });
    node.memory = update_memory(before, policy);
    // The agent counts its own removals, so they are no sharp fall.
    node.memory.last_counts = None;
    node
}

/// Returns the pods whose log directories a plan removes.
fn removed_dirs(plan: &Plan) -> Vec<PodUid> {
    let removed = plan.actions.iter().filter(|action| action.target.kind() == Kind::LogDir);
    removed.map(|action| pod_uid_of_dir(&action.target.id())).collect()
}

fn log_path(log: &LeftoverLog) -> String {
    log.path(std::path::Path::new("/var/log/pods")).display().to_string()
}

fn retain<T>(seen: Seen<Vec<T>>, is_left: impl Fn(&T) -> bool) -> Seen<Vec<T>> {
    seen.map(|mut list| {
        list.retain(|item| is_left(item));
        list
    })
}

/// Returns everything that a plan must decide on: what is in a removed directory is a part of it.
pub fn keys(node: &Snapshot, policy: &Policy, plan: &Plan) -> Vec<String> {
    fn all<T>(seen: &Seen<Vec<T>>, kind: Kind, id: impl Fn(&T) -> String) -> Vec<String> {
        seen.as_ref().into_iter().flatten().map(|item| key(kind, &id(item))).collect()
    }
    let path = |root: &std::path::Path, name: &str| root.join(name).display().to_string();
    let mut keys = all(&node.containers, Kind::Container, |container| container.id.to_string());
    keys.extend(all(&node.sandboxes, Kind::Sandbox, |sandbox| sandbox.id.to_string()));
    keys.extend(all(&node.log_dirs, Kind::LogDir, |dir| path(&policy.logs.pods_root, &dir.name)));
    keys.extend(all(&node.log_links, Kind::LogLink, |link| path(&policy.logs.containers_root, &link.name)));
    let removed = removed_dirs(plan);
    let logs = node.leftover_logs.as_ref().into_iter().flatten().filter(|log| !removed.contains(&log.pod.uid));
    keys.extend(logs.map(|log| key(Kind::LogFile, &log_path(log))));
    keys.extend(all(&node.images, Kind::Image, |image| image.id.to_string()));
    keys
}
