//! Replays the inputs that fuzzing found, each of which reaches other code. `scripts/fuzz.sh` explains them.

#[path = "../../fuzz/readers/lib.rs"]
mod readers;

use std::fs::File;
use std::io::Read as _;

use flate2::read::GzDecoder;
use tar::Archive;

use readers::READERS;

/// Gives each input of an archive to its reader. A failure prints the name of the input.
fn replay(name: &str) {
    let (_, reader) = READERS.iter().find(|(known, _)| *known == name).unwrap();
    let path = format!("{}/tests/data/corpus/{name}.tar.gz", env!("CARGO_MANIFEST_DIR"));
    let mut archive = Archive::new(GzDecoder::new(File::open(path).unwrap()));
    for entry in archive.entries().unwrap() {
        let (mut entry, mut input) = (entry.unwrap(), Vec::new());
        entry.read_to_end(&mut input).unwrap();
        eprintln!("{name}: {}", entry.path().unwrap().display());
        reader(&input);
    }
}

macro_rules! replay {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*

        #[test]
        fn each_reader_has_a_corpus() {
            assert_eq!(READERS.map(|(name, _)| name), [$(stringify!($name)),*]);
        }
    };
}

replay! {
    kubeconfig kubelet_config crictl_config
    snapshot plan trace cluster_snapshot cluster_plan pods_snapshot policies rules pause listed_images
    archived_pod log_lines compressed_log log_names image_names quiet_hours
    api_server kubelet runtime containerd
}
