//! What rules do with images and containers.

use std::sync::Arc;
use std::time::Duration;

use crate::model::{Phase, RemovedImage, Seen, Snapshot};
use crate::plan::document::action::{Kind, Target};
use crate::plan::document::reason::RemoveReason;
use crate::plan::policy::Policy;
use crate::plan::policy::image_policy::ImageOrder;
use crate::plan::tests::node::{Node, Row, ago, hold, node};
use crate::rules::{Limits, Rule, RuleSubject, RuleText, Score, Then};

fn rule(of: RuleSubject, then: Then, when: &str) -> Rule {
    let (name, note) = (format!("{when:.20}"), String::new());
    Rule::compile(RuleText {
        name,
        subject: of,
        when: when.to_owned(),
        then,
        until: None,
        resource: String::new(),
        note,
    })
    .unwrap()
}

fn rules(rules: &[(Then, &str)]) -> impl Fn(&mut Policy) {
    let rules: Vec<_> = rules.iter().map(|(then, when)| rule(RuleSubject::Image, then.clone(), when)).collect();
    move |policy| policy.rules = rules.iter().cloned().collect()
}

/// Three unused images of 30 bytes on a disk of 1000 bytes; the oldest is never used.
fn three(available_bytes: u64) -> Node {
    let tag =
        |name: &'static str| move |image: &mut crate::model::Image| image.tags = vec![format!("r.example/{name}:1")];
    node()
        .image("never", 300)
        .which(tag("base/never"))
        .image("old", 300)
        .used(200)
        .which(tag("app/old"))
        .image("new", 300)
        .used(100)
        .which(tag("app/new"))
        .disk(available_bytes)
}

/// A rule that removed an image which was pulled again waits. Another rule does not, and the settings do not.
#[test]
#[rustfmt::skip]
fn a_rule_waits_for_an_image_that_was_pulled_again() {
    let removed = |rule: &str, unused: i64| {
        let image = RemovedImage {
            at: ago(299), reason: "rule".to_owned(), rule: Some(rule.to_owned()), pulled_again_at: Some(ago(298)),
            unused_seconds: unused * 60, ..RemovedImage::default()
        };
        move |snapshot: &mut Snapshot| _ = snapshot.memory.removed_images.insert("old".into(), Arc::new(image.clone()))
    };
    let (when, others) = ("image.id == 'old'", "image.id != 'never'");
    let by_rule = |rule, unused| three(500).set(rules(&[(Then::Remove, when)])).but(removed(rule, unused));
    let age = |policy: &mut Policy| policy.images.max_age = Duration::from_mins(150);
    hold(&[Kind::Image], [
        ("the same rule", by_rule(when, 101), "never new: below_threshold, old: pulled_again", "") as Row,
        ("unused for longer than twice", by_rule(when, 99), "never new: below_threshold", "old: rule"),
        ("another rule", by_rule("another", 101), "never new: below_threshold", "old: rule"),
        ("the maximum age is another reason", by_rule(when, 101).set(age), "new: within_max_age", "never old: age"),
        ("the rest gives enough space", three(170).set(rules(&[(Then::Remove, others)])).but(removed(others, 101))
            .set(|policy| policy.images.high_threshold_percent = 80), "never: target_reached, old: pulled_again", "new: rule"),
        ("image removal for space is off", by_rule(when, 101).set(|policy| policy.images.high_threshold_percent = 100),
            "never new: image_gc_off, old: pulled_again", ""),
        ("space is needed", by_rule(when, 101).disk(100), "", "never old new: space"),
    ]);
}

/// What a person restored is not removed by the same rule at once, however late.
#[test]
#[rustfmt::skip]
fn a_rule_waits_for_an_image_that_is_back_while_its_removal_can_be_undone() {
    let when = "image.id == 'old'";
    let image = RemovedImage {
        at: ago(420), reason: "rule".to_owned(), rule: Some(when.to_owned()), pulled_again_at: Some(ago(300)),
        unused_seconds: 101 * 60, ..RemovedImage::default()
    };
    let removed = |snapshot: &mut Snapshot| _ = snapshot.memory.removed_images.insert("old".into(), Arc::new(image.clone()));
    let with_undo = |hours| three(500).set(rules(&[(Then::Remove, when)])).but(removed)
        .set(move |policy| policy.images.undo = Duration::from_hours(hours));
    hold(&[Kind::Image], [
        ("within the time", with_undo(3), "never new: below_threshold, old: pulled_again", "") as Row,
        ("later than that", with_undo(1), "never new: below_threshold", "old: rule"),
    ]);
}

