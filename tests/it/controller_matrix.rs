//! Odd answers of an API server, over the wire, against each command of the controller.
//!
//! Nothing that a living owner needs is deleted. An object counts as deleted only if it does not exist any more. A command
//! ends with the work done, or names what is left. The fake server (`fake_api.py`) ends by itself if a command waits for ever.

mod odd_lists;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cases::fake_api::Fake;

/// A command of `kubegc controller`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Command {
    Plan,
    Collect,
    Run,
}

/// What is odd about a server.
#[derive(Clone)]
struct Row {
    name: String,
    rules: Vec<Value>,
    /// The kind of the garbage. The API server of a Widget is not known to check conditions, so it is read before and after
    /// its deletion.
    garbage: &'static str,
    /// Objects besides those of every row.
    objects: Vec<Value>,
    /// They must stay too.
    kept: Vec<&'static str>,
    /// The garbage may be left. Then a command names the object with this text.
    left: Option<&'static str>,
    /// No read shows that the garbage does not exist any more.
    is_unproven: bool,
    /// `run` is another case.
    no_run: bool,
}

/// `kept` and `kept-by-hidden` have owners that live. No list shows the owner `hidden`.
const KEPT: [&str; 4] = ["ConfigMap/keeper", "ConfigMap/kept", "ConfigMap/hidden", "ConfigMap/kept-by-hidden"];
/// The wait that a server asks for.
const WAIT: Duration = Duration::from_secs(1);
/// Longer than every command needs.
const SERVER_SECONDS: u32 = 50;

fn object(kind: &str, name: &str, uid: &str, owners: &[&str]) -> Value {
    let owner =
        |name: &&str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": format!("{name}-uid")});
    let owners: Vec<_> = owners.iter().map(owner).collect();
    let version = if kind == "Widget" { "tenant.example.com/v1" } else { "v1" };
    let metadata = json!({"name": name, "namespace": "shop", "uid": uid, "ownerReferences": owners});
    json!({"apiVersion": version, "kind": kind, "metadata": metadata})
}

fn config_map(name: &str, owners: &[&str]) -> Value {
    object("ConfigMap", name, &format!("{name}-uid"), owners)
}

fn served(version: &str, kind: &str, resource: &str, namespaced: bool) -> Value {
    json!({"apiVersion": version, "kind": kind, "resource": resource, "namespaced": namespaced})
}

fn status(state: &str, reason: &str, code: u16, details: &Value) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": state, "reason": reason, "code": code,
        "message": reason, "details": details})
}

/// The rows of a server that wants a wait before it answers a request, in each form.
fn waits(verb: &str, path: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for (code, reason) in [(429, "TooManyRequests"), (503, "ServiceUnavailable")] {
        for in_header in [true, false] {
            let details = if in_header { json!({}) } else { json!({"retryAfterSeconds": WAIT.as_secs()}) };
            let mut rule = json!({"verb": verb, "path": path, "first": 1, "code": code});
            rule["body"] = status("Failure", reason, code, &details);
            if in_header {
                rule["retry_after"] = json!(WAIT.as_secs());
            }
            rows.push(Row { rules: vec![rule], ..Row::of(format!("{code}, in the header: {in_header}")) });
        }
    }
    rows
}

/// The rows of a server that answers with this body instead of an object.
fn instead(body: &Value) -> Vec<Row> {
    let rule = |verb: &str, path: &str| json!({"verb": verb, "path": path, "code": 200, "body": body});
    let once = |verb: &str, path: &str| with(rule(verb, path), "first", &json!(1));
    let row = |name: &str, rule: Value| Row { rules: vec![rule], ..Row::of(name.to_owned()) };
    // A service does not repeat a deletion that the server has accepted by a Status: it waits for the event.
    let no_run = body["kind"] == "Status";
    vec![
        row("the first read of the garbage", once("GET", "/garbage")),
        row("each read of an owner that no list shows", rule("GET", "/hidden")),
        row("a deletion that is carried out", with(rule("DELETE", "/garbage"), "acts", &json!(true))),
        Row { no_run, ..row("a deletion that is not carried out", once("DELETE", "/garbage")) },
        Row { left: Some("garbage"), ..row("each read of the garbage", rule("GET", "/garbage")) },
        Row { left: Some("gone"), ..row("each read of its owner", rule("GET", "/gone")) },
        Row { left: Some("garbage"), ..row("each deletion", rule("DELETE", "/garbage")) },
    ]
}

