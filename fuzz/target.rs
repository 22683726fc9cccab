//! Feeds input to the reader that `KUBEGC_READER` names.
#![no_main]

use std::sync::LazyLock;

use kubegc_fuzz::{READERS, Reader};
use libfuzzer_sys::fuzz_target;

static READER: LazyLock<Reader> = LazyLock::new(|| {
    let name = std::env::var("KUBEGC_READER").expect("KUBEGC_READER names a reader");
    READERS.iter().find(|(known, _)| *known == name).expect("there is a reader of this name").1
});

fuzz_target!(|input: &[u8]| READER(input));