#[test]
#[rustfmt::skip]
fn the_first_rule_that_matches_an_image_decides() {
    use Then::{Keep, Remove};
    let base = "image.repository.startsWith('r.example/base/')";
    let unused = "image.unused > duration('150m')";
    let off = |policy: &mut Policy| policy.images.high_threshold_percent = 100;
    let young = |policy: &mut Policy| policy.images.min_age = Duration::from_mins(301);
    let pinned = |image: &mut crate::model::Image| image.pinned = true;
    hold(&[Kind::Image], [
        ("no rule", three(100), "", "never old new: space") as Row,
        ("a rule keeps an image from removal for space", three(100).set(rules(&[(Keep, base)])), "never: rule", "old new: space"),
        ("a rule removes images below the threshold", three(500).set(rules(&[(Remove, unused)])), "new: below_threshold", "never old: rule"),
        ("also if the removal for space is off", three(500).set(off).set(rules(&[(Remove, unused)])), "new: image_gc_off", "never old: rule"),
        ("the first rule decides", three(500).set(rules(&[(Keep, base), (Remove, unused)])), "never: rule, new: below_threshold", "old: rule"),
        ("in the other order too", three(500).set(rules(&[(Remove, unused), (Keep, base)])), "new: below_threshold", "never old: rule"),
        ("what a rule removes counts for the goal", three(140).set(rules(&[(Remove, "image.id == 'new'")])),
            "old: target_reached", "new: rule, never: space"),
        ("it can be enough", three(170).set(|policy| policy.images.high_threshold_percent = 80).set(rules(&[(Remove, "image.id == 'new'")])),
            "never old: target_reached", "new: rule"),
        ("not below the minimum age", three(500).set(young).set(rules(&[(Remove, unused)])),
            "never: younger_than_min_age, new: below_threshold, old: younger_than_min_age", ""),
        ("not what the runtime has pinned", three(500).which(pinned).set(rules(&[(Remove, "true")])), "new: pinned", "never old: rule"),
        ("a missing fact keeps", three(500).set(rules(&[(Keep, "image.last_used < now"), (Remove, "true")])), "never new old: rule", ""),
        ("and does not remove", three(500).set(rules(&[(Remove, "image.last_used < now")])), "never: below_threshold", "old new: rule"),
        ("rules are of the profile kubelet too", three(100).kubelet().set(rules(&[(Keep, base)])), "never: rule", "old new: space"),
    ]);
}

/// Somebody adds a second name, which is first in the alphabet.
fn two_names() -> Node {
    let names =
        |image: &mut crate::model::Image| image.tags = vec!["r.example/a/x:1".into(), "r.example/base/x:1".into()];
    node().image("both", 300).used(200).which(names).disk(500)
}

#[test]
#[rustfmt::skip]
fn each_name_of_an_image_is_decided_and_what_keeps_it_longest_counts() {
    use Then::{Keep, Remove};
    let (a, base) = ("image.repository == 'r.example/a/x'", "image.repository == 'r.example/base/x'");
    let any = "image.registry == 'r.example'";
    let max_age = |when, minutes_of| limits(RuleSubject::Image, when, Limits { max_age: Some(minutes(minutes_of)), ..Limits::default() });
    let min_age = |when, minutes_of| limits(RuleSubject::Image, when, Limits { min_age: Some(minutes(minutes_of)), ..Limits::default() });
    let of_settings = |policy: &mut Policy| policy.images.max_age = minutes(150);
    let least_used = |order: &str| {
        let score = Score::compile(order).unwrap();
        move |policy: &mut Policy| policy.images.order = ImageOrder::Score(score.clone())
    };
    let other = |node: Node| node.image("other", 300).used(100).which(|image| image.tags = vec!["r.example/c/x:1".into()]).disk(100);
    hold(&[Kind::Image], [
        ("kept under one name", two_names().set(rules(&[(Keep, base)])).set(of_settings), "both: rule", "") as Row,
        ("also if a rule before removes the other name", two_names().set(rules(&[(Remove, a), (Keep, base)])), "both: rule", ""),
        ("not removed if only one name is to be", two_names().set(rules(&[(Remove, a)])), "both: below_threshold", ""),
        ("removed if all names are to be", two_names().set(rules(&[(Remove, any)])), "", "both: rule"),
        ("also by two rules", two_names().set(rules(&[(Remove, a), (Remove, base)])), "", "both: rule"),
        ("a short maximum age of one name", two_names().set(max_age(a, 150)), "both: below_threshold", ""),
        ("a long one of one name", two_names().set(of_settings).set(max_age(base, 250)), "both: rule", ""),
        ("a short one of both", two_names().set(max_age(any, 150)), "", "both: rule"),
        ("a minimum age of one name", two_names().set(of_settings).set(min_age(base, 350)), "both: rule", ""),
        ("a short minimum age of one name", two_names().set(of_settings).set(|policy| policy.images.min_age = minutes(350)).set(min_age(a, 1)),
            "both: younger_than_min_age", ""),
        ("the order is that of the name that is removed last", other(two_names()).set(least_used("image.repository.contains('/base/') ? 0 : image.repository.contains('/c/') ? 5 : 9"))
            .set(|policy| policy.images.low_threshold_percent = 89), "both: target_reached", "other: space"),
        ("a rule without names decides once", two_names().set(rules(&[(Remove, "image.unused > duration('1h')")])), "", "both: rule"),
    ]);
    let notes = two_names().set(rules(&[(Remove, a), (Keep, base)])).plan().rules;
    let shown: Vec<_> = notes.iter().map(|note| (note.objects, note.bytes, note.errors)).collect();
    assert_eq!(shown, [(0, 0, 0), (1, 30, 0)], "one image");
}

