//! The log and the counters of passes and outcomes.

pub(super) mod outcome_log;
pub(super) mod pass_log;
pub(super) mod reason_values;
