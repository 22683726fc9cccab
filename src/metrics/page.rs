//! The tables of `docs/metrics.md`.

use super::definitions::{AGENT, CONTROLLER, Definition, PROCESS};

/// Returns the tables, between the headings of the page.
pub fn page() -> String {
    let [agent, controller, process] = [AGENT, CONTROLLER, PROCESS].map(table);
    format!("## Agent\n\n{agent}\n## Controller\n\n{controller}\n## Process\n\nOf both services:\n\n{process}")
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