#[test]
#[rustfmt::skip]
fn a_list_comes_after_the_rules() {
    use Then::{Keep, Remove};
    let (a, any) = ("image.repository == 'r.example/a/x'", "image.registry == 'r.example'");
    let list = |name: &'static str| move |policy: &mut Policy| policy.pass.listed = [("policy p".to_owned(), vec![name.into()])].into();
    let listed = || two_names().set(list("r.example/base/x"));
    let limit = limits(RuleSubject::Image, any, Limits { max_age: Some(minutes(250)), ..Limits::default() });
    hold(&[Kind::Image], [
        ("listed by one of its names", listed(), "", "both: rule") as Row,
        ("not listed", two_names().set(list("r.example/base/y")), "both: below_threshold", ""),
        ("a rule keeps it under the other name", listed().set(rules(&[(Keep, a)])), "both: rule", ""),
        ("a rule removes it under the other name", listed().set(rules(&[(Remove, a)])), "", "both: rule"),
        ("a rule sets a limit", listed().set(limit), "both: rule", ""),
        ("below the minimum age", listed().set(|policy| policy.images.min_age = minutes(350)), "both: younger_than_min_age", ""),
    ]);
    let RemoveReason::Rule(reason) = &listed().plan().actions[0].reason else { panic!("the list is no reason") };
    assert_eq!(reason.rule, "policy p");
}

#[test]
fn a_rule_keeps_containers() {
    let keeps = |when: &str| {
        let rule = rule(RuleSubject::Container, Then::Keep, when);
        move |policy: &mut Policy| {
            policy.rules = [rule.clone()].into_iter().collect();
            policy.containers.max_per_pod_container = Some(1);
        }
    };
    let four = || {
        node().pod("p").exited("p/a", "a1", 40).exited("p/a", "a2", 30).exited("p/a", "a3", 20).exited("p/a", "a4", 10)
    };
    let rest = "a4: within_max_per_pod_container";
    hold(
        &[Kind::Container],
        [
            ("none matches", four().set(keeps("container.name == 'b'")), rest, "a1 a2 a3: over_max_per_pod_container")
                as Row,
            (
                "one of them",
                four().set(keeps("container.id == 'a2'")),
                "a2: rule, a4: within_max_per_pod_container",
                "a1 a3: over_max_per_pod_container",
            ),
            (
                "by age",
                four().set(keeps("container.age >= duration('30m')")),
                "a1 a2: rule, a4: within_max_per_pod_container",
                "a3: over_max_per_pod_container",
            ),
            ("by pod", four().set(keeps("pod.phase == 'running'")), "a1 a2 a3 a4: rule", ""),
        ],
    );
}

fn limits(of: RuleSubject, when: &str, limits: Limits) -> impl Fn(&mut Policy) {
    let rule = rule(of, Then::Limits(limits), when);
    move |policy| policy.rules = policy.rules.iter().cloned().chain([rule.clone()]).collect()
}

const fn minutes(minutes: u64) -> Duration {
    Duration::from_mins(minutes)
}

