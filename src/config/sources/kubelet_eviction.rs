//! The free space below which the kubelet evicts pods, from its configuration. It is no setting of kubegc: it is shown, and
//! forecasts use it.

use super::kubelet_config::KubeletFiles;
use crate::config::config_error::{ConfigFault, Origin};
use crate::plan::{EvictionLimits, FreeSpace};

/// The field in the kubelet's configuration.
const FIELD: &str = "evictionHard";

/// Returns the limits. As in the kubelet, a configuration that has some has no defaults, unless it wants them merged, and `null`
/// takes one back.
pub(super) fn of_kubelet(files: &mut KubeletFiles) -> EvictionLimits {
    let defaults = EvictionLimits::default();
    let Some(limits) = files.map(FIELD) else { return defaults };
    let merges = files.get("mergeDefaultEvictionSettings").is_some_and(|(_, merges)| merges.as_bool() == Some(true));
    let mut faults = Vec::new();
    let mut read = |signal, default: Option<FreeSpace>| {
        let Some((path, written)) = limits.get(signal) else { return default.filter(|_| merges) };
        let limit = written.as_str().and_then(free_space);
        if limit.is_none() {
            let (origin, key) = (Origin::File(path.to_path_buf(), None), format!("{FIELD}.{signal}"));
            faults.push(ConfigFault::of(
                origin,
                &key,
                written,
                "expected a percentage or a quantity, such as \"10%\" or \"5Gi\"",
            ));
        }
        limit
    };
    let limits = EvictionLimits {
        images: read("imagefs.available", defaults.images),
        node: read("nodefs.available", defaults.node),
    };
    files.faults.append(&mut faults);
    limits
}

/// Reads an amount of free space as the kubelet does: a percentage, or a quantity.
fn free_space(text: &str) -> Option<FreeSpace> {
    let Some(percent) = text.strip_suffix('%') else { return quantity(text).map(FreeSpace::Bytes) };
    let percent: f64 = percent.parse().ok().filter(|percent| (0.0..=100.0).contains(percent))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is at most a million")]
    Some(FreeSpace::Millionths((percent * 10_000.0).round() as u64))
}

/// Reads a quantity of bytes as Kubernetes writes it, without fraction and exponent.
fn quantity(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 8] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
    ];
    let unit = UNITS.into_iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)));
    let (number, bytes) = unit.unwrap_or((text, 1));
    number.parse::<u64>().ok()?.checked_mul(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(files: &[&str]) -> (EvictionLimits, Vec<String>) {
        let mut kubelet = KubeletFiles::default();
        for text in files {
            let header = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n";
            kubelet.add("k".as_ref(), &format!("{header}{text}"));
        }
        let limits = of_kubelet(&mut kubelet);
        (limits, kubelet.faults.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn limits_are_those_of_the_kubelet() {
        let of = |images, node| (EvictionLimits { images, node }, Vec::new());
        let percent = |percent: u64| Some(FreeSpace::Millionths(percent * 10_000));
        assert_eq!(limits(&[]), of(percent(15), percent(10)), "its defaults");
        assert_eq!(limits(&["evictionHard: {nodefs.available: 5%}"]), of(None, percent(5)), "no defaults are added");
        let later =
            ["evictionHard: {nodefs.available: 5%, imagefs.available: 12.5%}", "evictionHard: {nodefs.available: 2Gi}"];
        assert_eq!(limits(&later), of(Some(FreeSpace::Millionths(125_000)), Some(FreeSpace::Bytes(2 << 30))));
        let none = ["evictionHard: {nodefs.available: 5%}", "evictionHard: null"];
        assert_eq!(limits(&none), of(percent(15), percent(10)));
        assert_eq!(
            limits(&["evictionHard: {imagefs.available: 1000M}"]).0.images,
            Some(FreeSpace::Bytes(1_000_000_000))
        );
    }

    #[test]
    fn a_limit_that_the_kubelet_refuses_is_a_fault() {
        let faults = limits(&["evictionHard: {nodefs.available: much, imagefs.available: 120%}"]).1;
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[1].contains("nodefs.available") && faults[1].contains("\"10%\" or \"5Gi\""), "{faults:?}");
    }
}
