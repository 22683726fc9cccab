//! The fewest bytes that any rules could pull again.
//!
//! To find the best removals of images of different sizes is hard. This is a lower bound of it, the relaxation PFOO-L of
//! D. S. Berger, N. Beckmann and M. Harchol-Balter, "Practical Bounds on Optimal Caching with Variable Object Sizes", Proc. ACM
//! Meas. Anal. Comput. Syst. 2 (2), 2018: to keep an image from one use to the next takes its size for that time, and all of these
//! together take no more than the disk has. The bytes that a byte kept for a time saves are most for the shortest times, so those
//! are kept first. It holds for all rules that keep the disk at or below the limit.

use jiff::Timestamp;

use super::replay::Ruler;
use super::world::World;
use crate::model::{DiskSample, ImageEvent, Trace, TraceEvent};

/// The time of an image between two uses.
struct Idle {
    seconds: u128,
    bytes: u128,
}

/// Returns a lower bound for the bytes that are pulled again if the disk is never above `limit_percent`.
pub fn fewest_bytes_pulled_again(trace: &Trace, ruler: &Ruler, limit_percent: u64) -> u64 {
    let mut space = space(trace, ruler, limit_percent);
    let mut idle = idle(trace, ruler);
    idle.sort_unstable_by_key(|idle| idle.seconds);
    let mut again = 0;
    for Idle { seconds, bytes } in idle {
        let needed = seconds.saturating_mul(bytes);
        let kept = needed.min(space);
        space -= kept;
        again += bytes - kept.checked_div(seconds).unwrap_or(bytes).min(bytes);
    }
    u64::try_from(again).unwrap_or(u64::MAX)
}

/// Returns the room for images that are not in use, in bytes times seconds.
fn space(trace: &Trace, ruler: &Ruler, limit_percent: u64) -> u128 {
    let mut world = World::at(trace, ruler.since);
    let mut events = trace.events.iter().skip_while(|event| event.at < ruler.since).peekable();
    let samples = trace.disk.iter().filter(|sample| (ruler.since..=ruler.until).contains(&sample.at));
    let (mut space, mut last): (u128, Option<(Timestamp, u128)>) = (0, None);
    for sample in samples {
        if let Some((at, room)) = last {
            space += room * seconds(at, sample.at);
        }
        while let Some(event) = events.next_if(|event| event.is_seen_at(sample.at)) {
            world.apply(event);
        }
        last = Some((sample.at, room(&world, sample, limit_percent)));
    }
    space
}

/// Returns the bytes that unused images may have at a pass.
fn room(world: &World, sample: &DiskSample, limit_percent: u64) -> u128 {
    let limit = i128::from(sample.file_system.capacity_bytes) * i128::from(limit_percent) / 100;
    u128::try_from(limit - world.bytes_of_others(sample) - i128::from(world.needed_bytes())).unwrap_or_default()
}

/// Returns the times between two uses of each image, as they would be if nothing were removed.
fn idle(trace: &Trace, ruler: &Ruler) -> Vec<Idle> {
    let mut since: Vec<Option<Timestamp>> = vec![None; trace.images.len()];
    let mut idle = Vec::new();
    for TraceEvent { at, image, event } in &trace.events {
        let (Some(since), Some(of)) = (since.get_mut(*image), trace.images.get(*image)) else { continue };
        if *at >= ruler.until {
            break;
        }
        let is_needed = matches!(event, ImageEvent::Appeared | ImageEvent::Used);
        if let Some(from) = since.filter(|_| is_needed && *at >= ruler.since && !of.image.pinned) {
            idle.push(Idle { seconds: seconds(from.max(ruler.since), *at), bytes: of.bytes().into() });
        }
        match event {
            ImageEvent::Appeared | ImageEvent::LastUsed => *since = Some(*at),
            ImageEvent::Used | ImageEvent::Removed => *since = None,
            ImageEvent::Collected => {} // it could have been kept
        }
    }
    idle
}

fn seconds(from: Timestamp, until: Timestamp) -> u128 {
    u128::try_from(until.duration_since(from).as_secs()).unwrap_or_default()
}
