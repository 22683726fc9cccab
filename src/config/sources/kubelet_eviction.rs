//! The free space below which the kubelet evicts pods, from its configuration. It is no setting of kubegc: it is shown, and
//! forecasts use it.

use super::kubelet_config::KubeletFiles;
use crate::config::config_error::{ConfigFault, Origin};
use crate::model::{EvictionLimits, FreeSpace};

/// The field in the kubelet's configuration.
const FIELD: &str = "evictionHard";
/// What a limit is.
const WANTED: &str = "expected a percentage or a quantity, such as \"10%\" or \"5Gi\"";

/// Returns the limits. As in the kubelet, a configuration that has some has no defaults, unless it wants them merged, and `null`
/// takes one back.
pub(super) fn of_kubelet(files: &mut KubeletFiles) -> EvictionLimits {
    let defaults = EvictionLimits::default();
    let limits = match files.map(FIELD, "expected a map of signals") {
        Ok(Some(limits)) => limits,
        Ok(None) => return defaults,
        Err(fault) => {
            files.faults.push(fault);
            return defaults;
        }
    };
    let merges = files.get("mergeDefaultEvictionSettings").is_some_and(|(_, merges)| merges.as_bool() == Some(true));
    let mut faults = Vec::new();
    let mut read = |signal, default: Option<FreeSpace>| {
        let Some((path, written)) = limits.get(signal) else { return default.filter(|_| merges) };
        written.as_str().ok_or(WANTED).and_then(free_space).unwrap_or_else(|wanted| {
            let (origin, key) = (Origin::File(path.to_path_buf(), None), format!("{FIELD}.{signal}"));
            faults.push(ConfigFault::of(origin, &key, written, wanted));
            None
        })
    };
    let limits = EvictionLimits {
        images: read("imagefs.available", defaults.images),
        node: read("nodefs.available", defaults.node),
    };
    files.faults.append(&mut faults);
    limits
}

/// Reads an amount of free space as the kubelet does: a percentage, or a quantity. With 0 % and 100 % there is no limit. The
/// error says what it wants instead.
fn free_space(text: &str) -> Result<Option<FreeSpace>, &'static str> {
    let Some(percent) = text.strip_suffix('%') else {
        return quantity(text).map(|bytes| Some(FreeSpace::Bytes(bytes))).ok_or(WANTED);
    };
    let percent: f64 = percent.parse().ok().filter(|percent| (0.0..=100.0).contains(percent)).ok_or(WANTED)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is at most a million")]
    let millionths = (percent * 10_000.0).round() as u64;
    Ok((1..1_000_000).contains(&millionths).then_some(FreeSpace::Millionths(millionths)))
}

/// Reads a quantity of bytes as Kubernetes writes it, as `1.5Gi`, `500M` or `2e9`, which is more than 0.
fn quantity(text: &str) -> Option<u64> {
    const UNITS: [(&str, f64); 15] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("Ei", 1_152_921_504_606_846_976.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
    ];
    let unit = UNITS.into_iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)));
    let (number, bytes) = unit.unwrap_or((text, 1.0));
    // Rust also reads `inf` and `nan`.
    let is_number = number.ends_with(|c: char| c.is_ascii_digit() || c == '.');
    let bytes = number.parse::<f64>().ok().filter(|number| is_number && *number > 0.0)? * bytes;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is above 0, and at most the largest number"
    )]
    Some(bytes.ceil() as u64)
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

    /// A configuration that the kubelet accepts does not keep kubegc from starting.
    #[test]
    fn each_form_of_a_limit_is_read() {
        let bytes = |bytes| Ok(Some(FreeSpace::Bytes(bytes)));
        for (text, limit) in [
            ("1.5Gi", bytes(3 << 29)),
            ("2e9", bytes(2_000_000_000)),
            ("1E", bytes(1_000_000_000_000_000_000)),
            ("1500m", bytes(2)),
            ("7", bytes(7)),
            ("0%", Ok(None)),
            ("100%", Ok(None)),
            ("0", Err(WANTED)),
            ("-1Gi", Err(WANTED)),
            ("inf", Err(WANTED)),
            ("Gi", Err(WANTED)),
            ("", Err(WANTED)),
        ] {
            assert_eq!(free_space(text), limit, "{text:?}");
        }
    }

    #[test]
    fn a_limit_that_the_kubelet_refuses_is_a_fault() {
        let faults = limits(&["evictionHard: {nodefs.available: much, imagefs.available: 120%}"]).1;
        assert_eq!(faults.len(), 2, "{faults:?}");
        let no_map = limits(&["evictionHard: [nodefs.available]"]);
        assert_eq!((no_map.0, no_map.1.len()), (EvictionLimits::default(), 1), "{:?}", no_map.1);
        assert!(no_map.1[0].contains("expected a map of signals"), "{:?}", no_map.1);
        assert!(faults[1].contains("nodefs.available") && faults[1].contains("\"10%\" or \"5Gi\""), "{faults:?}");
    }
}
