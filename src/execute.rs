//! Carries out a plan. The only room that destroys, and it chooses nothing.

mod outcome;

pub use outcome::{Outcome, Refusal, Report};