/// Two slots of a pod, each with four dead instances.
fn two_slots() -> Node {
    ["a", "b"].into_iter().fold(node().pod("p"), |node, name| {
        [40, 30, 20, 10]
            .into_iter()
            .zip(1..)
            .fold(node, |node, (age, n)| node.exited(&format!("p/{name}"), &format!("{name}{n}"), age))
    })
}

#[test]
#[rustfmt::skip]
fn the_limits_of_a_rule_apply_to_the_containers_that_it_decides() {
    let of_a = "container.name == 'a'";
    let most = |most| Limits { max_per_pod_container: Some(most), ..Limits::default() };
    let young = Limits { min_age: Some(minutes(25)), ..Limits::default() };
    let set = |when, limit: &Limits| limits(RuleSubject::Container, when, limit.clone());
    hold(&[Kind::Container], [
        ("more than the settings", two_slots().set(set(of_a, &most(3))),
            "a2 a3 a4: rule, b4: within_max_per_pod_container", "a1: rule, b1 b2 b3: over_max_per_pod_container") as Row,
        ("none, except the newest instance", two_slots().set(set(of_a, &most(0))),
            "a4: newest_instance, b4: within_max_per_pod_container", "a1 a2 a3: rule, b1 b2 b3: over_max_per_pod_container"),
        ("without guards none at all", two_slots().kubelet().set(set(of_a, &most(0))),
            "b4: within_max_per_pod_container", "a1 a2 a3 a4: rule, b1 b2 b3: over_max_per_pod_container"),
        ("each rule counts its own", two_slots().set(set("container.id in ['a1', 'a3']", &most(1))),
            "a3: rule, a4 b4: within_max_per_pod_container", "a1: rule, a2 b1 b2 b3: over_max_per_pod_container"),
        ("a minimum age of its own", two_slots().set(set(of_a, &young)),
            "a2: within_max_per_pod_container, a3 a4: rule, b4: within_max_per_pod_container", "a1 b1 b2 b3: over_max_per_pod_container"),
        ("and a shorter one", two_slots().set(|policy| policy.containers.min_age = Duration::from_hours(1)).set(set(of_a, &Limits { min_age: Some(minutes(0)), ..Limits::default() })),
            "a4: within_max_per_pod_container, b1 b2 b3 b4: younger_than_min_age", "a1 a2 a3: over_max_per_pod_container"),
        ("the limit of the node does not count them", two_slots().set(|policy| policy.containers.max_containers = Some(1)).set(set(of_a, &most(2))),
            "a3 a4: rule, b4: within_max_per_pod_container", "a1 a2: rule, b1 b2 b3: over_max_per_pod_container"),
        ("the pod is deleted", two_slots().without_pods().deleted("p").set(set(of_a, &most(4))),
            "", "a1 a2 a3 a4 b1 b2 b3 b4: pod_deleted"),
    ]);
    let limit = serde_json::to_value(&two_slots().set(set(of_a, &most(3))).plan().actions[0].reason).unwrap();
    assert_eq!(limit["limit"], "max_per_pod_container = 3");
}

#[test]
fn a_rule_removes_containers_within_the_guards() {
    let remove = |when: &str| {
        let rule = rule(RuleSubject::Container, Then::Remove, when);
        move |policy: &mut Policy| {
            policy.containers.max_per_pod_container = None;
            policy.rules = [rule.clone()].into_iter().collect();
        }
    };
    let young = |policy: &mut Policy| policy.containers.min_age = Duration::from_mins(35);
    let rows = [
        (
            "all that match",
            two_slots().set(remove("container.name == 'a'")),
            "a4: newest_instance, b1 b2 b3 b4: no_limit",
            "a1 a2 a3: rule",
        ) as Row,
        (
            "not the young",
            two_slots().set(remove("true")).set(young),
            "a2 a3 a4 b2 b3 b4: younger_than_min_age",
            "a1 b1: rule",
        ),
        (
            "not for an error",
            two_slots().set(remove("pod.phase == 'x' || container.image == 'x'")),
            "a1 a2 a3 a4 b1 b2 b3 b4: no_limit",
            "",
        ),
        ("not what runs", node().pod("p").running("p/a", "a1", 9).set(remove("true")), "a1: running", ""),
    ];
    hold(&[Kind::Container], rows);
}

