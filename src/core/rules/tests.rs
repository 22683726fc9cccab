//! What is a fault of a condition, and what a condition can say.

use super::fact_table::FactRow;
use super::facts::texts as texts_of;
use super::*;

fn rule(of: RuleSubject, when: &str) -> Result<Rule, Vec<Fault>> {
    let (name, note, when) = ("r".to_owned(), String::new(), when.to_owned());
    Rule::compile(RuleText { name, subject: of, when, then: Then::Keep, until: None, resource: String::new(), note })
}

fn faults(when: &str) -> Vec<String> {
    texts(&rule(RuleSubject::Image, when).unwrap_err())
}

fn texts(faults: &[Fault]) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

/// Evaluates a condition for the example of an image.
fn holds(when: &str) -> Verdict {
    PassFacts::example()
        .with(Values::new())
        .evaluate(&rule(RuleSubject::Image, when).unwrap_or_else(|error| panic!("{error:?}")).condition)
}

#[test]
fn conditions_hold_for_the_facts_of_an_object() {
    for when in [
        "image.repository == 'registry.example.com/team/app'",
        "image.tags.exists(tag, tag.endsWith(':1.2'))",
        "image.unused > duration('48h') && image.unused <= duration('72h')",
        "image.unused.getHours() == 72",
        "image.size_bytes > 100 * 1024 * 1024",
        "now - image.last_used > duration('24h')",
        "image.first_seen < timestamp('2026-11-02T00:00:00Z')",
        "image.id.matches('^sha256:[0-9a-f]+$')",
        r"!image.repository.matches(r'^registry[.]example[.]com/\w{1,63}-tmp$')",
        "has(image.last_used) && !image.pinned",
        "disk.used_percent >= 90 && node.name in ['node-1', 'node-2']",
        "image.tags.map(tag, size(tag)).all(length, length < 100)",
        "type(image.size_bytes) == int",
        "image.unused == duration('3d') && image.unused < duration('1w')",
        "image.size_bytes > 1.5 && image.last_used != null",
        "[{'id': 'x'}].all(image, image.id == 'x') && ['pod'].exists(pod, pod + image.registry != 'pod')",
        "has(image.labels.maintainer) && !has(image.labels.other) && 'tags' in image",
        "[1].exists(a, a == 1) && [2].exists(b, b == 2) && [3].exists(c, c == 3)",
    ] {
        assert_eq!(holds(when), Verdict::Holds(true), "{when}");
        assert_eq!(holds(&format!("!({when})")), Verdict::Holds(false), "{when}");
    }
}

/// What is wrong is found at the start, with its line and column.
#[test]
fn faults_have_a_line_and_a_column() {
    for (when, fault) in [
        ("image.size_bytes >", "1:19: Syntax error"),
        ("image.pinned &&\n  image.colour == 'red'", "2:8: unknown fact image.colour; known are id, tags"),
        ("pod.namespace == 'ci'", "1:1: unknown name \"pod\"; known are image, node, disk, now"),
        ("image.tags.exists(tag, other == tag)", "1:24: unknown name \"other\""),
        ("lower(image.id) == 'x'", "unknown function \"lower\""),
        ("image.tags.exists(a, [1].exists(b, [2].exists(c, c == b)))", "has more than 2 loops"),
        ("image.size_bytes > 'large'", "found no matching overload for '_>_'"),
        ("image.size_bytes", "is of type int, expected a bool"),
        ("image.unused > 72", "found no matching overload"),
        ("image.id.matches('(')", "matches"),
        ("image.id.matches(image.registry)", "1:23: the pattern of matches must be a text"),
        ("google.protobuf.Empty{} == null", "message types are not supported"),
        // What the example never comes to is checked too.
        ("image.pinned && image.unused > 72", "1:30: found no matching overload"),
        ("!image.pinned || image.size_bytes > '1'", "found no matching overload for '_>_' applied to '(int, string)'"),
        ("image.pinned && image.size_bytes", "is of type int, expected a bool"),
        (
            "image.pinned ? image.size_bytes > 1 : image.id > 1",
            "found no matching overload for '_>_' applied to '(string, int)'",
        ),
        ("image.pinned ? true : 1", "is of type int, expected a bool"),
        ("image.pinned && image.unused > duration('1 parsec')", "duration"),
        ("image.pinned && image.tags.exists(tag, tag > 1)", "found no matching overload"),
        ("image.size_bytes == '5'", "compares int with string, which are never equal"),
        ("image.id.matches('(a{1000}){1000}')", "matches: Compiled regex exceeds size limit"),
    ] {
        let found = faults(when);
        assert!(found.iter().any(|found| found.contains(fault)), "{when}: {found:?}");
    }
}

