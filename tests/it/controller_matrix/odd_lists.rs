//! Lists that do not end, are large, or have an odd entry.

use serde_json::{Value, json};

use super::{Row, check, config_map};

/// The other resources are listed, and their garbage is deleted.
#[test]
fn a_list_without_an_end() {
    let rule = json!({"verb": "LIST", "path": "/widgets", "endless": true});
    check(&[Row { rules: vec![rule], garbage: "ConfigMap", ..Row::of("each list".to_owned()) }]);
}

/// An API server accepts requests of 3 MiB. A page of six such objects is too large.
#[test]
fn objects_of_the_largest_size() {
    let largest = |mut object: Value| {
        object["metadata"]["managedFields"] = json!([{"manager": "m".repeat(3 << 20), "operation": "Update"}]);
        object
    };
    let of_living = (0..6).map(|number| largest(config_map(&format!("large{number}"), &["keeper"]))).collect();
    let kept = vec!["ConfigMap/large0", "ConfigMap/large5"];
    check(&[Row { objects: of_living, kept, garbage: "ConfigMap", ..Row::of("six of a living owner".to_owned()) }]);
}

/// An odd entry concerns its own object: it stays, and the others of its list are decided about.
#[test]
fn a_list_with_one_odd_entry() {
    let fields = [
        ("uid", json!(7)),
        ("ownerReferences", json!([null, 7, {"uid": []}])),
        ("ownerReferences", json!("none")),
        ("finalizers", json!([null, {}])),
        ("deletionGracePeriodSeconds", json!("soon")),
        ("labels", json!(5)),
        ("creationTimestamp", json!([])),
    ];
    let row = |(field, value): (&str, Value)| {
        let mut odd = config_map("odd", &["keeper"]);
        odd["metadata"][field] = value.clone();
        let name = format!("{field}: {value}");
        Row { objects: vec![odd], kept: vec!["ConfigMap/odd"], garbage: "ConfigMap", ..Row::of(name) }
    };
    check(&fields.map(row));
}