#[test]
#[rustfmt::skip]
fn the_limits_of_a_rule_apply_to_the_images_that_it_decides() {
    let set = |limit: Limits| limits(RuleSubject::Image, "image.repository.startsWith('r.example/app/')", limit);
    let off = |policy: &mut Policy| policy.images.high_threshold_percent = 100;
    let max_age = |minutes_of: u64| Limits { max_age: Some(minutes(minutes_of)), ..Limits::default() };
    hold(&[Kind::Image], [
        ("a maximum age", three(500).set(set(max_age(150))), "never: below_threshold, new: rule", "old: rule") as Row,
        ("also if the removal for space is off", three(500).set(off).set(set(max_age(150))), "never new: image_gc_off", "old: rule"),
        ("zero is none", three(500).set(|policy| policy.images.max_age = Duration::from_mins(150)).set(set(max_age(0))),
            "new old: below_threshold", "never: age"),
        ("a minimum age", three(100).set(set(Limits { min_age: Some(minutes(350)), ..Limits::default() })), "new old: rule", "never: space"),
        ("with a rule, a minimum age also holds for the maximum age", three(500).set(set(Limits { min_age: Some(minutes(350)), max_age: Some(minutes(150)), ..Limits::default() })),
            "never: below_threshold, new old: rule", ""),
    ]);
}

#[test]
fn rules_keep_sandboxes_and_logs() {
    let keep = |of| {
        let rule = rule(of, Then::Keep, "pod.name == 'gone'");
        move |policy: &mut Policy| policy.rules = [rule.clone()].into_iter().collect()
    };
    let gone = || node().deleted("gone").sandbox("gone", "s", 90).dir("default_gone_gone");
    let keep_for = |minutes_of| {
        limits(RuleSubject::Log, "true", Limits { keep_for: Some(minutes(minutes_of)), ..Limits::default() })
    };
    let rows = [
        ("without a rule", gone(), "", "s default_gone_gone: pod_deleted") as Row,
        (
            "a sandbox, and so the logs of its pod",
            gone().set(keep(RuleSubject::Sandbox)),
            "s: rule, default_gone_gone: pod_in_runtime",
            "",
        ),
        ("the logs alone", gone().set(keep(RuleSubject::Log)), "default_gone_gone: rule", "s: pod_deleted"),
        ("not long enough", gone().set(keep_for(61)), "default_gone_gone: rule", "s: pod_deleted"),
        ("long enough", gone().set(keep_for(60)), "", "s default_gone_gone: pod_deleted"),
    ];
    hold(&[Kind::Sandbox, Kind::LogDir], rows);
}

/// The container goes, and the files stay until the time is over.
#[test]
fn a_rule_that_keeps_logs_keeps_the_files_of_removed_containers() {
    let keep_for = |time| limits(RuleSubject::Log, "true", Limits { keep_for: Some(time), ..Limits::default() });
    let gone = || node().deleted("gone").exited("gone/app", "c", 90).dir("default_gone_gone");
    let keeps_logs = |node: Node| {
        let plan = node.plan();
        let container = plan.actions.iter().find(|action| action.target.kind() == Kind::Container).unwrap();
        matches!(container.target, Target::RemoveContainer { keeps_logs: true, .. })
    };
    assert!(!keeps_logs(gone()));
    assert!(keeps_logs(gone().set(keep_for(minutes(61)))));
    assert!(!keeps_logs(gone().set(keep_for(minutes(60)))));
    let notes = gone().set(keep_for(minutes(61))).plan().rules;
    assert_eq!((notes[0].objects, notes[0].errors), (1, 0), "each directory once");
}

