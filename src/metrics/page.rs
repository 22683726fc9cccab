//! The tables of `docs/metrics.md`.

use super::definitions::{AGENT, CONTROLLER, Definition};

/// Returns the tables, between the headings of the page.
pub fn page() -> String {
    format!("## Agent\n\n{}\n## Controller\n\n{}", table(AGENT), table(CONTROLLER))
}

fn table(definitions: &[Definition]) -> String {
    let rows: String = definitions.iter().map(row).collect();
    format!("| metric | type | labels | meaning |\n|---|---|---|---|\n{rows}")
}

fn row(definition: &Definition) -> String {
    let labels: Vec<_> = definition.labels.iter().map(|label| format!("`{label}`")).collect();
    let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
    format!("| `{}` | {} | {labels} | {} |\n", definition.sample(), definition.of.as_str(), definition.help)
}
