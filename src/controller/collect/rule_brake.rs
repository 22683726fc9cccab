//! The brake of `run` for rules for objects: a rule that selects too many objects at once is probably wrong, or new.

use std::collections::{BTreeMap, BTreeSet};

use super::object_rules::Selection;
use crate::controller::watch::filter::ResourceName;
use crate::controller::work::as_shown::SelectedObject;

/// A rule selects at most so many objects without a namespace, and a third of them. They concern the whole cluster.
const FEW: usize = 10;
const SHARES: usize = 3;
/// How many namespaces it takes at least to pause a rule everywhere: one tenant must not pause it for all (G5).
const NAMESPACES: u64 = 4;
const SENTENCES: usize = 20;

/// What a rule selects: the rule, the resource and the namespace. Empty = all of them, or none.
type Place = (String, String, String);

/// A place in which a rule is paused: how many objects it selects there, and of how many.
type Paused = (Place, usize, usize);

// === impl Selection ===

impl Selection {
    /// Leaves out what rules select too much of, and returns a sentence for each place. `most` is how many objects of one
    /// namespace a rule may select whatever their share is; 0 = there is no brake.
    pub(super) fn pause(&mut self, most: u64) -> Vec<String> {
        if most == 0 {
            return Vec::new();
        }
        let mut selected = BTreeMap::<Place, usize>::new();
        self.objects.iter().for_each(|object| *selected.entry(place(object)).or_default() += 1);
        let (too_many, rest): (Vec<_>, Vec<_>) = selected
            .into_iter()
            .map(|(place, count)| {
                let of = self.counts.get(&(place.1.clone(), place.2.clone())).copied().unwrap_or_default();
                (place, count, of)
            })
            .partition(|paused| is_too_many(paused, most));
        let paused: Vec<_> = too_many.into_iter().chain(self.everywhere(rest, most)).collect();
        let places: BTreeSet<_> = paused.iter().map(|(place, ..)| place.clone()).collect();
        self.objects.retain(|object| {
            let place = place(object);
            let everywhere = (place.0.clone(), place.1.clone(), String::new());
            !places.contains(&place) && !places.contains(&everywhere)
        });
        sentences(&paused)
    }

    /// Returns the rules that select too much of a resource in all namespaces together, each with a limited share.
    fn everywhere(&self, selected: Vec<Paused>, most: u64) -> Vec<Paused> {
        let mut totals = BTreeMap::<Place, (u64, usize)>::new();
        for ((rule, resource, namespace), count, _) in selected {
            if !namespace.is_empty() {
                let (shares, all) = totals.entry((rule, resource, String::new())).or_default();
                *shares += (count as u64).min(most.div_ceil(NAMESPACES));
                *all += count;
            }
        }
        let of = |place: &Place| {
            let counts = self.counts.iter().filter(|((resource, _), _)| *resource == place.1);
            counts.map(|(_, count)| count).sum::<usize>()
        };
        let totals = totals.into_iter().filter(|(_, (shares, _))| *shares > most);
        totals.map(|(place, (_, all))| (place.clone(), all, of(&place))).filter(|(_, all, of)| *all > of / 2).collect()
    }
}

fn is_too_many(((.., namespace), count, of): &Paused, most: u64) -> bool {
    if namespace.is_empty() { *count > FEW || count * SHARES > *of } else { *count as u64 > most && *count > of / 2 }
}

fn place(object: &SelectedObject) -> Place {
    (object.rule.clone(), ResourceName::of(&object.resource).to_string(), object.meta.namespace.to_string())
}

fn sentences(paused: &[Paused]) -> Vec<String> {
    let sentence = |((rule, resource, namespace), count, of): &Paused| {
        let place = if namespace.is_empty() { String::new() } else { format!(" in namespace {namespace}") };
        format!(
            "paused: {rule} selects {count} of {of} {resource}{place}; `kubegc controller plan` shows them, and `kubegc \
             controller collect` deletes them"
        )
    };
    let more = paused.len().saturating_sub(SENTENCES);
    let more = (more > 0).then(|| format!("paused: {more} more"));
    paused.iter().take(SENTENCES).map(sentence).chain(more).collect()
}
