//! Table tests of several sources combined.

use async_trait::async_trait;
use jiff::Timestamp;

use super::*;
use crate::model::Confirms::{ByName, ByUid};

/// A source with fixed answers.
struct Fixed {
    name: &'static str,
    list: Seen<PodList>,
    exists: Seen<bool>,
}

#[async_trait]
impl PodSource for Fixed {
    fn name(&self) -> &str {
        self.name
    }

    async fn list(&self, _: &Seen<Vec<Container>>, _: &Seen<Vec<Sandbox>>) -> Seen<PodList> {
        self.list.clone()
    }

    async fn cached_pods(&self) -> Vec<Pod> {
        self.list.as_ref().map(|list| list.pods.clone()).unwrap_or_default()
    }

    async fn still_exists(&self, _: &PodRef) -> Seen<bool> {
        self.exists.clone()
    }
}

fn noon() -> Timestamp {
    "2026-01-02T12:00:00Z".parse().unwrap()
}

fn pod(uid: &str) -> Pod {
    Pod { uid: uid.into(), namespace: "n".to_owned(), name: format!("name-of-{uid}"), ..Pod::default() }
}

fn list(complete: bool, pods: Vec<Pod>) -> Seen<PodList> {
    Seen::Seen(PodList { source: "unused".to_owned(), complete, pods, ..PodList::default() })
}

fn unseen(cause: &str) -> Seen<PodList> {
    Seen::NotSeen(cause.to_owned())
}

fn combined(source: Vec<Fixed>) -> CombinedPods {
    let part = |source| SourceEntry { source: Arc::new(source), wanted_by: "auto", why: "found".to_owned() };
    CombinedPods::new(source.into_iter().map(part).collect(), noon)
}

