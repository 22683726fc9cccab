//! Random objects of a cluster that own each other.

use jiff::Timestamp;
use proptest::prelude::*;

use crate::model::{ApiKind, FOREGROUND, Identity, ORPHAN, ObjectMeta, OwnerReference, Uid};

/// The kinds of the objects: version, kind, and whether it is namespaced. The API server does not serve the last one.
pub const KINDS: [(&str, &str, bool); 5] = [
    ("v1", "ConfigMap", true),
    ("apps/v1", "Deployment", true),
    ("v1", "Node", false),
    ("v1", "Namespace", false),
    ("old/v1", "Thing", true),
];

/// How many objects there may be.
const MOST: usize = 8;

/// What is generated for one object.
#[derive(Clone, Debug)]
struct Sketch {
    exists: bool,
    kind: usize,
    namespace: usize,
    owners: Vec<(usize, Option<usize>, bool)>,
    finalizers: Vec<&'static str>,
    is_deleting: bool,
}

fn sketch() -> impl Strategy<Value = Sketch> {
    let kind = prop::option::weighted(0.2, 0..KINDS.len());
    let owners = prop::collection::vec((0..MOST, kind, any::<bool>()), 0..3);
    let finalizers = prop::sample::subsequence(vec!["example.com/hold", FOREGROUND, ORPHAN], 0..2);
    (any::<bool>(), 0..KINDS.len() - 1, 0..2usize, owners, finalizers, prop::bool::weighted(0.2)).prop_map(
        |(exists, kind, namespace, owners, finalizers, is_deleting)| Sketch {
            exists,
            kind,
            namespace,
            owners,
            finalizers,
            is_deleting,
        },
    )
}

/// Returns the identity of an object. The first two namespaces are those of the others.
fn identity(at: usize, kind: usize, namespace: usize) -> Identity {
    let (api_version, kind, is_namespaced) = KINDS[kind];
    let namespace = if is_namespaced { ["ns0", "ns1"][namespace] } else { "" };
    let name = if kind == "Namespace" { format!("ns{at}") } else { format!("o{at}") };
    let kind = ApiKind::new(api_version, kind);
    Identity { kind, namespace: namespace.into(), name: name.into(), uid: Uid::new(&format!("u{at}")) }
}

/// Objects whose owners exist or not, with the right coordinates or not.
pub fn any_forest() -> impl Strategy<Value = Vec<(Identity, ObjectMeta)>> {
    prop::collection::vec(sketch(), MOST).prop_map(|sketches| {
        let known: Vec<_> = (0..).zip(&sketches).map(|(at, it)| identity(at, it.kind, it.namespace)).collect();
        let make = |(identity, sketch): (&Identity, &Sketch)| (identity.clone(), object(identity, sketch, &known));
        known.iter().zip(&sketches).filter(|(_, sketch)| sketch.exists).map(make).collect()
    })
}

fn object(object: &Identity, sketch: &Sketch, known: &[Identity]) -> ObjectMeta {
    let owner = |(owner, kind, blocking): &(usize, Option<usize>, bool)| {
        let meant = kind.map_or_else(|| known[*owner].clone(), |kind| identity(*owner, kind, 0));
        let Identity { kind, name, uid, .. } = meant;
        OwnerReference { kind, name, uid, controller: None, blocking: Some(*blocking) }
    };
    let Identity { namespace, name, uid, .. } = object.clone();
    let owners = sketch.owners.iter().map(owner).collect();
    let finalizers: Vec<_> = sketch.finalizers.iter().map(|text| (*text).to_owned()).collect();
    let is_deleting = sketch.is_deleting && !finalizers.is_empty();
    let deletion_timestamp = is_deleting.then_some(Timestamp::UNIX_EPOCH);
    ObjectMeta { namespace, name, uid, deletion_timestamp, finalizers, owners, ..ObjectMeta::default() }
}
