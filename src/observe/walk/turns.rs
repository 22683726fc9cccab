//! Parts of a time: what one tenant has must not take the time of others (I22).

use tokio::time::Instant;

/// Whether two things are of the same group.
pub(in crate::observe) type Same<T> = fn(&T, &T) -> bool;

/// Returns until when one of so many that are left may take: each has the same part of the time until `end`.
pub fn turn(end: Instant, left: usize) -> Instant {
    let now = Instant::now();
    now + end.saturating_duration_since(now) / u32::try_from(left).unwrap_or(u32::MAX)
}

/// Does work on each of these things, which are sorted by their groups, and says until when it may take: each group has the same part of the
/// time, and in it each group of the next kind. What one does not need, those after it have.
pub(in crate::observe) fn in_turns<T>(
    things: &mut [T],
    end: Instant,
    groups: &[Same<T>],
    work: &mut impl FnMut(&mut T, Instant),
) {
    let Some((same, groups)) = groups.split_first() else {
        return things.iter_mut().for_each(|thing| work(thing, end));
    };
    let all = things.chunk_by(same).count();
    for (group, left) in things.chunk_by_mut(same).zip((1..=all).rev()) {
        in_turns(group, turn(end, left), groups, work);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::*;

    /// Lets time pass in a test whose clock is paused.
    fn pass(time: Duration) {
        let _ = tokio::time::advance(time).now_or_never();
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_namespace_takes_its_part_of_the_time_and_no_more() {
        let mut pods = [("a-slow", 1), ("a-slow", 2), ("a-slow", 3), ("shop", 1), ("shop", 2)];
        let groups: [Same<(&str, u32)>; 2] = [|one, other| one.0 == other.0, |one, other| one.1 == other.1];
        let (begun, mut parts) = (Instant::now(), Vec::new());
        in_turns(&mut pods, begun + Duration::from_secs(12), &groups, &mut |(namespace, _), until| {
            let part = until - Instant::now();
            parts.push(part.as_secs());
            pass(if *namespace == "shop" { Duration::from_secs(1) } else { part });
        });
        assert_eq!(parts, [2, 2, 2, 3, 5], "what one does not need, the next has");
        let mut late = Vec::new();
        in_turns(&mut pods, begun, &groups, &mut |pod, until| late.push((*pod, until <= Instant::now())));
        assert!(late.len() == 5 && late.iter().all(|(_, is_late)| *is_late), "each is named");
    }
}