async fn list_of(lists: Vec<(&'static str, Seen<PodList>)>) -> Seen<PodList> {
    let source = |(name, list)| Fixed { name, list, exists: Seen::Seen(false) };
    let combined = combined(lists.into_iter().map(source).collect());
    let (containers, sandboxes) = (Seen::Seen(Vec::new()), Seen::Seen(Vec::new()));
    combined.list(&containers, &sandboxes).await
}

/// The case, the lists, whether the combined list is complete, and its pods.
type Row = (&'static str, Vec<Seen<PodList>>, bool, &'static [&'static str]);

#[tokio::test]
async fn together_they_are_as_complete_as_the_least_complete() {
    let whole = |uid| list(true, vec![pod(uid)]);
    let rows: [Row; 7] = [
        ("one", vec![whole("a")], true, &["a"]),
        ("one that is not whole", vec![list(false, vec![pod("a")])], false, &["a"]),
        ("two", vec![whole("a"), whole("b")], true, &["a", "b"]),
        ("the same pod twice", vec![whole("a"), whole("a")], true, &["a"]),
        ("one of two not whole", vec![whole("a"), list(false, vec![pod("b")])], false, &["a", "b"]),
        ("one of two not seen", vec![unseen("gone"), whole("a")], false, &["a"]),
        ("one of three not seen", vec![whole("a"), whole("b"), unseen("gone")], false, &["a", "b"]),
    ];
    for (row, lists, complete, uids) in rows {
        let named = ["x", "y", "z"].into_iter().zip(lists.clone()).collect();
        let list = list_of(named).await;
        let list = list.as_ref().unwrap_or_else(|| panic!("{row}"));
        let named: Vec<_> = list.pods.iter().map(|pod| pod.uid.as_str()).collect();
        assert_eq!((list.complete, named.as_slice()), (complete, uids), "{row}");
        assert_eq!(list.source, ["x", "x+y", "x+y+z"][lists.len() - 1], "{row}");
        assert_eq!(list.sources.len(), lists.len(), "{row}");
        assert_eq!(list.sources.iter().any(|report| report.missing.is_some()), !complete, "{row}");
    }
}

#[tokio::test]
async fn pods_with_one_uid_and_two_names_are_two_pods() {
    let forged = || Pod { namespace: "aaa".to_owned(), deleting: true, ..pod("a") };
    let list = list_of(vec![("x", list(true, vec![forged(), pod("a")])), ("y", list(true, vec![pod("a")]))]).await;
    assert_eq!(list.as_ref().unwrap().pods, [forged(), pod("a")]);
}

#[tokio::test]
async fn where_no_one_saw_anything_all_causes_are_reported() {
    assert_eq!(list_of(vec![("kube-api", unseen("away"))]).await, unseen("away"));
    let both = list_of(vec![("kube-api", unseen("away")), ("kubelet", unseen("401"))]).await;
    assert_eq!(both, unseen("kube-api: away; kubelet: 401"));
}

#[tokio::test]
async fn each_source_is_reported_with_why_it_is_used() {
    let own = PodSourceReport { name: "own".to_owned(), chosen_by: "a file".to_owned(), pods: 7, ..Default::default() };
    let own = PodList { complete: true, sources: vec![own], ..PodList::default() };
    let list = list_of(vec![
        ("own", Seen::Seen(own)),
        ("plain", list(true, vec![pod("a"), pod("b")])),
        ("short", list(false, Vec::new())),
        ("away", unseen("timed out")),
    ])
    .await;
    let reports: Vec<_> = list
        .as_ref()
        .unwrap()
        .sources
        .iter()
        .map(|report| {
            (report.name.as_str(), report.chosen_by.as_str(), report.pods, report.as_of, report.missing.as_deref())
        })
        .collect();
    let now = Some(noon());
    assert_eq!(
        reports,
        [
            ("own", "auto: a file", 7, now, None),
            ("plain", "auto: found", 2, now, None),
            ("short", "auto: found", 0, now, Some("it does not say that this is all")),
            ("away", "auto: found", 0, None, Some("timed out")),
        ]
    );
}

#[tokio::test]
async fn a_pod_is_terminated_if_all_sources_agree() {
    use Phase::{Failed, Pending, Running, Succeeded, Unknown};
    let rows = [
        (vec![Succeeded, Succeeded], Succeeded),
        (vec![Succeeded, Failed], Failed),
        (vec![Succeeded, Running], Running),
        (vec![Running, Succeeded], Running),
        (vec![Pending, Failed], Pending),
        (vec![Unknown, Failed], Failed),
        (vec![Failed, Unknown], Failed),
        (vec![Succeeded, Unknown, Running], Running),
        (vec![Unknown, Unknown], Unknown),
        (vec![Unknown, Running], Running),
    ];
    for (phases, expected) in rows {
        let lists = phases.iter().map(|phase| ("x", list(true, vec![Pod { phase: *phase, ..pod("a") }]))).collect();
        assert_eq!(list_of(lists).await.as_ref().unwrap().pods[0].phase, expected, "{phases:?}");
    }
}

#[tokio::test]
async fn images_and_deletion_are_taken_from_all() {
    let one = Pod { name: String::new(), namespace: String::new(), images: vec!["b".into(), "a".into()], ..pod("u") };
    let other = Pod { deleting: true, images: vec!["c".into(), "a".into()], ..pod("u") };
    let list = list_of(vec![("x", list(true, vec![one])), ("y", list(true, vec![other]))]).await;
    let images = ["a", "b", "c"].map(str::to_owned).to_vec();
    assert_eq!(list.as_ref().unwrap().pods, [Pod { deleting: true, images, ..pod("u") }]);
}

#[tokio::test]
async fn a_pod_is_deleted_only_if_all_sources_agree() {
    let unsure = |cause: &str| Seen::NotSeen(cause.to_owned());
    let rows = [
        ("all know it away", vec![Seen::Seen(false), Seen::Seen(false)], Seen::Seen(false)),
        ("one has it", vec![Seen::Seen(false), Seen::Seen(true)], Seen::Seen(true)),
        ("one has it and one is unsure", vec![unsure("a"), Seen::Seen(true)], Seen::Seen(true)),
        ("one is unsure", vec![Seen::Seen(false), unsure("a")], unsure("y: a")),
        ("both are unsure", vec![unsure("a"), unsure("b")], unsure("x: a; y: b")),
    ];
    for (row, answers, expected) in rows {
        let source = |(name, exists)| Fixed { name, list: unseen(""), exists };
        let combined = combined(["x", "y"].into_iter().zip(answers).map(source).collect());
        assert_eq!(combined.still_exists(&PodRef::default()).await, expected, "{row}");
    }
}

#[tokio::test]
async fn what_any_of_them_knows_by_now_is_known() {
    let source = |list| Fixed { name: "x", list, exists: Seen::Seen(false) };
    let combined = combined([list(true, vec![pod("a")]), unseen(""), list(false, vec![pod("b")])].map(source).into());
    assert_eq!(combined.cached_pods().await, [pod("a"), pod("b")]);
}

/// A source that answers only after another source was called too.
struct BarrierSource(Arc<tokio::sync::Barrier>);

#[async_trait]
impl PodSource for BarrierSource {
    fn name(&self) -> &'static str {
        "meets"
    }

    async fn list(&self, _: &Seen<Vec<Container>>, _: &Seen<Vec<Sandbox>>) -> Seen<PodList> {
        self.0.wait().await;
        list(true, Vec::new())
    }
}

#[tokio::test]
async fn all_sources_are_queried_concurrently() {
    let barrier = Arc::new(tokio::sync::Barrier::new(3));
    let part = |_| SourceEntry {
        source: Arc::new(BarrierSource(Arc::clone(&barrier))),
        wanted_by: "auto",
        why: String::new(),
    };
    let combined = CombinedPods::new((0..3).map(part).collect(), noon);
    let (containers, sandboxes) = (Seen::Seen(Vec::new()), Seen::Seen(Vec::new()));
    let answer = combined.list(&containers, &sandboxes);
    let list = tokio::time::timeout(std::time::Duration::from_secs(10), answer).await.expect("one after the other");
    assert!(list.as_ref().unwrap().complete);
}

#[tokio::test]
async fn combined_sources_confirm_by_name_if_one_does() {
    let by = |confirms| Seen::Seen(PodList { complete: true, confirms, ..PodList::default() });
    for (one, other, both) in [(ByUid, ByUid, ByUid), (ByName, ByUid, ByName), (ByUid, ByName, ByName)] {
        let list = list_of(vec![("one", by(one)), ("other", by(other))]).await;
        assert_eq!(list.as_ref().unwrap().confirms, both, "{one:?} {other:?}");
    }
}

#[test]
fn combined_sources_have_a_kubelet_if_one_has() {
    let fixed = || -> Arc<dyn PodSource> { Arc::new(Fixed { name: "x", list: unseen(""), exists: Seen::Seen(false) }) };
    let runtime = || -> Arc<dyn PodSource> { Arc::new(crate::observe::RuntimePods) };
    let rows = [
        (vec![runtime()], false),
        (vec![runtime(), runtime()], false),
        (vec![fixed()], true),
        (vec![runtime(), fixed()], true),
    ];
    for (sources, expected) in rows {
        let entry = |source| SourceEntry { source, wanted_by: "auto", why: String::new() };
        let combined = CombinedPods::new(sources.into_iter().map(entry).collect(), noon);
        assert_eq!(combined.has_kubelet(), expected, "{}", combined.name());
    }
}
