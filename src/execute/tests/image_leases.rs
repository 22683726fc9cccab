//! Leases on images whose removal fails.

use tonic::Code;

use super::*;
use crate::cri::generated as pb;
use crate::cri::generated::containerd::images as records;
use crate::testing::scripted_runtime::{Scripted, Step, say};

const ID: &str = "sha256:aa";
const TAG: &str = "docker.io/library/a:1";

/// Returns the answer of a containerd that has one image.
fn answer(path: &str, remove: &Step) -> Vec<Step> {
    let image = pb::Image { id: ID.to_owned(), repo_tags: vec![TAG.to_owned()], ..pb::Image::default() };
    let target = records::Descriptor { digest: "sha256:01".to_owned(), ..records::Descriptor::default() };
    let record = records::Image { name: TAG.to_owned(), target: Some(target), ..records::Image::default() };
    match path.rsplit('/').next().unwrap_or_default() {
        "ImageStatus" => {
            vec![say(&pb::ImageStatusResponse { image: Some(image), ..pb::ImageStatusResponse::default() })]
        }
        "ListContainers" => vec![say(&pb::ListContainersResponse::default())],
        "List" if path.contains("Images") => vec![say(&records::ListImagesResponse { images: vec![record] })],
        "RemoveImage" => vec![remove.clone()],
        "Version" | "Create" | "AddResource" | "Delete" => vec![Step::Say(Vec::new())],
        _ => vec![Step::Fail(Code::Unimplemented)],
    }
}

/// Removes the image with undo from a runtime that answers the removal with `remove`. Returns the outcome and the calls for leases and
/// removals.
async fn calls_of_a_removal(remove: Step) -> (String, Vec<String>) {
    let bench = Bench::new(Node::new());
    let dir = tempfile::tempdir().unwrap();
    let runtime = Scripted::start_with_paths(dir.path(), move |path| answer(path, &remove));
    let reader = RuntimeReader::new(runtime.endpoint(), runtime.endpoint(), CriOptions::default());
    let writer = RuntimeWriter::new(&reader, &InProgress::default());
    let mut executor = bench.executor(reader, Remover::Live { writer, roots: bench.roots() });
    executor.options.undo = Duration::from_hours(1);
    let target =
        Target::RemoveImage { id: ID.into(), tags: vec![TAG.to_owned()], digests: Vec::new(), estimated_bytes: 1 };
    let plan = plan(vec![target.remove(RemoveReason::Unused { pressure: false })]);
    let mut outcomes = Vec::new();
    executor.carry_out(&plan, &CancellationToken::new(), &mut |report: Report| outcomes.push(lines(&report))).await;
    let mut calls = runtime.methods();
    calls.retain(|call| ["Create", "AddResource", "RemoveImage", "Delete"].contains(&call.as_str()));
    (outcomes.concat(), calls)
}

#[tokio::test]
async fn a_failed_removal_deletes_its_lease() {
    let (outcome, calls) = calls_of_a_removal(Step::Fail(Code::Internal)).await;
    assert!(outcome.contains("failed: RemoveImage"), "{outcome}");
    assert_eq!(calls, ["Delete", "Create", "AddResource", "RemoveImage", "Delete"]);
}

/// The runtime confirms the removal, and has the image all the same.
#[tokio::test]
async fn a_removal_without_effect_deletes_its_lease() {
    let (outcome, calls) = calls_of_a_removal(Step::Say(Vec::new())).await;
    assert!(outcome.contains("failed: "), "{outcome}");
    assert_eq!(calls, ["Delete", "Create", "AddResource", "RemoveImage", "Delete"]);
}
