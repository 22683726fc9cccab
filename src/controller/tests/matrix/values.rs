//! The odd values of each field.

use serde_json::{Value, json};

use super::super::{object, to, with};

/// A field of an object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field {
    Name,
    Namespace,
    Uid,
    Version,
    Owners,
    Times,
    Size,
}

/// A kind of value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Odd {
    Empty,
    Strange,
    Escaping,
    Huge,
    /// That of another object.
    Shared,
}

pub(super) const FIELDS: [Field; 7] =
    [Field::Name, Field::Namespace, Field::Uid, Field::Version, Field::Owners, Field::Times, Field::Size];
pub(super) const VALUES: [Odd; 5] = [Odd::Empty, Odd::Strange, Odd::Escaping, Odd::Huge, Odd::Shared];

/// The object of the tenant, whose owner is absent.
pub(super) fn of_tenant() -> Value {
    let owner = object("tenant.example.com/v1", "Widget", "ns1", "tenant-owner", &[]);
    with(object("tenant.example.com/v1", "Widget", "ns1", "tenant", &[to(&owner)]), "resourceVersion", json!("1"))
}

/// Returns the object of the tenant with an odd value in one field.
pub(super) fn hostile(field: Field, value: Odd) -> Value {
    let object = of_tenant();
    match field {
        Field::Name => with(object, "name", json!(text(value, "keeper"))),
        Field::Namespace => with(object, "namespace", json!(text(value, "ns2"))),
        Field::Uid => with(object, "uid", json!(text(value, "keeper-uid"))),
        Field::Version => with(object, "resourceVersion", json!(version(value))),
        Field::Owners => with(object, "ownerReferences", owners(value)),
        Field::Times => with(with(object, "deletionTimestamp", time(value)), "creationTimestamp", time(value)),
        Field::Size => sized(object, value),
    }
}

fn text(value: Odd, shared: &str) -> String {
    match value {
        Odd::Empty => String::new(),
        Odd::Strange => "\u{1b}[2J\nlevel=ERROR \u{202e}".to_owned(),
        Odd::Escaping => "kube-system/secrets/victim?x=%2e%2e/..".to_owned(),
        Odd::Huge => "a".repeat(200_000),
        Odd::Shared => shared.to_owned(),
    }
}

fn version(value: Odd) -> String {
    match value {
        Odd::Strange => "-7".to_owned(),
        Odd::Huge => "9".repeat(400),
        Odd::Shared => "1".to_owned(),
        other => text(other, ""),
    }
}

fn owners(value: Odd) -> Value {
    let reference = |kind: &str, name: &str, uid: &str| json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": true});
    match value {
        Odd::Empty => json!([reference("", "", "")]),
        Odd::Strange => json!([reference("Secret", ".", "\u{0}"), reference("Strange", "\u{1b}", "tenant-uid")]),
        Odd::Escaping => json!([
            reference("ConfigMap", "x/../../../kube-system/secrets/victim", "gone-1"),
            reference("Secret", "victim?watch=true&timeoutSeconds=86400", "gone-2"),
            reference("ConfigMap", "evil:8080/proxy/x", "gone-3"),
        ]),
        Odd::Huge => (0..8_000).map(|it| reference("ConfigMap", &format!("o{it}"), &format!("o{it}"))).collect(),
        Odd::Shared => json!([reference("Secret", "keeper", "keeper-uid"), reference("Secret", "fg", "fg-uid")]),
    }
}

fn time(value: Odd) -> Value {
    match value {
        Odd::Huge => json!("9999-12-31T23:59:59Z"),
        Odd::Shared => json!("2026-01-01T00:00:00Z"),
        other => json!(text(other, "")),
    }
}

fn sized(object: Value, value: Odd) -> Value {
    let finalizers = |count: usize| (0..count).map(|it| format!("example.com/f{it}")).collect::<Vec<_>>();
    match value {
        Odd::Empty => json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {}}),
        Odd::Strange => with(object, "deletionGracePeriodSeconds", json!(i64::MIN)),
        Odd::Escaping => with(object, "finalizers", json!(["../orphan", "foregroundDeletion\n", "", "orphan "])),
        Odd::Huge => {
            with(with(object, "finalizers", json!(finalizers(5_000))), "annotations", json!({"a": "b".repeat(300_000)}))
        }
        Odd::Shared => with(object, "finalizers", json!(["orphan", "foregroundDeletion"])),
    }
}
