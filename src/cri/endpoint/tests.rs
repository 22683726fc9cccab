//! Tests of the selection of the sockets.

use tonic::Code;

use super::super::generated as pb;
use super::*;
use crate::testing::scripted_runtime::{Scripted, Step, say};

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
async fn the_image_endpoint_defaults_to_the_runtime_endpoint() {
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
async fn an_image_endpoint_error_names_its_origin() {
    let error = error(&candidates(named("/a", "--runtime-endpoint"), Some(named("tcp://x", "crictl.yaml")))).await;
    assert!(error.to_string().starts_with("crictl.yaml names the endpoint tcp://x;"), "{error}");
}

/// Runs a runtime at the socket `PATH/cri.sock` of a host, and returns the socket's path on the host.
fn runtime(host: &Path, path: &str) -> (Scripted, PathBuf) {
    let dir = host.join(path);
    std::fs::create_dir(&dir).unwrap();
    let script = |_: &str| vec![say(&pb::VersionResponse::default())];
    (Scripted::start_with_paths(&dir, script), Path::new("/").join(path).join("cri.sock"))
}

fn searched(host: &Path, well_known: &[&Path]) -> EndpointCandidates {
    let well_known = well_known.iter().map(|path| path.to_path_buf()).collect();
    EndpointCandidates { host: HostFs::new(host), well_known, ..EndpointCandidates::default() }
}

#[tokio::test]
async fn a_well_known_socket_is_used_without_other_runtimes() {
    let host = tempfile::tempdir().unwrap();
    let (running, socket) = runtime(host.path(), "run");
    std::os::unix::fs::symlink("/run/cri.sock", host.path().join("link")).unwrap();
    std::fs::create_dir(host.path().join("docker")).unwrap();
    let _docker = Scripted::start_with_paths(&host.path().join("docker"), |_| vec![Step::Fail(Code::Unimplemented)]);
    let others = ["/absent", "/docker/cri.sock", "/link"].map(Path::new);
    let candidates = searched(host.path(), &[&others[..], &[&socket]].concat());
    let endpoint = resolve(&candidates, &CriOptions::default()).await.unwrap();
    assert_eq!((endpoint.runtime.as_str(), &endpoint.images), (running.endpoint(), &endpoint.runtime));
    assert_eq!(endpoint.others.len(), 3, "{:?}", endpoint.others);

    let error = error(&searched(host.path(), &others[..2])).await;
    assert!(matches!(error, CriError::NotCri { .. }), "what is there says what is wrong: {error}");
    let error = resolve(&searched(host.path(), &others[..1]), &CriOptions::default()).await.unwrap_err();
    assert!(error.is_unreachable() && error.to_string().ends_with("(looked for /absent)"), "{error}");
}

/// An empty runtime beside the kubelet's shows a node on which everything is unused.
#[tokio::test]
async fn several_runtimes_are_an_error_that_names_all() {
    let host = tempfile::tempdir().unwrap();
    let options = CriOptions { answer_timeout: Duration::from_secs(2), ..CriOptions::default() };
    drop(tokio::net::UnixListener::bind(host.path().join("stopped")).unwrap());
    let _mute = tokio::net::UnixListener::bind(host.path().join("mute")).unwrap();
    let (_runtime, socket) = runtime(host.path(), "run");
    let (_second, second) = runtime(host.path(), "second");
    for other in [Path::new("/stopped"), Path::new("/mute"), &second] {
        let error = resolve(&searched(host.path(), &[&socket, other]), &options).await.unwrap_err();
        let names = format!("several runtimes are on this host: /run/cri.sock, {}; name the one", other.display());
        assert!(error.is_unreachable() && error.to_string().starts_with(&names), "{error}");
    }
    let only = resolve(&searched(host.path(), &[Path::new("/stopped")]), &options).await.unwrap_err();
    assert!(matches!(only, CriError::Unconnected { .. }), "the only one says what is wrong: {only}");
}

#[tokio::test]
async fn a_runtime_that_comes_later_is_noticed() {
    let host = tempfile::tempdir().unwrap();
    let (_runtime, socket) = runtime(host.path(), "run");
    let candidates = searched(host.path(), &[Path::new("/second/cri.sock"), &socket]);
    let Endpoint { runtime: endpoint, images, others } = resolve(&candidates, &CriOptions::default()).await.unwrap();
    let reader = RuntimeReader::new(&endpoint, &images, CriOptions::default());
    check_alone(&reader, &candidates.host, &others).await.unwrap();
    let _second = runtime(host.path(), "second");
    let error = check_alone(&reader, &candidates.host, &others).await.unwrap_err().to_string();
    assert!(error.contains(&format!("{endpoint}, /second/cri.sock; name")), "{error}");
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
async fn a_socket_on_a_hanging_disk_allows_other_sockets() {
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
