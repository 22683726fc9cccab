//! Carries out a plan. The only room that destroys, and it chooses nothing.

mod logs;
mod outcome;

pub use logs::{Erased, LogError, LogRoots};
pub use outcome::{Outcome, Refusal, Report};
