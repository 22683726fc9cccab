//! The images and layers of the node. Images and containers hold layers; a shared layer uses disk space once.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use serde_json::json;
use tonic::Status;

use crate::cri::generated as pb;

/// The layers of an image: id and bytes of each.
pub(crate) type Layers = Arc<[(String, u64)]>;

/// All images and all layers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Images {
    by_id: BTreeMap<String, StoredImage>,
    /// Image ids by tag and by digest.
    names: HashMap<String, String>,
    /// Names that resolve to other names, like the short-name aliases of a runtime.
    aliases: HashMap<String, String>,
    /// The number of holders of each layer.
    holders: HashMap<String, u64>,
    layer_bytes: u64,
}

/// One image.
#[derive(Clone, Debug)]
pub(crate) struct StoredImage {
    pub(crate) listed: pb::Image,
    pub(crate) layers: Layers,
    /// When it was built, as its configuration has it.
    created: Option<String>,
    /// Its removal has no effect.
    is_read_only: bool,
    labels: BTreeMap<String, String>,
}

// === impl Images ===

impl Images {
    /// Returns the bytes of all layers that have a holder.
    pub(super) fn layer_bytes(&self) -> u64 {
        self.layer_bytes
    }

    /// Returns the number of layers that have a holder.
    pub(super) fn layer_count(&self) -> u64 {
        self.holders.len() as u64
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &StoredImage> {
        self.by_id.values()
    }

    /// Adds an image under a tag. If another image has the tag, the tag moves to this image. If the image already
    /// exists, it gets the tag in addition to its own tags.
    pub(super) fn add(&mut self, id: &str, tag: &str, layers: &[(&str, u64)]) {
        if !self.by_id.contains_key(id) {
            let size = layers.iter().map(|(_, bytes)| bytes).sum();
            self.store(pb::Image { id: id.to_owned(), size, ..pb::Image::default() }, layers);
        }
        self.tag(id, tag);
    }

    fn store(&mut self, listed: pb::Image, layers: &[(&str, u64)]) {
        let layers: Layers = layers.iter().map(|(layer, bytes)| ((*layer).to_owned(), *bytes)).collect();
        self.hold(&layers);
        let (id, labels) = (listed.id.clone(), BTreeMap::new());
        self.by_id.insert(id, StoredImage { listed, layers, created: None, is_read_only: false, labels });
    }

    /// Adds an image that is listed with these names. Only those that no other image has find it.
    pub(super) fn add_as_listed(&mut self, id: &str, tags: &[&str], digests: &[&str], bytes: u64) {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (repo_tags, repo_digests) = (owned(tags), owned(digests));
        self.store(
            pb::Image { id: id.to_owned(), size: bytes, repo_tags, repo_digests, ..pb::Image::default() },
            &[(id, bytes)],
        );
        for name in tags.iter().chain(digests) {
            self.names.entry((*name).to_owned()).or_insert_with(|| id.to_owned());
        }
    }

    pub(super) fn make_read_only(&mut self, id: &str) {
        if let Some(image) = self.by_id.get_mut(id) {
            image.is_read_only = true;
        }
    }

    /// Adds a tag to an image, and a digest in the repository of the tag.
    pub(super) fn tag(&mut self, id: &str, tag: &str) {
        if let Some(former) = self.names.get(tag).cloned().and_then(|former| self.by_id.get_mut(&former)) {
            former.listed.repo_tags.retain(|name| name != tag);
        }
        let Some(image) = self.by_id.get_mut(id) else { return };
        let digest = format!("{}@{}", repository(tag), digest_of(id));
        image.listed.repo_tags.push(tag.to_owned());
        if !image.listed.repo_digests.contains(&digest) {
            image.listed.repo_digests.push(digest.clone());
        }
        self.names.insert(tag.to_owned(), id.to_owned());
        self.names.insert(digest, id.to_owned());
    }

    /// Sets when an image was built, and its labels.
    pub(super) fn configure(&mut self, id: &str, created: &str, labels: &[(&str, &str)]) {
        if let Some(image) = self.by_id.get_mut(id) {
            image.created = Some(created.to_owned());
            image.labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        }
    }

    pub(super) fn pin(&mut self, id: &str) {
        if let Some(image) = self.by_id.get_mut(id) {
            image.listed.pinned = true;
        }
    }

    /// Removes the tags of an image but keeps the image, as when its tag moves to another image.
    pub(super) fn untag(&mut self, id: &str) {
        if let Some(image) = self.by_id.get_mut(id) {
            for tag in image.listed.repo_tags.drain(..) {
                self.names.remove(&tag);
            }
        }
    }

    pub(super) fn alias(&mut self, name: &str, meaning: &str) {
        self.aliases.insert(name.to_owned(), meaning.to_owned());
    }

    /// Returns the image with this id, short id, tag or digest.
    pub(crate) fn find(&self, name: &str) -> Result<Option<&StoredImage>, Status> {
        let name = self.aliases.get(name).map_or(name, String::as_str);
        let named = self.names.get(name).or_else(|| self.names.get(&full_name(name)));
        match named {
            Some(id) => Ok(self.by_id.get(id)),
            None => self.by_short_id(name),
        }
    }

    /// Removes an image with all its names. Its layers are kept while they have other holders. An unknown name is no
    /// error.
    pub(super) fn remove(&mut self, name: &str) -> Result<(), Status> {
        let found = self.find(name)?.filter(|image| !image.is_read_only);
        let Some(id) = found.map(|image| image.listed.id.clone()) else { return Ok(()) };
        let Some(image) = self.by_id.remove(&id) else { return Ok(()) };
        for name in image.listed.repo_tags.iter().chain(&image.listed.repo_digests) {
            self.names.remove(name);
        }
        self.release(&image.layers);
        Ok(())
    }

    /// Removes one tag of an image that has several. Returns whether it did.
    pub(super) fn remove_name(&mut self, name: &str) -> bool {
        let Some(image) = self.names.get(name).and_then(|id| self.by_id.get_mut(id)) else { return false };
        let is_one_of_several =
            image.listed.repo_tags.len() > 1 && image.listed.repo_tags.iter().any(|tag| tag == name);
        if is_one_of_several {
            image.listed.repo_tags.retain(|tag| tag != name);
            self.names.remove(name);
        }
        is_one_of_several
    }

    /// Adds one holder to each layer.
    pub(super) fn hold(&mut self, layers: &Layers) {
        for (layer, bytes) in layers.iter() {
            let holders = self.holders.entry(layer.clone()).or_default();
            if *holders == 0 {
                self.layer_bytes += bytes;
            }
            *holders += 1;
        }
    }

    /// Removes one holder from each layer.
    pub(super) fn release(&mut self, layers: &Layers) {
        for (layer, bytes) in layers.iter() {
            let Some(holders) = self.holders.get_mut(layer) else { continue };
            *holders -= 1;
            if *holders == 0 {
                self.holders.remove(layer);
                self.layer_bytes -= bytes;
            }
        }
    }

    fn by_short_id(&self, name: &str) -> Result<Option<&StoredImage>, Status> {
        let full = format!("sha256:{name}");
        let beginning_with = |id| {
            let from = (Bound::Included(id), Bound::Unbounded);
            self.by_id.range::<str, _>(from).take_while(move |(found, _)| found.starts_with(id))
        };
        let mut matching = beginning_with(name).chain(beginning_with(&full));
        let first = matching.next().map(|(_, image)| image);
        match matching.next() {
            Some(_) => Err(Status::unknown(format!("several images begin with {name:?}"))),
            None => Ok(first.filter(|_| !name.is_empty())),
        }
    }
}

// === impl StoredImage ===

impl StoredImage {
    /// Returns what the verbose status says, as containerd and CRI-O write it.
    pub(super) fn info(&self) -> HashMap<String, String> {
        let layers: Vec<_> = self.layers.iter().map(|(layer, _)| format!("sha256:{}", hex(layer))).collect();
        let rootfs = json!({ "type": "layers", "diff_ids": layers });
        let spec = json!({ "created": self.created, "config": { "Labels": self.labels }, "rootfs": rootfs });
        [("info".to_owned(), json!({ "imageSpec": spec }).to_string())].into()
    }
}

/// Returns the full form of a name, as runtimes use it: with registry, `library/` and tag.
fn full_name(name: &str) -> String {
    let (domain, path) = match name.split_once('/') {
        Some((domain, path)) if domain.contains(['.', ':']) || domain == "localhost" => (domain, path.to_owned()),
        Some(_) => ("docker.io", name.to_owned()),
        None => ("docker.io", format!("library/{name}")),
    };
    let tag = if path.contains([':', '@']) { "" } else { ":latest" };
    format!("{domain}/{path}{tag}")
}

/// Returns a tag without the part after the last colon of its last path component.
fn repository(tag: &str) -> &str {
    match tag.rsplit_once(':') {
        Some((repository, rest)) if !rest.contains('/') => repository,
        _ => tag,
    }
}

/// Returns the manifest digest of an image, which differs from its id.
pub(super) fn digest_of(id: &str) -> String {
    format!("sha256:{}", hex(&format!("manifest of {id}")))
}

/// Returns 64 hexadecimal digits, the same ones for the same seed.
pub(super) fn hex(seed: &str) -> String {
    let word = |salt: u64| {
        let start = 0xcbf2_9ce4_8422_2325_u64.wrapping_add(salt.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let hash = seed.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        // FNV alone gives short seeds similar upper bits, and the tests look up ids by prefix.
        (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
    };
    let word = |salt| format!("{:016x}", word(salt));
    [0, 1, 2, 3].map(word).concat()
}