fn with(mut rule: Value, field: &str, value: &Value) -> Value {
    rule[field] = value.clone();
    rule
}

/// Checks the rows, each in a thread, against each command.
fn check(rows: &[Row]) {
    std::thread::scope(|scope| {
        for row in rows {
            scope.spawn(|| {
                row.plans();
                row.collects();
                row.runs();
            });
        }
    });
}

// === impl Row ===

impl Row {
    fn of(name: String) -> Self {
        Self {
            name,
            rules: Vec::new(),
            garbage: "Widget",
            objects: Vec::new(),
            kept: Vec::new(),
            left: None,
            is_unproven: false,
            no_run: false,
        }
    }

    fn garbage(&self) -> String {
        format!("{}/garbage", self.garbage)
    }

    /// The same with garbage of another kind.
    fn of_kind(self, garbage: &'static str) -> Self {
        Self { name: format!("{} of a {garbage}", self.name), garbage, ..self }
    }

    fn start(&self) -> Fake {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "shop-uid"}});
        let mut objects = vec![namespace, config_map("keeper", &[]), config_map("kept", &["keeper"])];
        objects.extend([config_map("hidden", &[]), config_map("kept-by-hidden", &["hidden"])]);
        objects.push(object(self.garbage, "garbage", "garbage-uid", &["gone"]));
        objects.extend(self.objects.clone());
        let serve = [
            served("v1", "Namespace", "namespaces", false),
            served("v1", "ConfigMap", "configmaps", true),
            served("tenant.example.com/v1", "Widget", "widgets", true),
        ];
        Fake::play(&json!({"serve": serve, "objects": objects, "unlisted": ["hidden"], "rules": self.rules,
            "print_deletions": true, "end_after": SERVER_SECONDS}))
    }

    fn plans(&self) {
        let (fake, begun) = (self.start(), Instant::now());
        let text = fake.run(&["plan"]);
        let seen = self.ends(Command::Plan, fake, begun, &text);
        assert!(!seen.contains("'DELETE'") && !seen.contains("'PATCH'"), "{}: {seen}", self.name);
        let is_it = |line: &str| line.split_whitespace().take(4).eq(["delete", self.garbage, "shop", "garbage"]);
        let names_garbage = text.lines().any(is_it);
        let is_named = self.left.is_some_and(|left| text.contains(left));
        assert!(names_garbage || is_named, "{}: plan: {text}", self.name);
    }

    fn collects(&self) {
        let (fake, begun) = (self.start(), Instant::now());
        let text = fake.run(&["collect", "--timeout=40s"]);
        let seen = self.ends(Command::Collect, fake, begun, &text);
        assert!(self.rules.is_empty() || !seen.contains("rules used: 0"), "{}: {seen}", self.name);
        if has(&seen, &self.garbage()) {
            let left = self.left.unwrap_or_else(|| panic!("{}: the garbage is left: {text}\n{seen}", self.name));
            let is_named = text.lines().any(|line| line.starts_with("! error: ") && line.contains(left));
            assert!(text.starts_with("exit ") && is_named, "{}: {left} is not named: {text}", self.name);
            assert!(!text.contains("removed"), "{}: it is there still: {text}", self.name);
        } else {
            assert_eq!(self.left, None, "{}: it does not stay: {text}", self.name);
            assert!(!self.is_unproven || text.contains("accepted"), "{}: nothing proves its end: {text}", self.name);
        }
    }

    fn runs(&self) {
        if self.left.is_some() || self.no_run {
            return;
        }
        let (mut fake, begun) = (self.start(), Instant::now());
        let service = fake.begin(&["run", "--owners-only"]);
        fake.wait_for(&format!("gone: {}", self.garbage()));
        let text = service.stop();
        self.ends(Command::Run, fake, begun, &text);
    }

    /// Ends the server, and checks what every command must do.
    fn ends(&self, command: Command, fake: Fake, begun: Instant, text: &str) -> String {
        let (elapsed, seen) = (begun.elapsed(), fake.end());
        let name = format!("{}: {command:?}", self.name);
        for kept in KEPT.iter().chain(&self.kept) {
            assert!(has(&seen, kept), "{name}: {kept} is lost: {text}\n{seen}");
        }
        assert!(seen.contains("violations: 0"), "{name}: {seen}");
        let asks_for_wait = self.rules.iter().any(|rule| rule["code"] == 429 || rule["code"] == 503);
        assert!(!asks_for_wait || seen.contains("rules used: 0") || elapsed >= WAIT, "{name}: {elapsed:?}");
        seen
    }
}

