//! Reasons for people.

/// What `why` says of a reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The rule, as a sentence about the object.
    pub rule: String,
    /// The setting that decides, if one does.
    pub setting: Option<&'static str>,
    /// What would change the decision.
    pub change: String,
}
