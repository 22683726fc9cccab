//! `kubegc disk --by`: what each pod or namespace takes.

use super::{By, section};
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::render::format;
use crate::cli::render::output::{Document, Output, is_wide};
use crate::cli::render::tables::{DISK_BY_NAMESPACE, DISK_BY_POD};
use crate::model::at_least_text;
use crate::store::{DiskByPod, NamespaceSpace, PodSpace, Space};

/// Prints the rows. It is an error if a part could not be read.
pub(super) fn print(by_pod: &DiskByPod, by: By, most: usize, output: &mut Output) -> Result<(), CliError> {
    output.result(&Document::of(by_pod), || text(by_pod, by, most))?;
    match by_pod.missing.first() {
        Some(missing) => Err(CliError::message(ErrorKind::Partial, format!("cannot read {missing}"))),
        None => Ok(()),
    }
}

fn text(by_pod: &DiskByPod, by: By, most: usize) -> String {
    let rows = match by {
        By::Pod => section(by_pod.pods.len(), most, "pods", |most| pods(&by_pod.pods, most)),
        By::Namespace => {
            section(by_pod.namespaces.len(), most, "namespaces", |most| namespaces(&by_pod.namespaces, most))
        }
    };
    let missing = by_pod.missing.iter().map(|missing| format!("Not read: {}\n", format::printable(missing)));
    rows + &missing.collect::<String>()
}

fn pods(pods: &[PodSpace], most: usize) -> String {
    DISK_BY_POD.text(pods.iter().take(most).map(|pod| {
        let named = if is_wide() { usize::MAX } else { 1 };
        let volume = |volume: &crate::model::VolumeUsage| {
            format!("{} \"{}\" {}", volume.plugin, volume.name, format::size(volume.usage.bytes))
        };
        let largest: Vec<_> = pod.volumes.iter().take(named).map(volume).collect();
        let [size, layers, volumes, logs, other] = sizes(&pod.space);
        [pod.pod.name_or_uid(), size, layers, volumes, logs, other, largest.join(", ")]
    }))
}

fn namespaces(namespaces: &[NamespaceSpace], most: usize) -> String {
    DISK_BY_NAMESPACE.text(namespaces.iter().take(most).map(|one| {
        let name = if one.namespace.is_empty() { "not known" } else { &one.namespace };
        let [size, layers, volumes, logs, other] = sizes(&one.space);
        [name.to_owned(), one.pods.to_string(), size, layers, volumes, logs, other]
    }))
}

fn sizes(space: &Space) -> [String; 5] {
    [
        at_least_text(space.at_least, space.bytes),
        space.writable_layer_bytes.map_or_else(|| "-".to_owned(), format::size),
        format::size(space.volume_bytes),
        format::size(space.log_bytes),
        format::size(space.other_bytes),
    ]
}