/// Returns whether an object is left that is not being deleted.
fn has(seen: &str, object: &str) -> bool {
    seen.contains(&format!("'{object}'"))
}

#[test]
fn lists_that_are_to_be_repeated() {
    check(&waits("LIST", "/configmaps"));
}

#[test]
fn reads_that_are_to_be_repeated() {
    check(&["/gone", "/garbage"].map(|path| waits("GET", path)).concat());
}

#[test]
fn deletions_that_are_to_be_repeated() {
    for kind in ["Widget", "ConfigMap"] {
        check(&waits("DELETE", "/garbage").into_iter().map(|row| row.of_kind(kind)).collect::<Vec<_>>());
    }
}

#[test]
fn a_status_of_success_where_an_object_is_expected() {
    let body = status("Success", "", 200, &json!({}));
    check(&instead(&body));
    // Its API server checks conditions. So it is read only after a list has shown it again.
    let deletes = |row: &Row| row.rules.iter().any(|rule| rule["verb"] == "DELETE");
    let deletions = instead(&body).into_iter().filter(deletes);
    check(&deletions.map(|row| row.of_kind("ConfigMap")).collect::<Vec<_>>());
}

#[test]
fn a_status_of_failure_where_an_object_is_expected() {
    check(&instead(&status("Failure", "NotFound", 404, &json!({"kind": "configmaps", "name": "garbage"}))));
}

#[test]
fn an_empty_object_where_an_object_is_expected() {
    check(&instead(&json!({})));
}

#[test]
fn reads_that_fail_after_a_deletion() {
    let rule = json!({"verb": "GET", "path": "/garbage", "skip": 1, "code": 500, "body": {}});
    let row = Row::of("each read after the deletion".to_owned());
    check(&[Row { rules: vec![rule], is_unproven: true, ..row }]);
}

#[test]
fn two_objects_with_one_uid() {
    let row = |name: &str, twin: Value| Row { objects: vec![twin], garbage: "ConfigMap", ..Row::of(name.to_owned()) };
    let twin = |kind: &str, owner: &str| object(kind, "twin", "garbage-uid", &[owner]);
    let mirror = object("Widget", "keeper", "keeper-uid", &["gone"]);
    let named = Some("garbage");
    check(&[
        Row { kept: vec!["Widget/keeper"], ..row("an owner that lives, and garbage", mirror) },
        row("garbage twice", twin("Widget", "gone")),
        Row { kept: vec!["Widget/twin"], left: named, ..row("garbage, and a living one", twin("Widget", "keeper")) },
        Row { kept: vec!["ConfigMap/twin"], left: named, ..row("of one resource", twin("ConfigMap", "keeper")) },
    ]);
}
