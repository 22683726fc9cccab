//! What is wrong with an expression, or doubtful in it.

use std::fmt;

/// A fault of an expression, or a doubt about it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    /// Line and column in the expression, from 1; `None` = the expression as a whole.
    pub at: Option<(usize, usize)>,
    /// What is wrong.
    pub what: String,
}

// === impl Fault ===

impl From<String> for Fault {
    fn from(what: String) -> Self {
        Self { at: None, what }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.at.map_or(Ok(()), |(line, column)| write!(f, "{line}:{column}: "))?;
        f.write_str(&self.what)
    }
}
