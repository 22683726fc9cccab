//! The two text formats, and the sum of two texts.

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

    /// Returns the media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Converts `OpenMetrics` to the format of Prometheus. There the name of a counter has the suffix `_total` in its
/// description too, and there are no units and no end mark.
pub(super) fn prometheus(open_metrics: &str) -> String {
    let (mut lines, mut help) = (Vec::new(), None);
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').or(Some((rest, "")));
        } else if let Some((name, of)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let suffix = if of == "counter" { "_total" } else { "" };
            lines.extend(help.take().map(|(_, help)| format!("# HELP {name}{suffix} {help}")));
            lines.push(format!("# TYPE {name}{suffix} {of}"));
        } else if !line.starts_with('#') {
            lines.push(line.to_owned());
        }
    }
    text_of(&lines)
}

fn text_of(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

/// What becomes of the samples of an earlier text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Carry {
    /// The later text has the value alone.
    Replace,
    /// Both values are added.
    Add,
    /// The earlier value stays if the later text has none.
    Keep,
}

/// Adds the counters and histograms of an earlier text to a later one, both in the format of Prometheus. The time of the
/// last success stays until the next one. Other gauges are those of the later text.
pub(super) fn continued(earlier: &str, later: &str) -> String {
    let mut before = carried(earlier);
    let (mut lines, mut family) = (Vec::new(), None);
    for line in later.lines() {
        // A description begins the next family.
        if line.starts_with("# ") {
            lines.extend(leftover(&mut before, family.take()));
            family = family_of(line);
        }
        let sample = sample(line);
        let earlier = sample.and_then(|(series, _)| before.remove(series)).unwrap_or_default();
        lines.push(match (sample, family) {
            (Some((series, value)), Some((_, Carry::Add))) => format!("{series} {}", value + earlier),
            _ => line.to_owned(),
        });
    }
    lines.extend(leftover(&mut before, family));
    let kept = leftover(&mut before, Some((PASS_SUCCEEDED_AT.name, Carry::Keep)));
    if !kept.is_empty() {
        let (name, help) = (PASS_SUCCEEDED_AT.name, PASS_SUCCEEDED_AT.help);
        lines.extend([format!("# HELP {name} {help}."), format!("# TYPE {name} gauge")]);
        lines.extend(kept);
    }
    text_of(&lines)
}

/// Takes the samples of the earlier text that belong to a family and are not in the later text.
fn leftover(before: &mut BTreeMap<String, f64>, family: Option<(&str, Carry)>) -> Vec<String> {
    let is_of = |series: &str| {
        let rest = family.and_then(|(family, _)| series.strip_prefix(family));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['{', '_']))
    };
    before.extract_if(.., |series, _| is_of(series)).map(|(series, value)| format!("{series} {value}")).collect()
}

/// Returns the samples that do not end with their text.
fn carried(text: &str) -> BTreeMap<String, f64> {
    let (mut samples, mut family) = (BTreeMap::new(), None);
    for line in text.lines() {
        if line.starts_with("# ") {
            family = family_of(line);
        }
        let sample = sample(line).filter(|_| family.is_some_and(|(_, carry)| carry != Carry::Replace));
        samples.extend(sample.map(|(series, value)| (series.to_owned(), value)));
    }
    samples
}

/// Returns the name in the line of a type, and what becomes of its samples. `None` = another line.
fn family_of(line: &str) -> Option<(&str, Carry)> {
    let (name, of) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
    Some(match of {
        "counter" | "histogram" => (name, Carry::Add),
        _ if name == PASS_SUCCEEDED_AT.name => (name, Carry::Keep),
        _ => (name, Carry::Replace),
    })
}

/// Returns the series and the value of a sample; `None` = another line, or a value that is not finite.
fn sample(line: &str) -> Option<(&str, f64)> {
    let (series, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok().filter(|value: &f64| value.is_finite())?;
    (!line.starts_with('#')).then_some((series, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_has_its_suffix_in_the_description_too_and_there_is_no_end_mark() {
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
    fn a_series_that_did_not_change_this_time_stays_in_its_family() {
        let earlier = "# TYPE a_total counter\na_total{x=\"1\"} 1\na_total{x=\"2\"} 5\n";
        let later = "# TYPE a_total counter\na_total{x=\"1\"} 1\n# TYPE g gauge\ng 0\n";
        let sum = "# TYPE a_total counter\na_total{x=\"1\"} 2\na_total{x=\"2\"} 5\n# TYPE g gauge\ng 0\n";
        assert_eq!(continued(earlier, later), sum);
        let last = "# TYPE g gauge\ng 0\n# TYPE a_total counter\n";
        assert_eq!(continued(earlier, last), format!("{last}a_total{{x=\"1\"}} 1\na_total{{x=\"2\"}} 5\n"));
    }

    #[test]
    fn the_time_of_the_last_success_stays_until_the_next_one() {
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
    fn the_format_is_open_metrics_only_for_clients_that_name_it() {
        for (accept, format) in [
            (None, Exposition::Prometheus),
            (Some("*/*"), Exposition::Prometheus),
            (Some("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.1"), Exposition::OpenMetrics),
        ] {
            assert_eq!(Exposition::accepted(accept), format, "{accept:?}");
        }
    }
}