/// The pod is deleted when its logs are decided.
#[test]
fn a_rule_for_logs_sees_a_pod_as_a_pass_last_saw_it() {
    let keep = |policy: &mut Policy| {
        let when = "'team' in pod.labels && pod.labels['team'] == 'shop' && pod.phase == 'failed'";
        policy.rules = [rule(RuleSubject::Log, Then::Keep, when)].into_iter().collect();
    };
    let labels = Some([("team".to_owned(), "shop".to_owned())].into());
    let details = Some(Box::new(crate::model::PodDetails { labels, ..Default::default() }));
    let exists = node().pod_in(Phase::Failed, "web").dir("default_web_web").set(keep).but(|snapshot| {
        let Seen::Seen(list) = &mut snapshot.pods else { unreachable!() };
        list.pods[0].details = details.clone();
    });
    let (snapshot, mut policy) = (exists.clone().snapshot(), Policy::default());
    keep(&mut policy);
    let seen = crate::plan::update_memory(&snapshot, &policy).log_pods;
    let gone = |name: &str| {
        let seen = seen.clone();
        node()
            .deleted(name)
            .dir(&format!("default_{name}_{name}"))
            .set(keep)
            .but(move |snapshot| snapshot.memory.log_pods = seen)
    };
    hold(
        &[Kind::LogDir],
        [
            ("seen before", gone("web"), "default_web_web: rule", "") as Row,
            // Without the facts, what `keep` might keep is kept too, and the plan says so.
            ("not seen", gone("db"), "default_db_db: rule", ""),
        ],
    );
    let errors = |name| gone(name).plan().rules[0].errors;
    assert_eq!((errors("web"), errors("db")), (0, 1));
    let without_rule = crate::plan::update_memory(&snapshot, &Policy::default()).log_pods;
    assert!(without_rule.is_empty(), "no rule asks");
    let after = crate::plan::update_memory(&gone("web").snapshot(), &policy).log_pods;
    assert_eq!(after, seen, "while it has logs");
    let without_logs = gone("web").but(|snapshot| snapshot.log_dirs = Seen::Seen(Vec::new())).snapshot();
    assert!(crate::plan::update_memory(&without_logs, &policy).log_pods.is_empty(), "its logs are gone");
    let without_details = |name: &str| {
        let again = exists.clone().but(|snapshot| {
            snapshot.memory.log_pods = seen.clone();
            let Seen::Seen(list) = &mut snapshot.pods else { unreachable!() };
            (list.pods[0].name, list.pods[0].details) = (name.to_owned(), None);
        });
        crate::plan::update_memory(&again.snapshot(), &policy).log_pods[0].details.clone()
    };
    assert_eq!(
        (without_details("web"), without_details("other")),
        (details, None),
        "another pod of that uid has its own"
    );
}

#[test]
fn the_plan_says_what_each_rule_does() {
    let expired = |policy: &mut Policy| {
        let text = |name: &str, when: &str, until| RuleText {
            name: name.to_owned(),
            subject: RuleSubject::Image,
            resource: String::new(),
            when: when.to_owned(),
            then: Then::Keep,
            until,
            note: String::new(),
        };
        let today = ago(0).to_zoned(jiff::tz::TimeZone::UTC).date();
        policy.rules = [
            text("over", "true", Some(today)),
            text("errs", "image.last_used < timestamp('2020-01-01T00:00:00Z')", Some(today.tomorrow().unwrap())),
            text("rest", "image.id == 'old'", None),
        ]
        .map(|text| Rule::compile(text).unwrap())
        .into_iter()
        .collect();
    };
    let notes = three(100).set(expired).plan().rules;
    let shown: Vec<_> =
        notes.iter().map(|note| (note.rule.as_str(), note.expired, note.objects, note.errors)).collect();
    assert_eq!(shown, [("over", true, 0, 0), ("errs", false, 1, 1), ("rest", false, 1, 0)]);
    assert_eq!(notes[1].error.as_deref(), Some("never: No such key: last_used"));
    assert!(three(100).plan().rules.is_empty());
}

#[test]
fn images_are_removed_in_the_order_of_their_score() {
    let order = |expression: &str| {
        let score = Score::compile(expression).unwrap();
        move |policy: &mut Policy| policy.images.order = ImageOrder::Score(score.clone())
    };
    let most = |policy: &mut Policy| policy.images.low_threshold_percent = 85;
    let size = |bytes| move |image: &mut crate::model::Image| image.size_bytes = bytes;
    let sized = || node().image("a", 300).used(200).which(size(10)).image("b", 300).used(100).which(size(90)).disk(100);
    let rows = [
        ("least recently used first", sized().set(most), "", "a b: space") as Row,
        ("the largest first", sized().set(most).set(order("image.size_bytes")), "a: target_reached", "b: space"),
        ("a negative number goes later", sized().set(most).set(order("-image.size_bytes")), "", "a b: space"),
        (
            "without a score last",
            three(140).set(order("(now - image.last_used).getMinutes()")),
            "never: target_reached",
            "old new: space",
        ),
        ("equal scores: least recently used first", sized().set(order("1.5")), "", "a b: space"),
    ];
    hold(&[Kind::Image], rows);
    let images = three(140).set(order("(now - image.last_used).getMinutes()")).plan().images;
    let scores: Vec<_> = images.scores.iter().map(|(id, score)| (id.as_str(), *score)).collect();
    assert_eq!((scores, images.unscored), (vec![("new", 100.0), ("old", 200.0)], 1));
    let unscored = |node: Node| node.set(order("(now - image.last_used).getMinutes()")).plan().images.unscored;
    assert_eq!(unscored(three(140).image("never2", 300).image("never3", 300)), 3);
}
