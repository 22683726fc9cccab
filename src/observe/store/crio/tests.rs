//! The store of CRI-O from recorded files, and from files that do not agree.

use super::*;
use crate::model::PartKind;

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/crio/storage");

/// Copies the recorded files to a storage whose layers have as many bytes as theirs had.
fn recorded() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["overlay-layers/layers.json", "overlay-images/images.json", "overlay-containers/containers.json"] {
        let at = dir.path().join(name);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::copy(Path::new(RECORDED).join(name), at).unwrap();
    }
    let write = |path: PathBuf, bytes: u64| {
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("file"), vec![7; usize::try_from(bytes).unwrap()]).unwrap();
    };
    let entries = |name| -> Vec<serde_json::Value> {
        serde_json::from_str(&std::fs::read_to_string(dir.path().join(name)).unwrap()).unwrap()
    };
    for layer in entries("overlay-layers/layers.json") {
        let path = dir.path().join("overlay").join(layer["id"].as_str().unwrap());
        write(path.join("diff"), layer["diff-size"].as_u64().unwrap_or(3 << 20));
    }
    for image in entries("overlay-images/images.json") {
        write(dir.path().join("overlay-images").join(image["id"].as_str().unwrap()), 3000);
    }
    dir
}

async fn read_all(images: &Path) -> Seen<RuntimeStore> {
    let until = Instant::now() + std::time::Duration::from_mins(10);
    read(&HostFs::default(), images, Wanted { sizes: Sizes::default(), containers: None, writable_layers: true, until })
        .await
}

/// Returns the bytes that each image holds, with shared layers.
fn bytes_of_images(store: &RuntimeStore) -> [u64; 3] {
    let images = store.holders.iter().filter(|holder| holder.kind == HolderKind::Image);
    let bytes = |holder| store.held_by(holder).iter().filter_map(|part| store.parts[*part].bytes).sum();
    images.map(bytes).collect::<Vec<_>>().try_into().unwrap()
}

#[tokio::test]
async fn layers_of_crio_are_shared_as_its_files_say() {
    let dir = recorded();
    let Seen::Seen(store) = read_all(&dir.path().join("overlay-images")).await else { panic!("not read") };
    assert_eq!(store.missing_sizes, [""; 0]);
    // A directory has a block too.
    assert_eq!(bytes_of_images(&store).map(|bytes| bytes >> 20), [7, 8, 8]);
    let (_, writable) = store.writable_layers().next().unwrap();
    assert_eq!((writable.bytes.unwrap() >> 20, writable.inodes), (3, Some(3)));
    let container = store.holders.iter().find(|holder| holder.kind == HolderKind::Container).unwrap();
    assert_eq!(container.image.as_ref(), Some(&store.holders[2].name), "by the id of its image");
    let held = store.held_by(container);
    let kinds: Vec<_> = held.iter().map(|part| store.parts[*part].kind).collect();
    assert_eq!(kinds, [PartKind::Layer, PartKind::Layer, PartKind::Layer, PartKind::Writable]);
    assert_eq!(store.parts.iter().filter(|part| part.incomplete).count(), 0);
}

#[tokio::test]
async fn a_store_that_changes_or_breaks_is_read_as_far_as_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let images = dir.path().join("overlay-images");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    assert_eq!(read_all(&images).await, Seen::Seen(RuntimeStore::default()), "no file");
    write("overlay-images/images.json", r#"[{"id": "i", "layer": "top"}]"#);
    write("overlay-layers/layers.json", r#"[{"id": 7}, {"id": "top", "parent": "removed since", "created": "x"}]"#);
    let Seen::Seen(store) = read_all(&images).await else { panic!("not read") };
    assert_eq!((store.parts[0].incomplete, store.parts[0].bytes), (true, None));
    assert!(store.missing[0].starts_with("1 of 2 entries of "), "one entry affects only itself: {store:?}");
    assert_eq!(store.missing_sizes, ["sizes of layers whose id is not one of containers/storage"]);
    write("overlay-layers/layers.json", "[{");
    let error = read_all(&images).await;
    assert!(error.cause().is_some_and(|cause| cause.contains("layers.json: EOF")), "{error:?}");
    let other = read_all(Path::new("/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs")).await;
    assert!(
        other.cause().is_some_and(|cause| cause.ends_with("is not a directory of containers/storage")),
        "{other:?}"
    );
}
