//! How rules are read and printed, and which faults are named.

use std::time::Duration;

use crate::config::tests::{messages, of_toml};
use crate::config::{Environment, Typed, load};
use crate::plan::ImageOrder;
use crate::rules::{ImageTotal, Limits, Score};

const RULE: &str = "[[rule]]\nname = 'base'\nfor = 'image'\nwhen = 'image.pinned'\nthen = 'keep'\n";

#[test]
fn rules_are_read_and_printed() {
    let text = format!("{RULE}until = 2027-06-30\nnote = 'ask'\n{}", RULE.replace("base", "other"));
    let loaded = of_toml(&text).unwrap();
    let rules = &loaded.settings.policy.rules;
    let shown: Vec<_> =
        rules.iter().map(|rule| (rule.text().name.as_str(), rule.text().until, &*rule.text().note)).collect();
    assert_eq!(shown, [("base", Some(jiff::civil::date(2027, 6, 30)), "ask"), ("other", None, "")]);
    assert_eq!(of_toml(&loaded.to_toml()).unwrap().settings.policy.rules, *rules);
    let limits = "[[rule]]\nname = 'ci'\nfor = 'container'\nwhen = 'true'\nthen = { max_per_pod_container = 0, min_age = '10m' }\n\
        [[rule]]\nname = 'old'\nfor = 'image'\nwhen = 'true'\nthen = { max_age = '72h', min_age = 0, total = '20GiB..15GiB' }\n\
        [[rule]]\nname = 'logs'\nfor = 'log'\nwhen = 'true'\nthen = { keep_for = '24h', budget = '1GiB' }\n";
    let of_objects =
        "[[rule]]\nname = 'jobs'\nfor = 'object'\nresource = 'jobs.batch'\nwhen = 'true'\nthen = 'delete'\n";
    let of_objects =
        of_toml(&format!("{of_objects}\n[controller]\njanitor_annotations = ['pods', 'jobs.batch']")).unwrap();
    assert_eq!(of_toml(&of_objects.to_toml()).unwrap().settings, of_objects.settings);
    let rules_of = of_objects.settings.owners_of_cluster().rules;
    assert_eq!(rules_of.rules.iter().next().unwrap().text().resource, "jobs.batch");
    assert_eq!(rules_of.annotated.iter().map(ToString::to_string).collect::<Vec<_>>(), ["pods", "batch/jobs"]);
    let with_limits = of_toml(limits).unwrap();
    let read: Vec<_> = with_limits.settings.policy.rules.iter().map(|rule| rule.limits().cloned().unwrap()).collect();
    let hours = |hours: u64| Some(Duration::from_secs(3600 * hours));
    let total = Some(ImageTotal { above_bytes: 20 << 30, until_bytes: 15 << 30 });
    let wanted = [
        Limits { min_age: Some(Duration::from_mins(10)), max_per_pod_container: Some(0), ..Limits::default() },
        Limits { max_age: hours(72), min_age: hours(0), total, ..Limits::default() },
        Limits { keep_for: hours(24), budget: Some(1 << 30), ..Limits::default() },
    ];
    assert_eq!(read, wanted);
    assert_eq!(of_toml(&with_limits.to_toml()).unwrap().settings.policy.rules, with_limits.settings.policy.rules);
    let first = rules.iter().next().unwrap();
    let days = [jiff::civil::date(2027, 6, 29), jiff::civil::date(2027, 6, 30)];
    assert_eq!(days.map(|day| first.applies_on(day)), [true, false]);
}

