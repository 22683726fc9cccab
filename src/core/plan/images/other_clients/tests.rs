//! Which images are kept because another client of the runtime uses them.

use crate::model::{HolderKind, PartKind, Seen, Snapshot, StorePart};
use crate::plan::document::action::Kind;
use crate::plan::tests::node::{MIB, Node, Row, hold, node};

fn table<const ROWS: usize>(rows: [Row; ROWS]) {
    hold(&[Kind::Image], rows);
}

/// A full disk with one unused image, which the CRI calls `web:1`.
fn full() -> Node {
    node().disk_of(1000 * MIB, 100 * MIB).image("a", 300).which(|image| image.tags = vec!["web:1".to_owned()])
}

fn container(namespace: &str, id: &str, image: &str) -> impl Fn(Node) -> Node {
    let (namespace, id, image) = (namespace.to_owned(), id.to_owned(), image.to_owned());
    move |node| node.held(HolderKind::Container, &namespace, &id, Some(image.clone()), &[])
}

/// Gives images of two namespaces the same manifest.
fn same_manifest(node: Node) -> Node {
    let manifest = |snapshot: &mut Snapshot| {
        let Seen::Seen(store) = &mut snapshot.store else { panic!("no store") };
        let part = |namespace: &str| StorePart {
            kind: PartKind::Blob,
            namespace: namespace.to_owned(),
            name: "sha256:m".to_owned(),
            ..StorePart::default()
        };
        store.parts.extend([part("k8s.io"), part("moby")]);
        store.holders[0].refs = vec![0];
        store.holders[1].refs = vec![1];
    };
    let node = node.held(HolderKind::Image, "k8s.io", "web:1", None, &[]);
    node.held(HolderKind::Image, "moby", "local/site:2", None, &[]).but(manifest)
}

#[test]
#[rustfmt::skip]
fn images_of_containers_that_the_cri_does_not_list_are_kept() {
    let other = |namespace, id, image| container(namespace, id, image)(full());
    let without_sandboxes = |snapshot: &mut Snapshot| snapshot.sandboxes = Seen::NotSeen("refused".to_owned());
    let other_manifest = |snapshot: &mut Snapshot| {
        let Seen::Seen(store) = &mut snapshot.store else { panic!("no store") };
        store.parts[1].name = "sha256:n".to_owned();
    };
    let (kept, removed) = ("a: used_by_other_client", "a: space");
    table([
        ("nerdctl in a namespace of its own", other("default", "c", "docker.io/library/web:1"), kept, ""),
        ("another name", other("default", "c", "docker.io/library/db:1"), "", removed),
        ("without the CRI in its namespace", other("k8s.io", "c", "web:1"), kept, ""),
        ("a sandbox that the CRI lists", other("k8s.io", "s", "web:1").ready("p", "s", 9), "", removed),
        ("without its lists nothing shows whose it is", other("k8s.io", "c", "web:1").but(without_sandboxes), "", removed),
        ("podman on the storage of CRI-O", other("k8s.io", "c", "a"), kept, ""),
        ("another name of the same manifest", container("moby", "c", "local/site:2")(same_manifest(full())), kept, ""),
        ("its own name of another manifest", container("moby", "c", "local/site:2")(same_manifest(full()).but(other_manifest)), "", removed),
        ("the kubelet does not see it", other("default", "c", "web:1").kubelet(), "", removed),
    ]);
}
