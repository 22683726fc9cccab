//! The conditions of a namespace in deletion. Types, reasons and messages are those of kube-controller-manager 1.36, which
//! people and tools read.

use jiff::Timestamp;

use super::content::Content;
use crate::kubernetes::NamespaceCondition;

/// The most resources or finalizers in one message: a tenant can make any number of them (G5).
const MOST: usize = 100;

/// A condition when nothing is wrong: its type, reason and message.
type Settled = (&'static str, &'static str, &'static str);

const DISCOVERY: Settled =
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered");
const VERSIONS: Settled =
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed");
const DELETION: Settled = (
    "NamespaceDeletionContentFailure",
    "ContentDeleted",
    "All content successfully deleted, may be waiting on finalization",
);
const REMAINING: Settled = ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed");
const HELD: Settled =
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished");

/// Returns all conditions for this content; `None` = the namespace has them already.
pub(super) fn changed(
    before: &[NamespaceCondition],
    content: &Content,
    now: Timestamp,
) -> Option<Vec<NamespaceCondition>> {
    let mut is_changed = false;
    let conditions = wanted(content).map(|(settled, wrong)| {
        let (status, reason, message) = match wrong {
            None => ("False", settled.1, settled.2.to_owned()),
            Some((reason, message)) => ("True", reason, message),
        };
        let known = before.iter().find(|known| known.kind == settled.0);
        let is_known = known.is_some_and(|it| (&*it.status, &*it.reason, &*it.message) == (status, reason, &*message));
        is_changed |= !is_known;
        let since = known.filter(|known| known.status == status).map(|known| known.last_transition_time.clone());
        NamespaceCondition {
            kind: settled.0.to_owned(),
            status: status.to_owned(),
            last_transition_time: since.unwrap_or_else(|| now.strftime("%FT%TZ").to_string()),
            reason: reason.to_owned(),
            message,
        }
    });
    is_changed.then(|| conditions.to_vec())
}

/// Returns each condition, and the reason and the message if something is wrong.
fn wanted(content: &Content) -> [(Settled, Option<(&'static str, String)>); 5] {
    let Content { undiscovered, undeleted, objects, finalizers, .. } = content;
    let undiscovered: Vec<_> = undiscovered.iter().map(|(version, cause)| format!("{version}: {cause}")).collect();
    let discovery = format!(
        "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
        undiscovered.len(),
        listed(undiscovered.iter().cloned())
    );
    let deletion = format!(
        "Failed to delete all resource types, {} remaining: {}",
        undeleted.len(),
        listed(undeleted.iter().cloned())
    );
    let remaining = objects.iter().map(|(resource, count)| format!("{resource} has {count} resource instances"));
    let remaining = format!("Some resources are remaining: {}", listed(remaining));
    let held = finalizers.iter().map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"));
    let held = format!("Some content in the namespace has finalizers remaining: {}", listed(held));
    [
        (DISCOVERY, (!undiscovered.is_empty()).then_some(("DiscoveryFailed", discovery))),
        (VERSIONS, None),
        (DELETION, (!undeleted.is_empty()).then_some(("ContentDeletionFailed", deletion))),
        (REMAINING, (!objects.is_empty()).then_some(("SomeResourcesRemain", remaining))),
        (HELD, (!finalizers.is_empty()).then_some(("SomeFinalizersRemain", held))),
    ]
}

fn listed(texts: impl Iterator<Item = String>) -> String {
    texts.take(MOST).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubernetes::ApiResource;
    use crate::model::ObjectMeta;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn content(undiscovered: &[(&str, &str)]) -> Content {
        let undiscovered: Vec<_> =
            undiscovered.iter().map(|(of, cause)| ((*of).to_owned(), (*cause).to_owned())).collect();
        Content::new("ns1", NOW, &undiscovered)
    }

    fn held(finalizers: &[String]) -> ObjectMeta {
        serde_json::from_value(json!({ "name": "a", "uid": "u", "finalizers": finalizers })).unwrap()
    }

    fn texts(conditions: &[NamespaceCondition]) -> Vec<String> {
        let text = |it: &NamespaceCondition| format!("{} {} {}: {}", it.kind, it.status, it.reason, it.message);
        conditions.iter().map(text).collect()
    }

    /// As kube-controller-manager 1.36.2 wrote them.
    #[test]
    fn all_five_conditions_are_shown() {
        let mut some = content(&[("metrics.k8s.io/v1beta1", "it is stale")]);
        some.add(&ApiResource::pods(), Ok(vec![held(&["example.com/hold".to_owned()]), held(&[])]), false);
        some.add(&ApiResource::config_maps(), Ok(vec![held(&[])]), false);
        assert_eq!(
            texts(&changed(&[], &some, NOW).unwrap()),
            [
                "NamespaceDeletionDiscoveryFailure True DiscoveryFailed: Discovery failed for some groups, 1 failing: unable \
                 to retrieve the complete list of server APIs: metrics.k8s.io/v1beta1: it is stale",
                "NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: All legacy kube types successfully \
                 parsed",
                "NamespaceDeletionContentFailure True ContentDeletionFailed: Failed to delete all resource types, 1 \
                 remaining: unexpected items still remain in namespace: ns1 for gvr: /v1, Resource=configmaps",
                "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: configmaps. has 1 \
                 resource instances, pods. has 2 resource instances",
                "NamespaceFinalizersRemaining True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/hold in 1 \
                 resource instances",
            ]
        );
        assert_eq!(
            texts(&changed(&[], &content(&[]), NOW).unwrap()),
            [
                "NamespaceDeletionDiscoveryFailure False ResourcesDiscovered: All resources successfully discovered",
                "NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: All legacy kube types successfully \
                 parsed",
                "NamespaceDeletionContentFailure False ContentDeleted: All content successfully deleted, may be waiting on \
                 finalization",
                "NamespaceContentRemaining False ContentRemoved: All content successfully removed",
                "NamespaceFinalizersRemaining False ContentHasNoFinalizers: All content-preserving finalizers finished",
            ]
        );
    }

    #[test]
    fn a_time_stays_while_the_status_does() {
        let later = NOW + std::time::Duration::from_mins(1);
        let before = changed(&[], &content(&[]), NOW).unwrap();
        assert_eq!(changed(&before, &content(&[]), later), None, "nothing has changed");
        let mut some = content(&[]);
        some.add(&ApiResource::pods(), Ok(vec![held(&["example.com/hold".to_owned()])]), false);
        let after = changed(&before, &some, later).unwrap();
        let times: Vec<_> = after.iter().map(|it| &*it.last_transition_time).collect();
        let (first, second) = ("1970-01-01T00:00:00Z", "1970-01-01T00:01:00Z");
        assert_eq!(times, [first, first, first, second, second]);
    }

    /// A tenant decides how many finalizers there are (G5).
    #[test]
    fn a_message_has_at_most_100_finalizers() {
        let finalizers: Vec<_> = (0..1000).map(|number| format!("example.com/f{number}")).collect();
        let mut some = content(&[]);
        some.add(&ApiResource::pods(), Ok(vec![held(&finalizers)]), false);
        let conditions = changed(&[], &some, NOW).unwrap();
        assert_eq!(conditions.last().unwrap().message.matches("example.com/f").count(), 100);
    }
}