#[test]
fn all_faults_of_all_rules_are_named_at_once() {
    for (from, to, fault) in [
        ("image.pinned", "image.colour == 1", "rule \"base\": when: unknown fact image.colour"),
        (
            "'keep'",
            "'delete'",
            "rule \"base\": then: expected \"keep\", \"remove\" or a table with min_age, max_age, total for image",
        ),
        (
            "'keep'",
            "{ keep_for = '1h' }",
            "rule \"base\": then.keep_for: no such limit; expected \"keep\", \"remove\" or a table",
        ),
        (
            "'keep'",
            "{ total = '15GiB..20GiB' }",
            "rule \"base\": then.total: expected two sizes such as \"20GiB..15GiB\": where removal begins, and where it ends",
        ),
        ("'keep'", "{ min_age = 10 }", "rule \"base\": then.min_age: expected a duration such as \"10m\""),
        ("'keep'", "{}", "rule \"base\": then: expected \"keep\", \"remove\" or a table"),
        (
            "'image'\nwhen = 'image.pinned'\nthen = 'keep'",
            "'sandbox'\nwhen = 'true'\nthen = 'remove'",
            "rule \"base\": then: expected \"keep\" for sandbox",
        ),
        (
            "'image'\nwhen = 'image.pinned'\nthen = 'keep'",
            "'container'\nwhen = 'true'\nthen = { max_per_pod_container = -1 }",
            "rule \"base\": then.max_per_pod_container: expected a number from 0 on",
        ),
        ("'image'", "'pod'", "rule \"base\": for: expected \"image\" or \"container\" or \"sandbox\" or \"log\""),
        ("then", "than", "rule \"base\": than: no such key; a rule has name, for, resource, when, then, until, note"),
        ("name = 'base'", "name = ''", "rule \"\": name: expected a text"),
        ("name = 'base'\n", "", "rule 1: name: expected a text"),
        (
            "then = 'keep'",
            "then = 'keep'\nuntil = 'tomorrow'",
            "rule \"base\": until: expected a day such as 2027-06-30",
        ),
        ("then = 'keep'", "then = 'keep'\nnote = 5", "rule \"base\": note: expected a text"),
        ("'image'\n", "'image'\nresource = 'jobs.batch'\n", "rule \"base\": resource: only a rule for object has it"),
        (
            "'image'\nwhen = 'image.pinned'",
            "'object'\nwhen = 'true'",
            "rule \"base\": resource: expected a resource such as \"jobs.batch\"",
        ),
        (
            "'image'\nwhen = 'image.pinned'\nthen = 'keep'",
            "'object'\nresource = 'jobs batch'\nwhen = 'disk.used_percent > 1'\nthen = 'remove'",
            "rule \"base\": resource: expected a resource such as \"jobs.batch\"",
        ),
        (
            "'image'\nwhen = 'image.pinned'\nthen = 'keep'",
            "'object'\nresource = 'jobs.batch'\nwhen = 'disk.used_percent > 1'\nthen = 'remove'",
            "rule \"base\": then: expected \"keep\", \"delete\" for object",
        ),
        (
            "'image'\nwhen = 'image.pinned'\nthen = 'keep'",
            "'object'\nresource = 'jobs.batch'\nwhen = 'disk.used_percent > 1'\nthen = 'delete'",
            "rule \"base\": when: unknown name \"disk\"; known are object, now",
        ),
    ] {
        let other = "[[rule]]\nname = 'b'\nfor = 'image'\nwhen = 'a ='\nthen = 'keep'\n";
        let messages = messages(&format!("{}{other}", RULE.replace(from, to)));
        let all = messages.join("\n");
        assert!(all.contains(fault) && all.contains("rule \"b\": when: Syntax error"), "{fault}: {all}");
    }
    // Those of one rule too.
    let of_one = messages(&RULE.replace("'keep'", "'delete'").replace("image.pinned", "image.colour == 1")).join("\n");
    assert!(of_one.contains("then: expected") && of_one.contains("when: unknown fact image.colour"), "{of_one}");
    assert!(messages(&format!("{RULE}{RULE}"))[0].contains("rule \"base\": name: two rules have this name"));
    assert!(messages("rule = 'x'")[0].contains("expected tables [[rule]]"));
    let many: String = (0..65).map(|number| RULE.replace("base", &format!("r{number}"))).collect();
    assert!(messages(&many)[0].contains("65 rules, and at most 64 are allowed"));
}

/// The place is that of the character in the file, not in the condition.
#[test]
fn a_fault_or_a_doubt_of_a_rule_names_its_place_in_the_file() {
    let faults = |text: &str| of_toml(text).unwrap_err().faults.iter().map(ToString::to_string).collect::<Vec<_>>();
    let long = RULE.replace("'image.pinned'", "\"\"\"\nimage.pinned &&\n  image.colour == 1\"\"\"");
    let text = format!("# A comment.\n{RULE}{}", long.replace("base", "long").replace("'keep'", "{ max_age = 1 }"));
    let all = faults(&text);
    assert!(all[0].starts_with("f:13:20: rule \"long\": then.max_age: expected a duration"), "{all:?}");
    assert!(all[1].starts_with("f:12:8: rule \"long\": when: unknown fact image.colour"), "{all:?}");
    let twice = faults(&format!("{RULE}{RULE}"));
    assert_eq!(twice, ["f:7:8: rule \"base\": name: two rules have this name"]);
    let order = faults("[images]\norder = 'image.size_bytes *'");
    assert!(order[0].starts_with("f:2:28: images.order = \"image.size_bytes *\": expected"), "{order:?}");
    let doubtful = of_toml(&RULE.replace("image.pinned", "image.labels.keep == \"true\"")).unwrap().warnings();
    assert!(doubtful[0].starts_with("f:4:21: rule \"base\": when: without 'keep' in image.labels"), "{doubtful:?}");
}

/// Without a file, the place in the condition remains.
#[test]
fn a_rule_of_the_command_line_names_the_place_in_its_condition() {
    let set = "rule=[{ name = 'a', for = 'image', when = 'image.colour', then = 'keep' }]".to_owned();
    let typed = Typed { set: vec![set], ..Typed::default() };
    let faults = load(&typed, &Environment::default()).unwrap_err().to_string();
    assert!(faults.contains("--set: rule \"a\": when: 1:6: unknown fact image.colour"), "{faults}");
}

#[test]
fn the_order_of_images_is_a_word_or_a_number() {
    let order = |text: &str| of_toml(&format!("images.order = {text:?}")).unwrap().settings.policy.images.order;
    assert_eq!(order("least-recently-used"), ImageOrder::LeastRecentlyUsed);
    let size = "double(image.size_bytes) * 0.5";
    assert_eq!(order(size), ImageOrder::Score(Score::compile(size).unwrap()));
    for (text, fault) in [
        ("largest", "number: unknown name \"largest\""),
        ("image.size_bytes *", "number: Syntax error"),
        ("image.pinned", "is of type bool, expected a number"),
        ("double(image.size_bytes) * image.unused.getHours()", "Unsupported binary operator"),
    ] {
        let found = messages(&format!("images.order = {text:?}"));
        assert!(found[0].contains(fault) && found[0].contains("least-recently-used"), "{text}: {found:?}");
    }
}
