//! Leases that keep the content of removed images, so that their removal can be undone. Only containerd has leases.
//!
//! An image of the CRI is several records in containerd: one for each name, and one with its id as the name. A lease on the manifests
//! keeps all that they refer to. Its labels have the records, so no file of kubegc is needed to make them again. It ends by itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;

use super::store_calls::StoreCalls;
use crate::cri::generated::containerd::{images, leases};
use crate::cri::writer::LEASE_EXPIRES;
use crate::cri::{CriError, RuntimeReader};
use crate::model::{CRI_NAMESPACE, Image, ImageId, UNDO_LEASES};

/// The labels of a lease.
const IMAGE: &str = "kubegc.dev/undo.image";
const PASS: &str = "kubegc.dev/undo.pass";
const RECORD: &str = "kubegc.dev/undo.record.";
const LABELS: &str = "kubegc.dev/undo.labels.";
const PULL_RECORD: &str = "kubegc.dev/undo.pull-record";
/// What the CRI plugin of containerd marks its images with.
const MANAGED: (&str, &str) = ("io.cri-containerd.image", "managed");
/// The most bytes of the key and the value of a label (containerd 2.1, `pkg/labels`).
const LONGEST_LABEL: usize = 4_096;

/// A lease on a removed image.
#[derive(Clone, Debug, PartialEq)]
pub struct UndoLease {
    pub name: String,
    pub image: ImageId,
    /// The time of the pass that removed the image.
    pub pass: Timestamp,
    pub expires_at: Timestamp,
    /// The records of the image.
    pub records: Vec<ImageRecord>,
    /// Whether the kubelet had a record of its pull, or may have had one: without it, any pod could use the image (I21).
    pub has_pull_record: bool,
}

/// A record of containerd: a name of an image, and its manifest.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ImageRecord {
    pub name: String,
    /// The digest of the manifest or index.
    pub digest: String,
    pub media_type: String,
    /// Its size in bytes.
    pub size: i64,
    /// Its labels, such as that of a pinned image.
    pub labels: BTreeMap<String, String>,
}

// === impl RuntimeReader ===

impl RuntimeReader {
    /// Returns the leases on removed images, oldest first.
    ///
    /// # Errors
    /// The runtime has no leases, or cannot be reached.
    pub async fn undo_leases(&self) -> Result<Vec<UndoLease>, CriError> {
        let leased = StoreCalls::new(self).within(CRI_NAMESPACE)?.leases().await?;
        let mut leases: Vec<_> = leased.into_iter().filter_map(|(lease, _)| UndoLease::read(lease)).collect();
        leases.sort_by(|one, other| (one.pass, &one.name).cmp(&(other.pass, &other.name)));
        Ok(leases)
    }

    /// Returns a lease for the removal of an image, which does not exist yet.
    pub(in crate::cri) async fn undo_lease_for(
        &self,
        image: &Image,
        pass: Timestamp,
        expires_at: Timestamp,
        has_pull_record: bool,
    ) -> Result<UndoLease, CriError> {
        let names: Vec<_> = image.names().map(std::borrow::Cow::into_owned).collect();
        let records = StoreCalls::new(self).within(CRI_NAMESPACE)?.images_named(&names).await?;
        let records = records.into_iter().filter_map(ImageRecord::of).collect();
        let id = image.id.as_str();
        // One name for an image, so that an image has one lease. A name of a lease has at most 76 characters.
        let short: String = id.strip_prefix("sha256:").unwrap_or(id).chars().take(32).collect();
        let name = format!("{UNDO_LEASES}{short}");
        Ok(UndoLease { name, image: image.id.clone(), pass, expires_at, records, has_pull_record })
    }
}

// === impl UndoLease ===

impl UndoLease {
    /// Reads a lease; `None` = it is none of kubegc, or has ended.
    fn read(lease: leases::Lease) -> Option<Self> {
        let label = |key: &str| lease.labels.get(key);
        let time = |key: &str| label(key)?.parse().ok();
        let numbered = lease.labels.iter().filter_map(|(key, value)| Some((key.strip_prefix(RECORD)?, value)));
        let labels_of = |number: &str| serde_json::from_str(label(&format!("{LABELS}{number}"))?).ok();
        let read = |(number, value): (&str, &String)| {
            Some(ImageRecord { labels: labels_of(number).unwrap_or_else(managed), ..ImageRecord::parse(value)? })
        };
        let mut records: Vec<_> = numbered.filter_map(read).collect();
        records.sort_by(|one, other| one.name.cmp(&other.name));
        let (image, pass, expires_at) = (label(IMAGE)?.as_str().into(), time(PASS)?, time(LEASE_EXPIRES)?);
        let has_pull_record = label(PULL_RECORD).is_none_or(|text| text != "false");
        let read = Self { name: lease.id, image, pass, expires_at, records, has_pull_record };
        read.name.starts_with(UNDO_LEASES).then_some(read)
    }

