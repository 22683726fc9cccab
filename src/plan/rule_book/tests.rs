//! What rules do with images and containers.

use crate::plan::tests::node::{Node, Row, ago, hold, node};
use crate::plan::{Kind, Policy};
use crate::rules::{Rule, RuleFor, RuleText, Then};

fn rule(of: RuleFor, then: Then, when: &str) -> Rule {
    let (name, note) = (format!("{when:.20}"), String::new());
    Rule::compile(RuleText { name, of, when: when.to_owned(), then, until: None, note }).unwrap()
}

fn rules(rules: &[(Then, &str)]) -> impl Fn(&mut Policy) {
    let rules: Vec<_> = rules.iter().map(|(then, when)| rule(RuleFor::Image, *then, when)).collect();
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

#[test]
#[rustfmt::skip]
fn the_first_rule_that_matches_an_image_decides() {
    use Then::{Keep, Remove};
    let base = "image.repository.startsWith('r.example/base/')";
    let unused = "image.unused > duration('150m')";
    let off = |policy: &mut Policy| policy.images.high_threshold_percent = 100;
    let young = |policy: &mut Policy| policy.images.min_age = std::time::Duration::from_mins(301);
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

#[test]
fn a_rule_keeps_containers() {
    let keeps = |when: &str| {
        let rule = rule(RuleFor::Container, Then::Keep, when);
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

#[test]
fn the_plan_says_what_each_rule_does() {
    let expired = |policy: &mut Policy| {
        let text = |name: &str, when: &str, until| RuleText {
            name: name.to_owned(),
            of: RuleFor::Image,
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
