//! What a row is to reach.

/// The aim of a row.
#[derive(Clone, Copy, Debug)]
pub enum Aim {
    AtLeast(f64),
    AtMost(f64),
}

// === impl Aim ===

impl Aim {
    /// Returns a figure with the aim, and whether it is missed.
    pub fn text(self, figure: f64) -> String {
        let (is_met, words, aim) = match self {
            Self::AtLeast(aim) => (figure >= aim, "at least", aim),
            Self::AtMost(aim) => (figure <= aim, "at most", aim),
        };
        format!("{figure:.2} (aim: {words} {aim}{})", if is_met { "" } else { "; MISSED" })
    }
}
