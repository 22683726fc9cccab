//! Formats sizes and ages for display. Documents have bytes and seconds instead.

use jiff::Timestamp;

use crate::model::Seen;
pub(in crate::cli) use crate::model::{
    age_text as age, count_text as count, printable_text as printable, size_text as size,
};

/// Formats that an image was pulled again after its removal: `pulled again after 3h (1.2GiB)`.
pub(in crate::cli) fn pulled_again(removed_at: Timestamp, at: Timestamp, bytes: Option<u64>) -> String {
    let bytes = bytes.map(|bytes| format!(" ({})", size(bytes))).unwrap_or_default();
    format!("pulled again after {}{bytes}", age(at.duration_since(removed_at).as_secs()))
}

/// Joins things: `a, b and c`.
pub(in crate::cli) fn list(things: &[String]) -> String {
    match things {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Shortens text to at most `width` characters. It leaves out the middle, because both ends distinguish names.
fn middle(text: &str, width: usize) -> String {
    ends(text, width, width / 2)
}

/// Shortens text to at most `width` characters, of which `head` are its first ones.
fn ends(text: &str, width: usize, head: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let first: String = text.chars().take(head).collect();
    let last: String = text.chars().skip(length + 1 + head - width).collect();
    format!("{first}…{last}")
}

/// Formats lines of a name and a value, with the values in one column. A line without a value is left out.
pub(in crate::cli) fn fields<N: AsRef<str>>(fields: &[(N, String)]) -> String {
    let width = fields.iter().map(|(name, _)| name.as_ref().chars().count() + 2).max().unwrap_or_default();
    let shown = fields.iter().filter(|(_, value)| !value.is_empty());
    let line = |(name, value): &(N, String)| format!("{:<width$}{}\n", format!("{}:", name.as_ref()), printable(value));
    shown.map(line).collect()
}

/// Formats a value, or a word and why it is unavailable.
pub(in crate::cli) fn seen<T>(seen: &Seen<T>, word: &str, text: impl FnOnce(&T) -> String) -> String {
    seen.result().map_or_else(|cause| format!("{word}: {cause}"), text)
}

/// Shortens an id to its beginning, without the name of its hash: that is enough for every command.
pub(super) fn id(text: &str, width: usize) -> String {
    text.strip_prefix("sha256:").unwrap_or(text).chars().take(width).collect()
}

/// Shortens a name to at most `width` characters. Each part between slashes keeps both ends, and short parts are whole:
/// of `namespace/pod/container` every part can be recognized. A kind before the name stays, as in `image app:1`. A path has no
/// directories then: most paths differ at their ends.
pub(in crate::cli) fn name(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    if let Some((_, file)) = text.rsplit_once('/').filter(|_| text.starts_with('/')) {
        return name(&format!("…/{file}"), width);
    }
    if let Some((kind, name_of)) = text.split_once(' ').filter(|(kind, _)| kind.chars().all(|c| c.is_ascii_lowercase()))
    {
        return format!("{kind} {}", name(name_of, width.saturating_sub(kind.len() + 1)));
    }
    let shorter = if text.contains(", ") { parts(text, ", ", width, name) } else { image(text, width) };
    shorter.or_else(|| parts(text, "/", width, part)).unwrap_or_else(|| part(text, width))
}

/// Shortens the parts of a text, the longest first. `None` = a part would have less than 2 characters.
fn parts(text: &str, gap: &str, width: usize, shorten: fn(&str, usize) -> String) -> Option<String> {
    let parts: Vec<_> = text.split(gap).collect();
    let letters = width.saturating_sub((parts.len() - 1) * gap.len());
    let lengths: Vec<_> = parts.iter().map(|part| part.chars().count()).collect();
    let shorter = || parts.iter().zip(shares(&lengths, letters)).map(|(part, width)| shorten(part, width));
    (letters >= 2 * parts.len()).then(|| shorter().collect::<Vec<_>>().join(gap))
}

/// Shortens a part of a name by its middle, or a digest by its end.
fn part(text: &str, width: usize) -> String {
    if text.contains("sha256:") { end(text, width) } else { middle(text, width) }
}

/// Shortens the name of an image to at most `width` characters: first by its registry, as `…/team/app:5`. The end of the path and the tag
/// say most about it. `None` = it has no registry, or there is no room for both.
fn image(text: &str, width: usize) -> Option<String> {
    /// The characters of `@sha256:` and 13 digits.
    const DIGEST: usize = 22;
    let (registry, rest) = text.split_once('/').filter(|(registry, _)| registry.contains(['.', ':']))?;
    let (path, tag) = text.split_at(registry.len() + 1 + rest.find([':', '@']).unwrap_or(rest.len()));
    let tag = if tag.starts_with('@') { end(tag, DIGEST) } else { tag.to_owned() };
    let without_first = path.match_indices('/').filter_map(|(at, _)| Some(format!("…{}{tag}", path.get(at..)?)));
    let mut shorter = std::iter::once(format!("{path}{tag}")).chain(without_first);
    if let Some(name) = shorter.find(|name| name.chars().count() <= width) {
        return Some(name);
    }
    let last = path.rsplit('/').next()?;
    let widths = shares(&[last.chars().count(), tag.chars().count()], width.checked_sub(5)? + 4);
    let [last_width, tag_width] = widths.try_into().ok()?;
    // A version begins the tag, and differs from that of other tags.
    let tag = if tag.starts_with('@') { end(&tag, tag_width) } else { ends(&tag, tag_width, tag_width * 2 / 3) };
    Some(format!("…{}{tag}", middle(last, last_width)))
}

/// Divides a width between parts: what a short part does not need goes to the long ones.
fn shares(lengths: &[usize], width: usize) -> Vec<usize> {
    let mut shares = vec![0; lengths.len()];
    let mut order: Vec<_> = lengths.iter().copied().zip(0..).collect();
    order.sort_unstable();
    let (mut rest, mut parts) = (width, lengths.len());
    for (length, position) in order {
        let share = length.min(rest / parts.max(1));
        if let Some(place) = shares.get_mut::<usize>(position) {
            *place = share;
        }
        rest -= share;
        parts -= 1;
    }
    shares
}

/// Shortens text to at most `width` characters by its end.
pub(super) fn end(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// Wraps text between words into two lines of at most `width` characters. What is left is cut.
pub(super) fn two_lines(text: &str, width: usize) -> Vec<String> {
    let lines = textwrap::wrap(text, width);
    match lines.as_slice() {
        [first, second, third, ..] => vec![first.to_string(), end(&format!("{second} {third}"), width)],
        lines => lines.iter().map(ToString::to_string).collect(),
    }
}

/// Wraps lines that are longer than `width` between words. The lines that follow are indented.
pub(super) fn wrapped(text: &str, width: usize) -> String {
    let escapes = |line: &str| line.matches("\u{1b}[").count() * 5;
    let wrap = |line: &str| {
        if line.chars().count() <= width + escapes(line) {
            return format!("{line}\n");
        }
        let blanks = line.len() - line.trim_start().len();
        let indent = " ".repeat(if blanks < width / 2 { blanks + 2 } else { 0 });
        textwrap::fill(line, textwrap::Options::new(width).subsequent_indent(&indent)) + "\n"
    };
    text.lines().map(wrap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::short_id;

    #[test]
    fn ages_are_as_in_kubectl() {
        let cases = [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (3600, "60m"),
            (3 * 3600 + 1200, "3h20m"),
            (47 * 3600, "47h"),
            (51 * 3600, "2d3h"),
            (95 * 86400, "95d"),
            (800 * 86400, "2y70d"),
            (9 * 365 * 86400, "9y"),
        ];
        for (seconds, text) in cases {
            assert_eq!(age(seconds), text);
        }
    }

    #[test]
    fn ids_are_short_and_names_keep_both_ends() {
        assert_eq!(short_id("sha256:0123456789abcdef"), "0123456789abc");
        assert_eq!(short_id("c1"), "c1");
        assert_eq!(middle("abcdefghij", 10), "abcdefghij");
        assert_eq!(middle("abcdefghijk", 10), "abcde…hijk");
        assert_eq!(middle("äöüäöüäöü", 4), "äö…ü");
    }

    #[test]
    fn of_an_id_the_beginning_stays() {
        let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
        assert_eq!(id(&digest, 13), "0123456789abc");
        assert_eq!(id("checkpoint-web_shop-app-2026-11-27T12:00:00Z.tar", 13), "checkpoint-we");
        assert_eq!(name(&digest, 16), "sha256:01234567…");
        assert_eq!(name(&format!("registry.example.com/team/app@{digest}"), 40), "…/team/app@sha256:0123456789abc…");
        assert_eq!(name(&format!("overlayfs/{digest}"), 26), "overlayfs/sha256:01234567…");
    }

    #[test]
    fn each_part_of_a_short_name_can_be_recognized() {
        let long = "payments-production/checkout-service-7d9f8c6b5d-x2x4z/istio-proxy";
        assert_eq!(name(long, 100), long);
        assert_eq!(name(long, 40), "paymen…uction/checkou…-x2x4z/istio-proxy");
        assert_eq!(name("shop/old-6c5b9-of-a-long-name/app", 20), "shop/old-6…-name/app");
        assert_eq!(name("/var/log/pods/default_web-0_0a1b2c3d", 30), "…/default_web-0_0a1b2c3d");
        let image = "registry.example.com/teams/checkout-frontend:2026.11.1";
        assert_eq!(name(image, 54), image);
        assert_eq!(name(image, 53), "…/teams/checkout-frontend:2026.11.1");
        assert_eq!(name(image, 30), "…/checkout-frontend:2026.11.1");
        assert_eq!(name(image, 26), "…checkou…rontend:2026.11.1");
        assert!((4..54).all(|width| name(image, width).chars().count() <= width));
        assert_eq!(name("a/b/c/d/e/f/g", 6), "a/b…/g");
        assert_eq!(name("registry.example.com:5000/app:5", 8), "…/app:5");
        assert_eq!(
            name(&format!("image {image}, {image}"), 66),
            "image …/checkout-frontend:2026.11.1, …/checkout-frontend:2026.11.1"
        );
        assert_eq!(end("over the limit", 10), "over the…");
    }

    #[test]
    fn long_lines_are_wrapped_between_words() {
        assert_eq!(wrapped("ab  cd\n  efg hij klm\n", 9), "ab  cd\n  efg hij\n    klm\n");
        assert_eq!(wrapped("\u{1b}[1mab\u{1b}[0m cd\n", 5), "\u{1b}[1mab\u{1b}[0m cd\n");
    }

    #[test]
    fn control_characters_are_shown_not_sent() {
        assert_eq!(printable("a\x1b[31m\nb"), "a\\u{1b}[31m\\nb");
    }

    #[test]
    fn things_are_joined() {
        assert_eq!(list(&["a".to_owned(), "b".to_owned(), "c".to_owned()]), "a, b and c");
    }
}