/// A label that is not there is an error of the evaluation. The last of each pair asks first.
#[test]
fn a_label_that_is_not_asked_for_is_a_doubt() {
    for (doubtful, asked) in [
        ("image.labels['keep'] == 'true'", "'keep' in image.labels && image.labels['keep'] == 'true'"),
        ("image.pinned ||\nimage.labels.keep == 'true'", "has(image.labels.keep) && image.labels.keep == 'true'"),
    ] {
        let doubts = |when| texts(rule(RuleSubject::Image, when).unwrap().doubts());
        let line = 1 + doubtful.matches('\n').count();
        let expected = format!("{line}:13: without 'keep' in image.labels the condition cannot be evaluated");
        assert!(doubts(doubtful)[0].starts_with(&expected), "{:?}", doubts(doubtful));
        assert_eq!(doubts(asked), Vec::<String>::new());
    }
}

#[test]
fn a_rule_for_logs_may_not_know_the_pod() {
    let doubts = |when| texts(rule(RuleSubject::Log, when).unwrap().doubts());
    let expected =
        "1:4: pod.phase is known only of a pod that a pass saw before it was deleted; `keep` keeps other logs";
    assert_eq!(doubts("pod.phase == 'failed'"), [expected]);
    assert_eq!(doubts("has(pod.phase) && pod.phase == 'failed' && pod.namespace == 'ci'"), [""; 0]);
    let of_container = rule(RuleSubject::Container, "pod.phase == 'failed'").unwrap();
    assert_eq!(of_container.doubts(), []);
}

/// Returns the facts of an image with so many names.
fn named(pass: &PassFacts, names: usize) -> Facts<'_> {
    let tags: Vec<_> = (0..names).map(|name| format!("registry.example.com/team/app:{name}")).collect();
    let facts = [(Fact::ImageTags, texts_of(&tags)), (Fact::ImagePinned, Some(false.into()))];
    pass.with(facts.into_iter().filter_map(|(fact, value)| Some((fact, value?))).collect())
}

#[test]
fn beyond_its_share_no_condition_of_an_object_is_evaluated() {
    let pass = PassFacts::example();
    let pairs = rule(RuleSubject::Image, "image.tags.all(a, image.tags.all(b, a != b || a == b))").unwrap();
    let simple = rule(RuleSubject::Image, "!image.pinned").unwrap();
    let error = Verdict::Error("not evaluated: the conditions for it take more than 10000 steps".to_owned());
    let both = |names| {
        let (object, facts) = (Budget::default(), named(&pass, names));
        [&pairs, &simple].map(|rule| object.evaluate(rule, &facts))
    };
    assert_eq!(both(10), [Verdict::Holds(true), Verdict::Holds(true)]);
    assert_eq!(both(256), [error, Verdict::Holds(true)], "who adds names evades no other rule");
    assert_eq!(both(1), [Verdict::Holds(true), Verdict::Holds(true)], "others have theirs");
}

#[test]
fn a_loop_takes_steps_for_each_element_and_one_in_it_for_each_pair() {
    let pass = PassFacts::example();
    let steps = |when: &str, names: [usize; 3]| {
        let rule = rule(RuleSubject::Image, when).unwrap();
        names.map(|names| named(&pass, names).steps(&rule))
    };
    let long = "x".repeat(1 << 20);
    let labelled = pass.with([(Fact::ImageLabels, long.as_str().into())].into());
    assert_eq!(labelled.steps(&rule(RuleSubject::Image, "image.size_bytes > 5").unwrap()), 4, "it does not read them");
    assert_eq!(steps("image.pinned", [0, 10, 100]), [2, 2, 2]);
    assert_eq!(steps("image.size_bytes > 5", [0, 10, 100]), [4, 4, 4]);
    let grows = |when: &str| {
        let [one, more, many] = steps(when, [1, 11, 101]);
        (many - one) / (more - one)
    };
    assert_eq!(grows("'app' in image.tags"), 10);
    assert_eq!(grows("image.tags.exists(tag, tag.endsWith('1'))"), 10);
    assert!(grows("image.tags.exists(a, image.tags.exists(b, a == b))") > 50);
    let [joined, alone] = ["(image.tags + image.tags).all(a, true)", "image.tags.all(a, true)"]
        .map(|when| steps(when, [1, 1, 101]))
        .map(|[one, _, many]| many - one);
    assert!(joined >= 2 * alone, "{joined} {alone}");
    assert_eq!(grows("image.tags.all(a, [a].all(b, b == 'x'))"), 10, "a text has no elements");
    assert!(grows("[image.tags].all(list, list.all(a, true))") > 50, "the elements of a list may be lists");
}

