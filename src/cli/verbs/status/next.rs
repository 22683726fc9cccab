//! When the next passes are due, and why one is deferred.

use jiff::Timestamp;

use crate::cli::render::format;
use crate::plan::Scope;
use crate::serve::{AgentState, DeferredPass, PassState};

/// Formats when the next passes are due, as `containers in 40s, images in 4m`.
pub(super) fn text(live: &AgentState, now: Timestamp) -> String {
    let wait = |at: Timestamp| match at.duration_since(now).as_secs() {
        seconds if seconds > 0 => format!("in {}", format::age(seconds)),
        _ => "now".to_owned(),
    };
    let due = |(scope, pass): (&String, &PassState)| match pass.next_at {
        Some(at) => format!("{scope} {}", wait(at)),
        None => format!("{scope} deferred (back-off: the last pass failed)"),
    };
    let deferred = live.deferred.as_ref().filter(|deferred| deferred.until > now);
    // A pass over all was requested, and has no next one.
    let is_shown =
        |scope: &str| scope != Scope::All.as_str() && (deferred.is_none() || scope != Scope::Images.as_str());
    let scheduled = live.passes.iter().filter(|(scope, _)| is_shown(scope)).map(due);
    let deferred = deferred.map(|DeferredPass { until, why }| format!("images deferred, {} ({why})", wait(*until)));
    scheduled.chain(deferred).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_that_is_put_off_has_its_cause() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let pass = |next_at| PassState {
            ended_at: at(0),
            next_at,
            removed: 0,
            would_remove: 0,
            failed: 0,
            freed_bytes: 0,
            errors: Vec::new(),
        };
        let mut live = AgentState::new(at(0));
        live.passes.insert("all".to_owned(), pass(None));
        live.passes.insert("containers".to_owned(), pass(Some(at(60))));
        live.passes.insert("images".to_owned(), pass(None));
        assert_eq!(text(&live, at(0)), "containers in 60s, images deferred (back-off: the last pass failed)");
        // Under disk pressure there is a pass over images before the first one of the schedule.
        live.deferred = Some(DeferredPass { until: at(540), why: "images.pace: start 10m".to_owned() });
        assert_eq!(text(&live, at(60)), "containers now, images deferred, in 8m (images.pace: start 10m)");
        assert_eq!(text(&live, at(540)), "containers now, images deferred (back-off: the last pass failed)");
    }
}
