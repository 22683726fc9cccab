//! What a pass removes from a node, as `docs/safety-guards.md`, `docs/pod-sources.md` and the kubelet 1.36 state it, object by object.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kubegc_core::model::ContainerState::{Created, Running, Unknown};
use kubegc_core::model::{Confirms, Container, Image, Phase, PodRef, Sandbox, SandboxState, Seen, Snapshot};
use kubegc_core::plan::Policy;

pub struct Node<'a> {
    pub seen: &'a Snapshot,
    pub policy: &'a Policy,
    pub is_safe: bool,
}

/// The ids of what is removed, with the reasons.
pub type Removals = Vec<(String, &'static str)>;

impl Node<'_> {
    fn containers(&self) -> impl Iterator<Item = &Container> {
        self.seen.containers.as_ref().into_iter().flatten()
    }

    fn sandboxes(&self) -> impl Iterator<Item = &Sandbox> {
        self.seen.sandboxes.as_ref().into_iter().flatten()
    }

    /// In seconds; `None` = the runtime does not know it.
    fn age(&self, at: Timestamp) -> Option<i64> {
        (at != Timestamp::UNIX_EPOCH).then(|| self.seen.taken_at.duration_since(at).as_secs())
    }

    /// The runtime has just started, so its lists may lack something.
    fn is_doubtful(&self) -> bool {
        !matches!(self.seen.listening_since, Seen::Seen(since) if since.is_none_or(|since| self.age(since) >= Some(60)))
    }

    /// Why all that is dead of a pod is removed. `Err(true)` = a guard keeps it; `Err(false)` = the limits decide.
    fn of_pod(&self, pod: Option<&PodRef>, needs_all: bool) -> Result<&'static str, bool> {
        let (list, no_pod) = (self.seen.pods.as_ref().ok_or(false)?, PodRef::default());
        let pod = pod.unwrap_or(&no_pod);
        let is_of = |of: &Option<PodRef>| of.as_ref().is_some_and(|of| of.uid == pod.uid);
        let runs = self.containers().any(|it| it.state == Running && is_of(&it.pod))
            || self.sandboxes().any(|it| it.state == SandboxState::Ready && is_of(&it.pod));
        let listed = list.pods.iter().find(|it| it.uid == pod.uid);
        let (is_removed, reason, is_guarded) = if let Some(listed) = listed {
            let is_terminated = listed.name == pod.name && matches!(listed.phase, Phase::Succeeded | Phase::Failed);
            let evicts = self.policy.containers.evict_terminated_pods && (list.complete || !needs_all);
            (evicts && is_terminated, "pod_terminal", false)
        } else {
            let mut absent = self.seen.memory.absent_since.iter().filter(|it| it.uid == pod.uid);
            let is_past = absent.any(|it| self.age(it.since) >= Some(60));
            let may_have_dir = self.seen.pod_dirs.as_ref().is_none_or(|dirs| dirs.contains(&pod.uid));
            let has_no_name = list.confirms == Confirms::ByName && pod.name.is_empty();
            (list.complete || !self.is_safe && !needs_all, "pod_deleted", !is_past || may_have_dir || has_no_name)
        };
        let is_kept = self.is_safe && (runs || is_guarded || self.is_doubtful());
        if is_removed && !is_kept { Ok(reason) } else { Err(is_removed) }
    }

    pub fn removed_objects(&self) -> Removals {
        let containers = self.removed_containers();
        let of = |it: &Sandbox| Some((it.id.to_string(), self.why_sandbox(it, &containers)?));
        let sandboxes = self.sandboxes().filter_map(of).filter(|_| self.seen.containers.is_seen());
        containers.iter().cloned().chain(sandboxes).collect()
    }

    /// Those over the limit of each slot, and those over the limit of the node, toward which those that a guard keeps do not count.
    fn removed_containers(&self) -> Removals {
        let (mut removed, mut slots, mut counted) =
            (Removals::new(), BTreeMap::<_, Vec<&Container>>::new(), Vec::new());
        for it in self.containers().filter(|it| self.is_candidate(it)) {
            slots.entry((&it.pod, &it.name)).or_default().push(it);
        }
        let limits = [self.policy.containers.max_per_pod_container, self.policy.containers.max_containers];
        let [of_slot, of_node] = limits.map(|limit| limit.map_or(usize::MAX, |limit| limit as usize));
        for ((pod, _), mut slot) in slots {
            let of_pod = self.of_pod(pod.as_ref(), true);
            let (limit, reason) = of_pod.map_or((of_slot, "over_max_per_pod_container"), |reason| (0, reason));
            removed.extend(self.over(limit, &mut slot, reason));
            counted.extend(Some(slot).filter(|slot| !slot.is_empty() && of_pod == Err(false)));
        }
        if counted.iter().flatten().count() > of_node {
            let share = (of_node / counted.len()).max(1);
            removed.extend(counted.iter_mut().flat_map(|slot| self.over(share, slot, "over_total_limit")));
            removed.extend(self.over(of_node, &mut counted.concat(), "over_total_limit"));
        }
        removed
    }

    /// A dead container that is old enough, and that no guard for containers keeps.
    fn is_candidate(&self, it: &Container) -> bool {
        let (age, min_age) = (self.age(it.created_at), self.policy.containers.min_age.as_secs().cast_signed());
        let is_stopped = |of: &Sandbox| of.id == it.sandbox_id && of.state == SandboxState::NotReady;
        let may_start = it.state == Created && age.unwrap_or(0) < 600;
        let may_run = it.state == Unknown && !self.sandboxes().any(is_stopped);
        let is_guarded = it.pod.is_none() || may_start || may_run || age.is_none() && min_age > 0;
        it.state != Running && age.is_none_or(|age| age >= min_age) && !(self.is_safe && is_guarded)
    }

    /// Takes the oldest over a limit from a list. To the kubelet an unknown age is great, and it neither knows attempts nor keeps the newest.
    fn over(&self, limit: usize, list: &mut Vec<&Container>, reason: &'static str) -> Removals {
        let is_young = |it: &Container| self.is_safe && self.age(it.created_at).is_none();
        let attempt = |it: &Container| if self.is_safe { it.attempt } else { 0 };
        list.sort_by_key(|it| (is_young(it), it.created_at, attempt(it), it.id.to_string()));
        let over = list.drain(..list.len().saturating_sub(limit)).filter(|it| {
            let slot = self.containers().filter(|one| (&one.pod, &one.name) == (&it.pod, &it.name));
            let is_newest =
                self.is_newest(it.id.as_str(), slot.map(|one| (one.attempt, one.created_at, one.id.as_str())));
            !self.is_safe || reason.starts_with("pod") || !is_newest
        });
        over.map(|it| (it.id.to_string(), reason)).collect()
    }

    /// The newest by attempt and, where the creation of that one is known, one that was created later. To the kubelet the latter alone.
    fn is_newest<'i>(&self, id: &str, all: impl Iterator<Item = (u32, Timestamp, &'i str)>) -> bool {
        let all: Vec<_> = all.collect();
        let latest = *all.iter().max_by_key(|(_, created, id)| (*created, *id)).unwrap();
        let by_attempt = *all.iter().max().unwrap();
        let is_later = self.age(by_attempt.1).is_some() && latest.1 > by_attempt.1;
        id == by_attempt.2 && self.is_safe || id == latest.2 && (is_later || !self.is_safe)
    }

    /// A sandbox without containers of a pod without a future, or one that a newer one replaces.
    fn why_sandbox(&self, it: &Sandbox, removed: &Removals) -> Option<&'static str> {
        let has = |one: &Container| one.sandbox_id == it.id && removed.iter().all(|(id, _)| *id != one.id.as_str());
        let is_young = self.age(it.created_at).unwrap_or(0) < 60;
        let is_guarded = self.is_safe && (it.pod.is_none() || is_young || self.is_doubtful());
        if it.state == SandboxState::Ready || is_guarded || self.containers().any(has) {
            return None;
        }
        let of_pod = self.sandboxes().filter(|one| one.pod == it.pod);
        let is_newest =
            self.is_newest(it.id.as_str(), of_pod.map(|one| (one.attempt, one.created_at, one.id.as_str())));
        self.of_pod(it.pod.as_ref(), false).ok().or_else(|| (!is_newest).then_some("superseded"))
    }

    /// In order: the least recently used first, of the same use the one that is known for the longest time.
    pub fn removed_images(&self) -> Removals {
        let (seen, limits) = (self.seen, &self.policy.images);
        let is_blind = !seen.containers.is_seen() || !seen.image_uses.is_seen();
        if is_blind || self.is_safe && (self.is_doubtful() || !seen.sandbox_image.is_seen()) {
            return Vec::new();
        }
        // When an image was used last and seen first. `None` = never, and before the memory began.
        let past = |it: &Image| seen.memory.images.iter().find(|past| past.id == it.id);
        let history = |it| past(it).map_or((None, Some(seen.taken_at)), |past| (past.last_used, past.first_seen));
        let unused = seen.images.as_ref().into_iter().flatten().filter(|it| !self.is_needed(it));
        let mut unused: Vec<_> = unused.map(|it| (history(it), it.id.as_str(), it.size_bytes)).collect();
        unused.sort();
        let min_age = limits.min_age.as_secs().cast_signed();
        let is_young = |known: Option<Timestamp>| known.is_some_and(|at| self.age(at) < Some(min_age));
        let (old, mut rest): (Vec<_>, Vec<_>) = unused
            .into_iter()
            .partition(|((used, known), ..)| self.is_too_old(*used, *known) && !(self.is_safe && is_young(*known)));
        rest.retain(|((used, known), ..)| !is_young(*known) && used.is_none_or(|at| at < seen.taken_at));
        let all = limits.all_unused.then_some((rest.len(), "unused"));
        let for_space = || (self.needed_for_space(rest.iter().map(|(_, _, size)| *size)), "space");
        let (count, reason) = all.unwrap_or_else(for_space);
        let all = old.iter().map(|it| (it, "age")).chain(rest[..count].iter().map(|it| (it, reason)));
        all.map(|((_, id, _), reason)| ((*id).to_owned(), reason)).collect()
    }

    /// What keeps an image, whatever the disk usage is. The kubelet compares ids alone.
    fn is_needed(&self, image: &Image) -> bool {
        let has = |name: &String| {
            image.id.as_str() == name || self.is_safe && (image.tags.contains(name) || image.digests.contains(name))
        };
        let pods = self.seen.pods.as_ref().into_iter().flat_map(|list| &list.pods);
        let is_evicted =
            |phase| self.policy.containers.evict_terminated_pods && matches!(phase, Phase::Succeeded | Phase::Failed);
        let in_pods = pods.filter(|pod| !is_evicted(pod.phase)).flat_map(|pod| &pod.images);
        let pause = self.seen.sandbox_image.as_ref().into_iter().flatten();
        image.pinned
            || self.containers().any(|it| it.image_id.iter().chain(&it.image).chain(&it.image_volumes).any(has))
            || image.tags.iter().any(|tag| self.policy.images.keep.iter().any(|keep| keep.as_str() == tag))
            || self.is_safe && in_pods.chain(pause).any(has)
    }

    /// To the kubelet an image that was never used is too old, however new it is, but it waits for the maximum age after its start.
    fn is_too_old(&self, used: Option<Timestamp>, known: Option<Timestamp>) -> bool {
        let max_age = self.policy.images.max_age.as_secs().cast_signed();
        let is_over = |at: Timestamp| self.age(at) > Some(max_age);
        let unused_since = if self.is_safe { used.max(known) } else { used };
        let may_judge = self.is_safe || self.seen.memory.agent_started_at.is_some_and(is_over);
        max_age > 0 && !self.policy.images.all_unused && may_judge && unused_since.is_none_or(is_over)
    }

    /// How many, from the high threshold down to the low one, by the sizes that the runtime reports. The kubelet removes one before it compares.
    fn needed_for_space(&self, sizes: impl Iterator<Item = u64>) -> usize {
        let (high, low) = (self.policy.images.high_threshold_percent, self.policy.images.low_threshold_percent);
        let is_off = high == 100 && self.policy.images.max_age.is_zero();
        let disk = self.seen.image_filesystem.as_ref().filter(|disk| disk.capacity_bytes > 0 && !is_off);
        let Some((all, available)) = disk.map(|disk| (disk.capacity_bytes, disk.available_bytes)) else { return 0 };
        let mut free = available.min(all);
        let is_full = 100 - free * 100 / all >= high;
        let is_needed = |(place, size)| {
            let is_short = free < all * (100 - low) / 100 || !self.is_safe && place == 0;
            free += size;
            is_full && is_short
        };
        (0..).zip(sizes).map(is_needed).take_while(|is_needed| *is_needed).count()
    }
}
