//! The order of the instances of one container, and of the sandboxes of one pod.
//!
//! The kubelet orders by creation time alone. A runtime may not know that time: containerd with an empty status file lists a
//! container that runs as UNKNOWN and created in 1970, and a clock may have gone back. So with the guard
//! `keep_newest_instance` the attempt number orders, which the kubelet counts up, and where a known creation time
//! disagrees about the newest, both are kept.

use jiff::Timestamp;

use crate::plan::policy::guards::Guards;

/// Sorts instances, oldest first.
pub(super) type Order<'a> = (u32, Timestamp, &'a str);

/// Returns where an instance is among those of its container or pod.
pub(super) fn order<'a>(guards: &Guards, attempt: u32, created_at: Timestamp, id: &'a str) -> Order<'a> {
    (if guards.keep_newest_instance { attempt } else { 0 }, created_at, id)
}

/// Returns the positions of the newest instance by attempt and, if its creation time is known, of a newer one by that time.
pub(super) fn newest<'a>(instances: impl Iterator<Item = Order<'a>> + Clone) -> [Option<usize>; 2] {
    let Some(((_, created_at, _), position)) = last(instances.clone()) else { return [None, None] };
    let by_time = last(instances.map(|(_, created_at, id)| (0, created_at, id)));
    let newer =
        by_time.filter(|((_, latest, _), _)| crate::plan::times::known(created_at).is_some() && *latest > created_at);
    [Some(position), newer.map(|(_, position)| position)]
}

fn last<'a>(instances: impl Iterator<Item = Order<'a>>) -> Option<(Order<'a>, usize)> {
    instances.enumerate().map(|(position, order)| (order, position)).max()
}
