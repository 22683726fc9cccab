//! The workers: what the graph names is checked with live reads, decided, and carried out.

pub(super) mod act;
pub(super) mod as_shown;
pub(super) mod check;
pub(super) mod decision;
pub(super) mod engine;
pub(super) mod holds;
pub(super) mod orphan;
pub(super) mod outcome;
pub(super) mod owner_states;
pub(super) mod queue;
pub(super) mod waiting;
pub(super) mod waves;