#[test]
fn a_condition_that_reads_a_long_text_takes_more_steps() {
    let (pass, is_it) = (PassFacts::example(), rule(RuleSubject::Image, "image.id == 'x'").unwrap());
    let steps = |bytes: usize| pass.with([(Fact::ImageId, "x".repeat(bytes).into())].into()).steps(&is_it);
    assert_eq!([steps(255), steps(256), steps(2560)], [4, 8, 44]);
}

#[test]
fn what_is_written_alike_is_the_same() {
    let rule = |when| rule(RuleSubject::Image, when).unwrap();
    assert!(rule("image.pinned") == rule("image.pinned") && rule("image.pinned") != rule("!image.pinned"));
    let score = |text| Score::compile(text).unwrap();
    assert!(score("1 + 1") == score(" 1 + 1 ") && score("1 + 1") != score("2"));
    assert_eq!(score(" 1 + 1 ").text(), "1 + 1");
    assert_eq!(
        [0, 1].map(|count| (0..count).map(|_| rule("image.pinned")).collect::<Rules>().is_empty()),
        [true, false]
    );
}

/// 10,000 objects with 64 conditions each: a third compare, a third match, a third look at each of ten names.
#[test]
fn ordinary_conditions_of_a_large_node_fit() {
    let (pass, budget) = (PassFacts::new(Values::new()), Budget::default());
    let facts = named(&pass, 10);
    let conditions = [
        "has(image.unused) && image.unused > duration('72h') && !image.pinned",
        "has(image.repository) && image.repository.matches('^registry[.]example[.]com/') && !image.pinned",
        "image.tags.exists(tag, tag.endsWith('-keep'))",
    ];
    for when in conditions.into_iter().cycle().take(64) {
        assert_eq!(budget.evaluate(&rule(RuleSubject::Image, when).unwrap(), &facts), Verdict::Holds(false), "{when}");
    }
}

#[test]
fn all_faults_are_named_at_once() {
    assert_eq!(faults("image.a == image.b || lower(image.id) == image.c").len(), 4);
}

/// Whatever the text, the process goes on. Each of these overflows the stack of a thread if nothing bounds it.
#[test]
fn long_and_deep_conditions_are_faults() {
    for (begin, part, end) in [
        ("", "(", ""),
        ("true", "+1", ""),
        ("true", ".size()", ""),
        ("[1]", "[0]", ""),
        ("", "[", ""),
        ("", "!(", ""),
        ("true", " ? true : false", ""),
        ("image", ".tags", ""),
        ("'", "\u{1f600}", "'"),
        ("", "\u{0}`\\", ""),
    ] {
        for count in [40, MAX_LENGTH / part.len() - 16, MAX_LENGTH] {
            let when = format!("{begin}{}{end}", part.repeat(count));
            assert!(rule(RuleSubject::Image, &when).is_err(), "{count} times {part:?}");
        }
    }
    assert!(faults(&"x".repeat(MAX_LENGTH + 1))[0].contains("has 1025 bytes, and at most 1024"));
}

/// As deep as is allowed, on a stack as small as that of any thread here.
#[test]
fn the_deepest_condition_is_evaluated_on_a_small_stack() {
    let deep = |count: usize| format!("1{} > 0", "+1".repeat(count));
    assert!(rule(RuleSubject::Image, &deep(60)).is_err());
    assert!(texts(&rule(RuleSubject::Image, &deep(16)).unwrap_err())[0].contains("is deeper than 16 levels"));
    let deepest = rule(RuleSubject::Image, &deep(15)).unwrap();
    let evaluated = std::thread::Builder::new()
        .stack_size(1 << 20)
        .spawn(move || PassFacts::example().with(Values::new()).evaluate(&deepest.condition));
    assert_eq!(evaluated.unwrap().join().unwrap(), Verdict::Holds(true));
}

