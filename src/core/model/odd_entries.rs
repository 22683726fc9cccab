//! Reads what tenants and aggregated APIs write into the metadata of an object. What cannot be read, and what is too much,
//! concerns its own object only: it must neither make a list unreadable nor fill the memory (G5).

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::OwnerReference;

/// The most owners of one object that are kept and read: 15 workers at 100 calls a second read as many of each of their
/// objects in the 30 s for which a read proves something (G1, G5). More than a few dozen are not known to be in use.
pub const MOST_OWNERS: usize = 200;
/// The longest text of one owner reference. The name of nearly every object has at most 253 characters.
const LONGEST_REFERENCE_BYTES: usize = 1000;

/// The owner references of an object that are kept, and how many are not.
#[derive(Debug, Default)]
pub(super) struct KeptOwners {
    pub(super) kept: Vec<OwnerReference>,
    pub(super) omitted: usize,
}

/// A value that may be of another type than ours. The parser holds it in memory twice, so it is for short ones.
#[derive(Deserialize)]
#[serde(untagged)]
enum Entry<T> {
    Read(T),
    Odd(IgnoredAny),
}

struct Owners;

/// Reads a value. One of another type is the default.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(match Entry::deserialize(from)? {
        Entry::Read(value) => value,
        Entry::Odd(_) => T::default(),
    })
}

/// Reads finalizers. An odd one is empty, as `null` is for a client in Go: it holds the object, and no controller removes it.
pub(super) fn finalizers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let text = |entry| match entry {
        Entry::Read(text) => text,
        Entry::Odd(IgnoredAny) => String::new(),
    };
    Ok(match Option::<Entry<Vec<Entry<String>>>>::deserialize(from)? {
        None => Vec::new(),
        Some(Entry::Read(entries)) => entries.into_iter().map(text).collect(),
        Some(Entry::Odd(_)) => vec![String::new()],
    })
}

// === impl KeptOwners ===

impl KeptOwners {
    fn add(&mut self, entry: Entry<OwnerReference>) {
        match entry {
            Entry::Read(owner) if owner.text_bytes() <= LONGEST_REFERENCE_BYTES => self.kept.push(owner),
            Entry::Read(_) | Entry::Odd(_) => self.omitted += 1,
        }
    }
}

impl<'de> Deserialize<'de> for KeptOwners {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Owners)
    }
}

/// Whatever is no list counts as one reference that cannot be read.
const ODD: KeptOwners = KeptOwners { kept: Vec::new(), omitted: 1 };

impl<'de> Visitor<'de> for Owners {
    type Value = KeptOwners;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("owner references")
    }

    fn visit_unit<E>(self) -> Result<KeptOwners, E> {
        Ok(KeptOwners::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<KeptOwners, A::Error> {
        let mut owners = KeptOwners::default();
        while owners.kept.len() < MOST_OWNERS {
            let Some(entry) = list.next_element()? else { return Ok(owners) };
            owners.add(entry);
        }
        while list.next_element::<IgnoredAny>()?.is_some() {
            owners.omitted += 1;
        }
        Ok(owners)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<KeptOwners, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(ODD)
    }

    fn visit_str<E>(self, _: &str) -> Result<KeptOwners, E> {
        Ok(ODD)
    }

    fn visit_bool<E>(self, _: bool) -> Result<KeptOwners, E> {
        Ok(ODD)
    }

    fn visit_i64<E>(self, _: i64) -> Result<KeptOwners, E> {
        Ok(ODD)
    }

    fn visit_u64<E>(self, _: u64) -> Result<KeptOwners, E> {
        Ok(ODD)
    }

    fn visit_f64<E>(self, _: f64) -> Result<KeptOwners, E> {
        Ok(ODD)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::model::{MOST_OWNERS, ObjectMeta};

    const ODD: [&str; 8] = ["null", "1", "-1.5", "true", r#""x""#, "[]", r#"[{"a":[null]}]"#, r#"{"uid":null}"#];

    fn read(metadata: &Value) -> ObjectMeta {
        serde_json::from_str(&metadata.to_string()).unwrap()
    }

    fn owner(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name})
    }

    #[test]
    fn an_odd_entry_concerns_its_own_object() {
        for odd in ODD.map(|odd| serde_json::from_str::<Value>(odd).unwrap()) {
            for field in ["name", "namespace", "uid", "resourceVersion", "deletionGracePeriodSeconds"] {
                read(&json!({field: odd}));
            }
            let meta = read(&json!({"ownerReferences": [owner("a"), odd, owner("b")], "finalizers": ["x", odd, "y"]}));
            assert_eq!((meta.owners.len(), meta.left_out_owners, meta.finalizers.len()), (2, 1, 3), "{odd}");
            let meta = read(&json!({"ownerReferences": odd, "finalizers": odd}));
            let is_empty = odd.is_null() || odd == json!([]);
            let names_none = meta.owners.is_empty() && meta.left_out_owners == 0;
            assert_eq!((names_none, meta.finalizers.is_empty()), (is_empty, is_empty), "{odd}");
        }
    }

    #[test]
    fn owners_beyond_the_limit_are_counted() {
        let owners: Vec<_> = (0..45_000).map(|number| owner(&number.to_string())).collect();
        let meta = read(&json!({"ownerReferences": owners}));
        assert_eq!((meta.owners.len(), meta.left_out_owners), (MOST_OWNERS, 45_000 - MOST_OWNERS));
        assert!(meta.owners.capacity() < 2 * MOST_OWNERS);
        let document = serde_json::to_value(&meta).unwrap();
        assert_eq!(read(&document), meta, "a document has the count");
    }

    #[test]
    fn a_reference_of_any_length_is_no_reason_to_keep_it() {
        let meta = read(&json!({"ownerReferences": [owner(&"x".repeat(700_000)), owner(&"x".repeat(253))]}));
        assert_eq!((meta.owners.len(), meta.left_out_owners), (1, 1));
    }
}
