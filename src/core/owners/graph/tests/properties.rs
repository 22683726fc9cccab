//! The graph after random events.

use proptest::prelude::*;

use super::*;

/// Events on eight uids under two kinds and two namespaces.
fn event() -> impl Strategy<Value = Event> {
    let identity = (0..8u8, 0..2u8, 0..3u8).prop_map(|(uid, kind, namespace)| {
        let namespace = ["ns1", "ns2", ""][usize::from(namespace)];
        of("v1", ["Pod", "Secret"][usize::from(kind)], namespace, &format!("n{uid}"), &format!("u{uid}"))
    });
    let owners = prop::collection::vec((identity.clone(), any::<bool>()), 0..4);
    let owners = owners.prop_map(|owners| {
        let reference = |(owner, blocking): (Identity, bool)| OwnerReference { blocking: Some(blocking), ..to(&owner) };
        owners.into_iter().map(reference).collect::<Vec<_>>()
    });
    prop_oneof![
        6 => (identity.clone(), owners, any::<[bool; 3]>()).prop_map(|(identity, owners, [is_deleting, orphans, is_foreground])| {
            let mut shown = seen(&identity, &owners);
            shown = if is_deleting { in_deletion(shown) } else { shown };
            for (has, finalizer) in [(orphans, ORPHAN), (is_foreground, FOREGROUND)] {
                shown = if has { with_finalizer(shown, finalizer) } else { shown };
            }
            Event::Seen(shown)
        }),
        3 => identity.clone().prop_map(|identity| deleted(&identity)),
        3 => identity.prop_map(Event::ProvenAbsent),
        1 => Just(Event::ListBegins(PODS)),
        1 => Just(Event::ListEnds(PODS)),
        1 => Just(Event::Unserved(NODES)),
    ]
}

proptest! {
    #[test]
    fn the_graph_is_consistent_and_holds_the_last_state(events in prop::collection::vec(event(), 1..60)) {
        let mut graph = Graph::default();
        for event in events {
            let shown = match &event {
                Event::Seen(observed) => Some(observed.clone()),
                _ => None,
            };
            graph.happens(event);
            graph.check();
            prop_assert!(graph.shared.keys().all(|id| graph.store.node(*id).is_some()));
            if let Some(observed) = shown {
                let (uid, owners) = (&observed.meta.uid, graph.owners(&observed.meta.uid));
                if graph.others_of(uid).is_empty() {
                    prop_assert_eq!(owners, observed.meta.owners);
                    prop_assert!(!graph.item(uid).unwrap().is_virtual);
                } else {
                    prop_assert!(observed.meta.owners.iter().all(|owner| owners.contains(owner)));
                    prop_assert_eq!(graph.shown_version(uid), None);
                }
            }
        }
        // Without any object, nothing stays in memory.
        let shown: Vec<_> = graph.store.nodes().filter_map(|(id, _)| graph.store.identity(id)).collect();
        for identity in shown.into_iter().flat_map(|it| [graph.others_of(&it.uid), vec![it]].concat()).collect::<Vec<_>>() {
            graph.happens(deleted(&identity));
        }
        prop_assert_eq!(graph.store.nodes().count(), 0);
        prop_assert_eq!((graph.shared.len(), graph.store.interned()), (0, 0));
    }
}