#[test]
fn what_is_not_there_is_an_error_and_not_a_guess() {
    let pass_facts = PassFacts::new([(Fact::Now, time(jiff::Timestamp::UNIX_EPOCH))].into());
    let facts = pass_facts.with(Values::new());
    let verdict = |when| facts.evaluate(&rule(RuleSubject::Image, when).unwrap().condition);
    assert_eq!(verdict("image.last_used < now"), Verdict::Error("No such key: last_used".to_owned()));
    assert_eq!(verdict("disk.used_percent > 1"), Verdict::Error("No such key: used_percent".to_owned()));
    assert_eq!(verdict("image.labels.keep == 'true'"), Verdict::Error("No such key: labels".to_owned()));
    assert_eq!(verdict("has(image.last_used)"), Verdict::Holds(false));
    assert_eq!(verdict("[1].all(image, image == 1) && image.pinned"), Verdict::Error("No such key: pinned".to_owned()));
    assert_eq!(verdict("image.pinned || true"), Verdict::Holds(true), "the rest of the condition decides");
}

/// The example of each fact has the type of the fact.
#[test]
fn each_fact_has_an_example() {
    for FactRow { name, kind, example, meaning, .. } in Fact::ALL.iter().map(|fact| fact.row()) {
        let object = name.split('.').next().unwrap().parse().unwrap_or(RuleSubject::Container);
        let same = rule(object, &format!("type({name}) == type({example}) && {name} == {example}")).unwrap();
        assert_eq!(PassFacts::example().with(Values::new()).evaluate(&same.condition), Verdict::Holds(true), "{name}");
        let value = cel::Program::compile(example).unwrap().execute(&cel::Context::default()).unwrap();
        let word = kind.split([',', ' ']).next().unwrap();
        assert_eq!(value.type_of().to_string(), word, "{name}");
        assert!(meaning.ends_with('.'), "{name}");
    }
}

/// The page has the table of facts; `scripts/generate.sh` writes it.
#[test]
#[expect(clippy::disallowed_methods, reason = "scripts/generate.sh sets a variable for the test")]
fn the_page_has_every_fact() {
    let rows = Fact::ALL
        .iter()
        .map(|fact| fact.row())
        .map(|fact| format!("| `{}` | {} | {} | `{}` |\n", fact.name, fact.kind, fact.meaning, fact.example));
    let table = format!("| fact | type | meaning | example |\n|---|---|---|---|\n{}", rows.collect::<String>());
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rules.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (begin, rest) = page.split_once("<!-- facts -->\n").unwrap();
    let (written, end) = rest.split_once("<!-- end of facts -->").unwrap();
    if std::env::var_os("KUBEGC_GENERATE").is_some() {
        std::fs::write(&path, format!("{begin}<!-- facts -->\n{table}<!-- end of facts -->{end}")).unwrap();
    } else {
        assert!(written == table, "docs/rules.md is not current: run scripts/generate.sh");
    }
}

/// Generates text that looks like a condition: pieces of the language and of what a file may contain by mistake.
fn a_condition() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    const PIECES: [&str; 44] = [
        "image",
        ".tags",
        ".unused",
        ".size_bytes",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        "'a'",
        "\"",
        "'",
        "1",
        "-1",
        "1u",
        "1.5e300",
        "+",
        "*",
        "/ 0",
        "%",
        "-",
        "!",
        "&&",
        "||",
        "?",
        ":",
        ", ",
        " in ",
        "==",
        ">",
        ".exists(x, ",
        ".all(x, ",
        ".map(x, ",
        "x",
        "has(",
        ".matches('(a|b)*')",
        "duration('1h')",
        "timestamp('x')",
        "size(",
        "true",
        "null",
        "\n",
        "\u{1f600}",
    ];
    let piece = prop_oneof![9 => proptest::sample::select(&PIECES[..]).prop_map(str::to_owned), 1 => any::<char>().prop_map(String::from)];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..proptest::test_runner::Config::default() })]

    /// `PROPTEST_CASES=1000000` tries more of them.
    #[test]
    fn no_text_breaks_the_process(when in a_condition()) {
        if let Ok(rule) = rule(RuleSubject::Image, &when) {
            let on_small_stack = std::thread::Builder::new().stack_size(1 << 20);
            let evaluated = on_small_stack.spawn(move || PassFacts::example().with(Values::new()).evaluate(&rule.condition));
            evaluated.unwrap().join().unwrap();
        }
    }
}
