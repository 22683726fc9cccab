//! Messages of failed tests that a person can read: what was expected and what was there at their start, the last lines of
//! logs at their end. Of a longer message the middle is left out.

use std::backtrace::Backtrace;
use std::sync::Once;

/// The most lines of a message.
const LINES: usize = 80;
/// The most bytes of a line.
const WIDTH: usize = 1000;

/// Prints messages of panics in this form from now on.
pub fn print_readably() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            let message = panic.payload_as_str().unwrap_or("no message");
            eprintln!("\npanicked at {place}:\n{}", readable(message));
            eprintln!("{}", calls(&Backtrace::force_capture().to_string()));
        }));
    });
}

/// Returns the places in the tests that a backtrace has, innermost first.
fn calls(backtrace: &str) -> String {
    let places = backtrace.lines().map(str::trim).filter(|line| line.starts_with("at ./tests/"));
    let outside = places.filter(|place| !place.contains(file!()));
    outside.take(LINES / 8).collect::<Vec<_>>().join("\n")
}

fn readable(message: &str) -> String {
    let lines: Vec<_> = message.lines().map(shortened).collect();
    let Some(left_out) = lines.len().checked_sub(LINES).filter(|count| *count > 0) else { return lines.join("\n") };
    let (start, end) = (&lines[..LINES / 2], &lines[lines.len() - LINES / 2..]);
    format!("{}\n[{left_out} lines are left out]\n{}", start.join("\n"), end.join("\n"))
}

fn shortened(line: &str) -> String {
    if line.len() <= WIDTH {
        return line.to_owned();
    }
    let (start, end) = (line.floor_char_boundary(WIDTH / 2), line.ceil_char_boundary(line.len() - WIDTH / 2));
    format!("{} [{} bytes are left out] {}", &line[..start], end - start, &line[end..])
}

#[test]
fn a_long_message_keeps_its_start_and_its_end() {
    let message: Vec<_> = (0..2000).map(|number| format!("line {number}")).collect();
    let shown = readable(&message.join("\n"));
    assert!(shown.starts_with("line 0\n") && shown.ends_with("\nline 1999"), "{shown}");
    assert!(shown.contains("\n[1920 lines are left out]\n") && shown.lines().count() == LINES + 1, "{shown}");
    assert_eq!(readable("one\ntwo"), "one\ntwo");
    let shown = readable(&format!("{}é", "a".repeat(100_000)));
    assert!(shown.len() < WIDTH + 50 && shown.ends_with('é'), "{shown}");
}
