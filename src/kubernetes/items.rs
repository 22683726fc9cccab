//! Parses a list while it arrives. Each item is parsed and reduced as soon as it is complete, so that a list of
//! megabytes is never in memory as a whole.
//!
//! This code separates only brackets and strings. `serde_json` checks the JSON: it parses each item, and also the rest
//! without the items. The rest of a truncated list is not valid JSON.

use crate::model::Pod;

use super::api_types::{ApiPod, ListHead};

/// Far larger than any pod: the API accepts objects of about 3 MiB at most.
const LARGEST_ITEM_BYTES: usize = 16 << 20;

/// A list that is still arriving.
#[derive(Default)]
pub(super) struct Items {
    /// The pods parsed so far.
    pods: Vec<Pod>,
    /// The item that is arriving.
    item: Vec<u8>,
    /// All bytes outside the items.
    rest: Vec<u8>,
    depth: usize,
    /// The position is inside the items.
    within: bool,
    in_string: bool,
    after_backslash: bool,
    /// The last string at depth 1. Before a bracket it is the key of that bracket.
    key: Vec<u8>,
}

// === impl Items ===

impl Items {
    /// Parses the next piece.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Result<(), String> {
        for byte in piece {
            self.byte(*byte)?;
        }
        if self.item.len().max(self.rest.len()) > LARGEST_ITEM_BYTES {
            return Err(format!("an object of more than {LARGEST_ITEM_BYTES} bytes"));
        }
        Ok(())
    }

    /// Returns the head of the list and its pods, after the last piece.
    pub(super) fn finish(self) -> Result<(ListHead, Vec<Pod>), String> {
        let head: ListHead = serde_json::from_slice(&self.rest).map_err(|error| error.to_string())?;
        if head.kind != "PodList" || head.metadata.resource_version.is_empty() {
            return Err("not a list of pods".to_owned());
        }
        match &head.items {
            Some(left) if left.is_empty() => Ok((head, self.pods)),
            // Go encodes a list that was never created as `null`.
            None if self.rest.windows(7).any(|window| window == b"\"items\"") => Ok((head, self.pods)),
            _ => Err("not a list of pods".to_owned()),
        }
    }

    fn byte(&mut self, byte: u8) -> Result<(), String> {
        if self.in_string {
            self.keep(byte);
            self.in_string(byte);
            return Ok(());
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
                if self.depth == 1 {
                    self.key.clear();
                }
            }
            b'{' | b'[' => {
                if self.depth == 1 {
                    self.within = byte == b'[' && self.key == b"items";
                }
                self.depth += 1;
                self.keep(byte);
            }
            b'}' | b']' => {
                self.keep(byte);
                self.depth = self.depth.saturating_sub(1);
                return self.close();
            }
            // A comma between two items. The rest contains no items, so it needs no comma.
            b',' if self.within && self.depth == 2 => {}
            _ => self.keep(byte),
        }
        Ok(())
    }

    fn in_string(&mut self, byte: u8) {
        let is_end = byte == b'"' && !self.after_backslash;
        self.after_backslash = byte == b'\\' && !self.after_backslash;
        self.in_string = !is_end;
        if self.depth == 1 && !is_end {
            self.key.push(byte);
        }
    }

    /// Appends a byte to the current item or to the rest.
    fn keep(&mut self, byte: u8) {
        let kept = if self.within && self.depth > 2 { &mut self.item } else { &mut self.rest };
        kept.push(byte);
    }

    /// Handles a closing bracket, which may complete an item or end the items.
    fn close(&mut self) -> Result<(), String> {
        if self.within && self.depth == 2 {
            let pod: ApiPod = serde_json::from_slice(&self.item).map_err(|error| error.to_string())?;
            self.pods.push(pod.into_pod()?);
            self.item.clear();
        }
        self.within &= self.depth > 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"{"kind":"PodList","metadata":{"resourceVersion":"7","annotations":{"items":"]}"}},
        "items":[
            {"metadata":{"uid":"a","namespace":"n","name":"\"}],[{","labels":{"items":"["}},"spec":{"containers":[{"image":"x"}]}},
            {"metadata":{"uid":"b","namespace":"n","name":"\\"},"status":{"phase":"Running","x":[[{}],[1,2]]}}
        ],"other":[{"a":1},{"b":2}]}"#;

    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<(ListHead, Vec<Pod>), String> {
        let mut items = Items::default();
        pieces.into_iter().try_for_each(|piece| items.feed(piece))?;
        items.finish()
    }

    #[test]
    fn a_list_is_read_whatever_pieces_it_comes_in() {
        for size in [1, 2, 3, 7, 64, LIST.len()] {
            let (head, pods) = read(LIST.as_bytes().chunks(size)).unwrap();
            let pods: Vec<_> = pods.iter().map(|pod| (pod.uid.as_str(), pod.name.as_str(), pod.images.len())).collect();
            assert_eq!(pods, [("a", "\"}],[{", 1), ("b", "\\", 0)], "pieces of {size}");
            assert_eq!(head.metadata.resource_version, "7");
        }
    }

    #[test]
    fn a_list_that_was_cut_anywhere_is_none() {
        for length in 0..LIST.len() {
            assert!(read([&LIST.as_bytes()[..length]]).is_err(), "{}", &LIST[..length]);
        }
    }

    #[test]
    fn what_is_no_list_of_pods_is_none() {
        for (text, why) in [
            (r#"{"kind":"PodList","metadata":{"resourceVersion":"7"}}"#, "no items"),
            (r#"{"kind":"NodeList","metadata":{"resourceVersion":"7"},"items":[]}"#, "another kind"),
            (r#"{"kind":"PodList","metadata":{},"items":[]}"#, "no version"),
            (r#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[null]}"#, "an item that is none"),
            (r#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"it\u0065ms":[{}]}"#, "items nobody took out"),
            (r#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}]}"#, "no uid"),
            (r#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{]}]}"#, "brackets crossed"),
            (r#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[]} <html>"#, "more behind it"),
            ("<html>", "a page"),
            ("", "nothing"),
        ] {
            assert!(read([text.as_bytes()]).is_err(), "{why}");
        }
    }

    #[test]
    fn a_list_without_pods_is_empty() {
        for text in [
            r#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[]}"#,
            r#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":null}"#,
        ] {
            assert_eq!(read([text.as_bytes()]).unwrap().1, Vec::new());
        }
    }
}
