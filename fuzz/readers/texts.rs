//! Short texts that a person or a tenant writes.

use jiff::Timestamp;
use kubegc::fleet::QuietHours;
use kubegc::model::{
    Image, ImageName, bytes_of_text, cut_text, full_image_name, is_harmful, is_image_pattern, last_part_of_name,
    printable_text, range_of_text,
};

/// Names of images, and texts as a terminal shows them.
pub fn image_names(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let (pattern, name) = text.split_once('\n').unwrap_or((text, text));
    let image = Image { tags: vec![name.to_owned()], digests: vec![name.to_owned()], ..Image::default() };
    let _ = (ImageName::from(pattern).matches(&image), image.may_be_named(pattern), is_image_pattern(pattern));
    if is_image_pattern(name) {
        let full = full_image_name(name);
        assert_eq!(full_image_name(&full), full, "a full name stays as it is");
    }
    let _ = (last_part_of_name(name), bytes_of_text(name), range_of_text(name));
    assert!(!printable_text(text).contains(is_harmful));
    assert!(cut_text(text, 20).chars().count() <= 21);
}

/// Quiet hours at a time, which is the number in the first 8 bytes, in seconds. They end after each time that is in them.
pub fn quiet_hours(input: &[u8]) {
    let Some((seconds, text)) = input.split_first_chunk() else { return };
    let Ok(now) = Timestamp::from_second(i64::from_le_bytes(*seconds)) else { return };
    let Ok(Ok(hours)) = std::str::from_utf8(text).map(str::parse::<QuietHours>) else { return };
    if let Some(end) = hours.end_of(now) {
        assert!(end > now && end.duration_since(now).as_hours() <= 48, "{hours}: {now} to {end}");
    }
    let again: QuietHours = hours.to_string().parse().expect("its text is readable");
    assert_eq!(again, hours);
}
