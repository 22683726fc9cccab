//! The two text formats, and the sum of two texts.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::definitions::PASS_SUCCEEDED_AT;

/// A text format for metrics.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exposition {
    /// `OpenMetrics` 1.0, which ends with `# EOF`.
    OpenMetrics,
    /// The text format of Prometheus, version 0.0.4, also that of `node_exporter`'s textfile collector.
    Prometheus,
}

// === impl Exposition ===

impl Exposition {
    /// Returns the format that a client wants, by its header `Accept`.
    pub fn accepted(accept: Option<&str>) -> Self {
        let wants = accept.is_some_and(|accept| accept.contains("application/openmetrics-text"));
        if wants { Self::OpenMetrics } else { Self::Prometheus }
    }

    pub fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// A metric in a text: its description and its samples.
struct Family<'a> {
    name: Cow<'a, str>,
    of: &'a str,
    help: Option<&'a str>,
    /// Series and value.
    samples: Vec<(&'a str, Cow<'a, str>)>,
}

/// Converts `OpenMetrics` to the format of Prometheus. There the name of a counter has the suffix `_total` in its
/// description too, and there are no units and no end mark.
pub(super) fn prometheus(open_metrics: &str) -> String {
    let mut families = families(open_metrics);
    for family in families.iter_mut().filter(|family| family.of == "counter") {
        family.name += "_total";
    }
    text_of(&families)
}

/// Adds the counters and histograms of an earlier text to a later one, both in the format of Prometheus. The time of the
/// last success stays until the next one. Other gauges are those of the later text.
pub(super) fn continued(earlier: &str, later: &str) -> String {
    let mut before: BTreeMap<_, _> =
        families(earlier).into_iter().map(|family| (family.name.clone(), family)).collect();
    let mut families = families(later);
    for family in &mut families {
        if let Some(known) = before.remove(&family.name) {
            family.continue_from(known);
        }
    }
    families.extend(before.remove(PASS_SUCCEEDED_AT.name));
    text_of(&families)
}

/// Reads a text. Lines that belong to no metric are left out.
fn families(text: &str) -> Vec<Family<'_>> {
    let (mut families, mut described) = (Vec::<Family>::new(), None);
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            described = rest.split_once(' ').map(|(_, help)| help);
        } else if let Some((name, of)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            families.push(Family { name: name.into(), of, help: described.take(), samples: Vec::new() });
        } else if let (Some(family), Some((series, value)), false) =
            (families.last_mut(), line.rsplit_once(' '), line.starts_with('#'))
        {
            family.samples.push((series, value.into()));
        }
    }
    families
}

fn text_of(families: &[Family]) -> String {
    let mut text = String::new();
    for Family { name, of, help, samples } in families {
        text.extend(help.map(|help| format!("# HELP {name} {help}\n")));
        text.extend([format!("# TYPE {name} {of}\n")]);
        text.extend(samples.iter().map(|(series, value)| format!("{series} {value}\n")));
    }
    text
}

// === impl Family ===

impl Family<'_> {
    /// Adds the samples of an earlier text: their values where the metric counts, and the series that it lacks. A value that
    /// is not a finite number is left out.
    fn continue_from(&mut self, earlier: Self) {
        let counts = matches!(self.of, "counter" | "histogram");
        if !counts && self.name != PASS_SUCCEEDED_AT.name {
            return;
        }
        let number = |value: &str| value.parse().ok().filter(|value: &f64| value.is_finite());
        for (series, before) in earlier.samples {
            let Some(added) = number(&before) else { continue };
            match self.samples.iter_mut().find(|(known, _)| *known == series) {
                Some((_, value)) if counts => {
                    *value = number(value).map_or_else(|| value.clone(), |now| (now + added).to_string().into());
                }
                Some(_) => {}
                None => self.samples.push((series, before)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_has_its_suffix_in_the_description() {
        let open = "# HELP a A.\n# TYPE a counter\n# UNIT a seconds\na_total{x=\"# y\"} 1\n# HELP b B.\n# TYPE b gauge\nb 2\n# EOF\n";
        let text =
            "# HELP a_total A.\n# TYPE a_total counter\na_total{x=\"# y\"} 1\n# HELP b B.\n# TYPE b gauge\nb 2\n";
        assert_eq!(prometheus(open), text);
    }

    #[test]
    fn counters_and_histograms_continue_and_gauges_do_not() {
        let text = |a: f64, h: f64, g: f64| {
            format!(
                "# TYPE a_total counter\na_total{{x=\"1\"}} {a}\n# TYPE g gauge\ng {g}\n\
                 # TYPE h histogram\nh_sum {h}\nh_bucket{{le=\"+Inf\"}} {h}\n"
            )
        };
        assert_eq!(continued(&text(1.0, 2.5, 7.0), &text(2.0, 3.0, 1.0)), text(3.0, 5.5, 1.0));
        assert_eq!(continued("", &text(2.0, 3.0, 1.0)), text(2.0, 3.0, 1.0));
        assert_eq!(continued("no metrics\n# TYPE a_total\na_total NaN", &text(2.0, 3.0, 1.0)), text(2.0, 3.0, 1.0));
    }

    #[test]
    fn an_unchanged_series_is_kept_in_its_family() {
        let earlier = "# TYPE a_total counter\na_total{x=\"1\"} 1\na_total{x=\"2\"} 5\n";
        let later = "# TYPE a_total counter\na_total{x=\"1\"} 1\n# TYPE g gauge\ng 0\n";
        let sum = "# TYPE a_total counter\na_total{x=\"1\"} 2\na_total{x=\"2\"} 5\n# TYPE g gauge\ng 0\n";
        assert_eq!(continued(earlier, later), sum);
        let last = "# TYPE g gauge\ng 0\n# TYPE a_total counter\n";
        assert_eq!(continued(earlier, last), format!("{last}a_total{{x=\"1\"}} 1\na_total{{x=\"2\"}} 5\n"));
    }

    #[test]
    fn the_last_success_time_is_kept_until_replaced() {
        let success = |samples: &str| {
            let (name, help) = (PASS_SUCCEEDED_AT.name, PASS_SUCCEEDED_AT.help);
            format!("# HELP {name} {help}.\n# TYPE {name} gauge\n{}", samples.replace("AT", name))
        };
        let (one, two) = (success("AT{scope=\"all\"} 1\n"), success("AT{scope=\"all\"} 2\n"));
        assert_eq!(continued(&one, &two), two);
        assert_eq!(continued(&one, "# TYPE g gauge\ng 0\n"), format!("# TYPE g gauge\ng 0\n{one}"));
        let images = success("AT{scope=\"images\"} 3\n");
        assert_eq!(continued(&one, &images), success("AT{scope=\"images\"} 3\nAT{scope=\"all\"} 1\n"));
    }

    #[test]
    fn only_clients_that_name_open_metrics_receive_it() {
        for (accept, format) in [
            (None, Exposition::Prometheus),
            (Some("*/*"), Exposition::Prometheus),
            (Some("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.1"), Exposition::OpenMetrics),
        ] {
            assert_eq!(Exposition::accepted(accept), format, "{accept:?}");
        }
    }
}
