//! The service beside two objects with one uid.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::data;
use super::fake_api::Fake;

/// The scenario, with a second profile that owns an object of its own: its end shows that the events before it are handled.
fn scenario() -> Value {
    let mut scenario: Value = serde_json::from_str(&data("C5e-fake.json")).unwrap();
    let owner = json!({"apiVersion": "projectcalico.org/v3", "kind": "Profile", "name": "last", "uid": "last"});
    let objects = scenario["objects"].as_array_mut().unwrap();
    objects.push(
        json!({"apiVersion": "projectcalico.org/v3", "kind": "Profile", "metadata": {"name": "last", "uid": "last"}}),
    );
    let metadata = json!({"name": "of-last", "uid": "of-last", "namespace": "default", "ownerReferences": [owner]});
    objects.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
    scenario
}

fn delete(address: &str, path: &str) {
    let mut stream = TcpStream::connect(address.trim_start_matches("http://")).unwrap();
    write!(stream, "DELETE {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// The service account lives, and only the profile of the same uid is deleted: it failed in 5 of 6 runs.
#[test]
fn c5e_deleting_the_owners_twin_keeps_the_object() {
    let fake = Fake::play(&scenario());
    let mut service = fake.begin(&["run", "--set", "controller.address=", "--set", "log.format=json"]);
    service.says(&["monitoring"]);
    for name in ["ksa.default.owner", "last"] {
        delete(&fake.address, &format!("/apis/projectcalico.org/v3/profiles/{name}"));
    }
    service.says(&["of-last", "removed"]);
    service.stop();
    let seen = fake.end();
    assert!(seen.contains("DELETE ConfigMap/of-last") && !seen.contains("DELETE ConfigMap/dep"), "{seen}");
}
