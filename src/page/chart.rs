//! Charts as inline SVG. Each stretches to the width of the page and has no text of its own: labels are HTML beside it,
//! so that they are readable at any width. A chart has a description in words for those who cannot see it.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use maud::{Markup, html};

/// Units of the drawing area.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 100.0;

/// A pass, shown at its time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mark {
    pub(super) at: Timestamp,
    /// `removed`, `failed` or `empty`.
    pub(super) class: &'static str,
    /// The height of the mark, of 100.
    pub(super) height: f64,
    pub(super) text: String,
}

/// The span of time that a chart shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
}

// === impl Span ===

impl Span {
    fn x(self, at: Timestamp) -> f64 {
        let all = self.to.duration_since(self.from).as_secs_f64().max(1.0);
        (at.duration_since(self.from).as_secs_f64() / all).clamp(0.0, 1.0) * WIDTH
    }
}

/// Draws values over time as a line, with levels across and passes as marks, all in percent. A level has a class. `scale` has
/// what 100, 50 and 0 percent are. `description` says it in words.
pub(super) fn line(
    span: Span,
    points: &[(Timestamp, f64)],
    levels: &[(&str, u64)],
    marks: &[Mark],
    (scale, description): ([String; 3], &str),
) -> Markup {
    let y = |percent: f64| HEIGHT - percent.clamp(0.0, 100.0);
    let mut path = String::new();
    for (number, (at, percent)) in points.iter().enumerate() {
        let command = if number == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1} {:.1}", span.x(*at), y(*percent));
    }
    if points.len() == 1 {
        path += "h-6"; // one sample is at the right edge, so its line goes to the left
    }
    html! {
        div.plot {
            div.scale aria-hidden="true" { @for value in scale { span { (value) } } }
            svg.chart role="img" aria-label=(description) viewBox=(view()) preserveAspectRatio="none" {
            @for (class, level) in levels {
                @let at = y(percent(*level));
                line class=(class) x1="0" x2=(WIDTH) y1=(at) y2=(at) {}
            }
            @for mark in marks {
                @let at = format!("{:.1}", span.x(mark.at));
                line class={ "pass " (mark.class) } x1=(at) x2=(at) y1=(HEIGHT - mark.height) y2=(HEIGHT) {
                    title { (mark.text) }
                }
            }
            path.usage d=(path) {}
            }
        }
        div.axis { span { (time(span.from)) } span { (time(span.to)) } }
    }
}

/// Draws a part of a whole as a bar.
pub(super) fn bar(part: u64, all: u64) -> Markup {
    html! {
        svg.part role="img" aria-label=(format!("{:.0} %", share(part, all) * 100.0)) viewBox=(view()) preserveAspectRatio="none" {
            rect.bar width=(format!("{:.1}", share(part, all) * WIDTH)) height=(HEIGHT) {}
        }
    }
}

/// Draws a bar for each day. The highest bar has the full height.
pub(super) fn bars(days: &[(Date, u64)], label: impl Fn(u64) -> String, description: &str) -> Markup {
    let highest = days.iter().map(|(_, value)| *value).max().unwrap_or_default().max(1);
    let count = u32::try_from(days.len().max(1)).unwrap_or(u32::MAX);
    let width = WIDTH / f64::from(count);
    html! {
        svg.chart role="img" aria-label=(description) viewBox=(view()) preserveAspectRatio="none" {
            @for (number, (day, value)) in (0_u32..).zip(days) {
                @let height = share(*value, highest) * HEIGHT;
                rect.bar x=(format!("{:.1}", f64::from(number) * width + width * 0.1)) width=(format!("{:.1}", width * 0.8))
                    y=(format!("{:.1}", HEIGHT - height)) height=(format!("{height:.1}")) {
                    title { (day) ": " (label(*value)) }
                }
            }
        }
        @if let (Some((first, _)), Some((last, _))) = (days.first(), days.last()) {
            div.axis { span { (first) } span { (last) } }
        }
    }
}

fn view() -> String {
    format!("0 0 {WIDTH} {HEIGHT}")
}

/// Returns a percentage as a number of the drawing.
#[expect(clippy::cast_precision_loss, reason = "percentages are small")]
pub(super) fn percent(percent: u64) -> f64 {
    percent as f64
}

/// Returns which part of a number another one is, from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "a pixel more or less")]
pub(super) fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

/// Returns a time for people, in UTC.
pub(super) fn time(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M UTC").to_string()
}
