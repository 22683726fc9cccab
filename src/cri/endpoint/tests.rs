//! Tests of the selection of the sockets.

use super::super::generated as pb;
use super::*;
use crate::testing::scripted_runtime::{Scripted, say};

fn named(endpoint: &str, named_by: &str) -> Named {
    Named { endpoint: endpoint.to_owned(), named_by: named_by.to_owned() }
}

fn candidates(runtime: Named, images: Option<Named>) -> EndpointCandidates {
    EndpointCandidates { runtime: Some(runtime), images, ..EndpointCandidates::default() }
}

async fn error(candidates: &EndpointCandidates) -> CriError {
    resolve(candidates, &CriOptions::default()).await.unwrap_err()
}

#[tokio::test]
async fn the_image_endpoint_is_the_runtimes_unless_another_is_named() {
    for (images, expected) in [(None, "/a"), (Some(named("unix:///b", "a test")), "/b")] {
        let endpoint = resolve(&candidates(named("/a", "a test"), images), &CriOptions::default()).await.unwrap();
        assert_eq!((endpoint.runtime.as_str(), endpoint.images.as_str()), ("/a", expected));
    }
}

#[tokio::test]
async fn only_unix_sockets_are_endpoints() {
    for endpoint in ["unix:///run/x.sock", "unix:/run/x.sock", "/run/x.sock"] {
        assert_eq!(unix_path(&named(endpoint, "a test")).unwrap(), Path::new("/run/x.sock"), "{endpoint:?}");
    }
    for endpoint in
        ["tcp://127.0.0.1:1", "npipe:////./pipe/containerd", "http://x", "run/x.sock", "unix://run/x.sock", "~"]
    {
        let error = error(&candidates(named(endpoint, "crictl.yaml"), None)).await;
        assert!(error.is_configuration() && !error.is_unreachable(), "{endpoint}");
        assert!(error.to_string().starts_with(&format!("crictl.yaml names the endpoint {endpoint};")), "{error}");
    }
}

#[tokio::test]
async fn the_error_for_an_image_endpoint_names_what_named_it() {
    let error = error(&candidates(named("/a", "--runtime-endpoint"), Some(named("tcp://x", "crictl.yaml")))).await;
    assert!(error.to_string().starts_with("crictl.yaml names the endpoint tcp://x;"), "{error}");
}

#[tokio::test]
async fn of_the_well_known_sockets_the_first_that_answers_is_taken() {
    let host = tempfile::tempdir().unwrap();
    let at = |name: &str| host.path().join(name);
    drop(tokio::net::UnixListener::bind(at("stale")).unwrap());
    let _mute = tokio::net::UnixListener::bind(at("mute")).unwrap();
    std::fs::create_dir(at("run")).unwrap();
    let script = |_: &str| vec![say(&pb::VersionResponse::default())];
    let runtime = Scripted::start_with_paths(&at("run"), script);
    let options = CriOptions { answer_timeout: Duration::from_secs(2), ..CriOptions::default() };
    let mut candidates = EndpointCandidates {
        host: HostFs::new(host.path()),
        well_known: ["/absent", "/stale", "/mute", "/run/cri.sock"].map(PathBuf::from).into(),
        ..EndpointCandidates::default()
    };
    let endpoint = resolve(&candidates, &options).await.unwrap();
    assert_eq!(endpoint.runtime, runtime.endpoint());
    assert_eq!(endpoint.images, endpoint.runtime);

    candidates.well_known.pop();
    let error = resolve(&candidates, &options).await.unwrap_err();
    assert!(matches!(error, CriError::Refused { .. }), "the first that is there says what is wrong: {error}");
    candidates.well_known.truncate(1);
    let error = resolve(&candidates, &options).await.unwrap_err();
    assert!(error.is_unreachable() && error.to_string().ends_with("(looked for /absent)"), "{error}");
}

#[tokio::test]
async fn under_a_host_root_paths_are_the_hosts() {
    let host = tempfile::tempdir().unwrap();
    let at = |path: &str| host.path().join(path);
    std::fs::create_dir_all(at("run")).unwrap();
    std::fs::create_dir_all(at("var")).unwrap();
    std::os::unix::fs::symlink("/run", at("var/run")).unwrap();
    std::fs::write(at("run/x.sock"), "").unwrap();
    let alone = tempfile::NamedTempFile::new().unwrap();
    for (row, path, place) in [
        ("there", "/run/x.sock", at("run/x.sock")),
        ("through a link of the host", "/var/run/x.sock", at("run/x.sock")),
        ("not there yet", "/var/run/y.sock", at("run/y.sock")),
        ("mounted by itself", alone.path().to_str().unwrap(), alone.path().into()),
    ] {
        assert_eq!(locate(&HostFs::new(host.path()), path.into()).await.unwrap(), place, "{row}");
    }
}

#[tokio::test]
async fn a_socket_on_a_file_system_that_hangs_costs_one_limit_and_the_other_sockets_are_tried() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = Scripted::start_with_paths(dir.path(), |_| vec![say(&pb::VersionResponse::default())]);
    let host = HostFs::default();
    let _release = host.block("/blocked".as_ref()).await;
    let none = EndpointCandidates { host, well_known: vec!["/blocked".into()], ..EndpointCandidates::default() };
    let runtime_named = EndpointCandidates { runtime: Some(named("/blocked", "a test")), ..none.clone() };
    for candidates in [runtime_named, none.clone()] {
        let error = error(&candidates).await;
        let text = "cannot access /blocked: an earlier call is still blocked in the file system";
        assert!(error.is_unreachable() && error.to_string() == text, "{error}");
    }
    let well_known = vec!["/blocked".into(), runtime.endpoint().into()];
    let candidates = EndpointCandidates { well_known, ..none };
    let endpoint = resolve(&candidates, &CriOptions::default()).await.unwrap();
    assert_eq!(endpoint.runtime, runtime.endpoint());
}