    /// Returns the labels. A record whose name is too long for one is left out, and labels of a record that are too long for one.
    pub(in crate::cri) fn labels(&self) -> HashMap<String, String> {
        let records = self.records.iter().enumerate().map(|(n, record)| (format!("{RECORD}{n}"), record.to_string()));
        let own = [(IMAGE, self.image.to_string()), (PASS, self.pass.to_string())];
        let own = own
            .into_iter()
            .chain([(LEASE_EXPIRES, self.expires_at.to_string()), (PULL_RECORD, self.has_pull_record.to_string())]);
        let labels_of = |record: &ImageRecord| serde_json::to_string(&record.labels).unwrap_or_default();
        let of_records = self.records.iter().enumerate().map(|(n, it)| (format!("{LABELS}{n}"), labels_of(it)));
        let labels = own.map(|(key, value)| (key.to_owned(), value)).chain(records).chain(of_records);
        labels.filter(|(key, value)| key.len() + value.len() <= LONGEST_LABEL).collect()
    }

    /// Returns the digests that the lease holds.
    pub(in crate::cri) fn digests(&self) -> BTreeSet<&str> {
        self.records.iter().map(|record| record.digest.as_str()).collect()
    }
}

// === impl ImageRecord ===

impl ImageRecord {
    fn of(image: images::Image) -> Option<Self> {
        let images::Descriptor { media_type, digest, size } = image.target?;
        Some(Self { name: image.name, digest, media_type, size, labels: image.labels.into_iter().collect() })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, ' ').map(str::to_owned);
        let (digest, size, media_type) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
        Some(Self { name: parts.next()?, digest, media_type, size, labels: managed() })
    }

    /// Returns the record as containerd creates it.
    pub(in crate::cri) fn image(&self) -> images::Image {
        let Self { name, digest, media_type, size, labels } = self.clone();
        images::Image {
            name,
            labels: labels.into_iter().collect(),
            target: Some(images::Descriptor { media_type, digest, size }),
            created_at: None,
        }
    }
}

/// Returns the labels of a record whose labels were too long to keep.
fn managed() -> BTreeMap<String, String> {
    let (key, value) = MANAGED;
    [(key.to_owned(), value.to_owned())].into()
}

/// The value of a label.
impl std::fmt::Display for ImageRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {} {}", self.digest, self.size, self.media_type, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease() -> UndoLease {
        let record = |name: &str| ImageRecord {
            name: name.to_owned(),
            digest: "sha256:01".to_owned(),
            media_type: "application/vnd.oci.image.manifest.v1+json".to_owned(),
            size: 402,
            labels: [
                ("io.cri-containerd.image".to_owned(), "managed".to_owned()),
                ("team".to_owned(), name.to_owned()),
            ]
            .into(),
        };
        let at = |second| Timestamp::from_second(second).unwrap();
        UndoLease {
            name: "kubegc-undo-aa-9".to_owned(),
            image: "sha256:aa".into(),
            pass: at(9),
            expires_at: at(99),
            records: vec![record("r.example/a:1"), record("sha256:aa")],
            has_pull_record: false,
        }
    }

    fn answer(lease: &UndoLease) -> leases::Lease {
        leases::Lease { id: lease.name.clone(), created_at: None, labels: lease.labels() }
    }

    #[test]
    fn a_lease_is_read_from_its_labels() {
        assert_eq!(UndoLease::read(answer(&lease())), Some(lease()));
        assert_eq!(lease().digests().into_iter().collect::<Vec<_>>(), ["sha256:01"]);
    }

    #[test]
    fn leases_of_others_and_damaged_ones_are_no_way_back() {
        let with = |change: fn(&mut leases::Lease)| {
            let mut lease = answer(&lease());
            change(&mut lease);
            UndoLease::read(lease)
        };
        assert_eq!(with(|lease| lease.id = "pull-1".to_owned()), None);
        assert_eq!(with(|lease| _ = lease.labels.remove(IMAGE)), None);
        assert!(with(|lease| _ = lease.labels.remove(PULL_RECORD)).unwrap().has_pull_record, "not known");
        assert_eq!(with(|lease| _ = lease.labels.insert(PASS.to_owned(), "soon".to_owned())), None);
        let damaged = with(|lease| _ = lease.labels.insert(format!("{RECORD}0"), "sha256:01 many".to_owned()));
        assert_eq!(damaged.unwrap().records, [lease().records[1].clone()]);
        let without = with(|lease| _ = lease.labels.remove(&format!("{LABELS}0"))).unwrap().records.remove(0);
        assert_eq!(without.labels, managed(), "its labels were too long");
    }

    /// A tag may be longer than a label.
    #[test]
    fn a_name_that_is_too_long_is_left_out() {
        let mut long = lease();
        long.records[0].name = "x".repeat(LONGEST_LABEL);
        assert_eq!(UndoLease::read(answer(&long)).unwrap().records, [lease().records[1].clone()]);
    }
}
