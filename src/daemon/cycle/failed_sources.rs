//! Names the pod sources that a pass could not use.

use crate::config::Settings;
use crate::model::{PodSourceName, PodSourceReport};
use crate::plan::Plan;

/// Returns why pod sources that the settings name, or that `auto` found, are unavailable, each with its address.
/// Without them no pod counts as deleted, so a command that says nothing would look as if nothing was to be removed.
pub fn failed_sources(plan: &Plan, settings: &Settings) -> Option<String> {
    let sources = &settings.pods.sources;
    if sources.contains(&PodSourceName::None) {
        return None;
    }
    let causes: Vec<_> = match plan.pods.result() {
        // The cause of `auto` says it itself.
        Err(cause) if sources.contains(&PodSourceName::Auto) => vec![cause.to_owned()],
        Err(cause) => {
            let names: Vec<&str> = sources.iter().map(Into::into).collect();
            vec![format!("pod source {}{} unavailable: {cause}", names.join(", "), address(&names, settings))]
        }
        Ok(known) => known.sources.iter().filter_map(|source| missing(source, settings)).collect(),
    };
    (!causes.is_empty()).then(|| format!("{}; no pod counts as deleted", causes.join("; ")))
}

fn missing(source: &PodSourceReport, settings: &Settings) -> Option<String> {
    let cause = source.missing.as_ref()?;
    Some(format!("pod source {}{} unavailable: {cause}", source.name, address(&[&source.name], settings)))
}

/// Returns the address of the kubelet, which its errors do not contain.
fn address(names: &[&str], settings: &Settings) -> String {
    let is_kubelet = names.contains(&<&str>::from(PodSourceName::Kubelet));
    if is_kubelet { format!(" ({})", settings.pods.kubelet.endpoint) } else { String::new() }
}
