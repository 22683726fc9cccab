//! Tests of the precedence of the endpoint settings, one row for each case.

use super::super::generated as pb;
use super::*;
use crate::testing::scripted_runtime::{Scripted, say};

fn named(runtime: &str, images: &str) -> Named {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Named { runtime: some(runtime), images: some(images) }
}

/// Every setting names an endpoint. No well-known socket is tried.
fn all() -> EndpointCandidates {
    EndpointCandidates {
        flag: named("/flag", "/flag-i"),
        environment: named("/env", "/env-i"),
        config: named("/config", "/config-i"),
        crictl: named("unix:///crictl", "unix:///crictl-i"),
        kubelet: named("unix:///kubelet", "unix:///kubelet-i"),
        well_known: Vec::new(),
        ..EndpointCandidates::default()
    }
}

async fn found(candidates: &EndpointCandidates) -> (String, String, Rule) {
    let endpoint = resolve(candidates, &CriOptions::default()).await.unwrap();
    (endpoint.runtime, endpoint.images, endpoint.chosen_by)
}

async fn error(candidates: &EndpointCandidates) -> CriError {
    resolve(candidates, &CriOptions::default()).await.unwrap_err()
}

#[tokio::test]
async fn the_strongest_place_that_names_an_endpoint_wins() {
    let mut candidates = all();
    let expect = |at: &str, rule| (format!("/{at}"), format!("/{at}-i"), rule);
    assert_eq!(found(&candidates).await, expect("flag", Rule::Flag));
    candidates.flag = Named::default();
    assert_eq!(found(&candidates).await, expect("env", Rule::Environment));
    candidates.environment = named(" ", "");
    assert_eq!(found(&candidates).await, expect("config", Rule::Config));
    candidates.config = Named::default();
    assert_eq!(found(&candidates).await, expect("crictl", Rule::Crictl));
    candidates.crictl = named("", "/crictl-i");
    assert_eq!(found(&candidates).await, expect("kubelet", Rule::Kubelet));
}

#[tokio::test]
async fn the_image_endpoint_is_the_runtimes_unless_another_is_named() {
    let none = EndpointCandidates { well_known: Vec::new(), ..EndpointCandidates::default() };
    let rows = [
        ("a flag alone", EndpointCandidates { flag: named("/a", ""), ..none.clone() }, ("/a", "/a")),
        (
            "the flag names the runtime, the configuration the images",
            EndpointCandidates { flag: named("/a", ""), config: named("/b", "/b-i"), ..none.clone() },
            ("/a", "/b-i"),
        ),
        (
            "crictl's images do not go with another runtime",
            EndpointCandidates { flag: named("/a", ""), crictl: all().crictl, ..none.clone() },
            ("/a", "/a"),
        ),
        (
            "crictl names the runtime, the flag the images",
            EndpointCandidates { flag: named("", "/a-i"), crictl: all().crictl, ..none.clone() },
            ("/crictl", "/a-i"),
        ),
        (
            "crictl names the runtime alone",
            EndpointCandidates { crictl: named("/c", ""), ..none.clone() },
            ("/c", "/c"),
        ),
    ];
    for (row, candidates, (runtime, images)) in rows {
        let (found_runtime, found_images, _) = found(&candidates).await;
        assert_eq!((found_runtime.as_str(), found_images.as_str()), (runtime, images), "{row}");
    }
}

#[tokio::test]
async fn only_unix_sockets_are_endpoints() {
    for endpoint in ["unix:///run/x.sock", "unix:/run/x.sock", "/run/x.sock"] {
        assert_eq!(unix_path(endpoint, "runtime.endpoint").unwrap(), Path::new("/run/x.sock"), "{endpoint:?}");
    }
    for endpoint in
        ["tcp://127.0.0.1:1", "npipe:////./pipe/containerd", "http://x", "run/x.sock", "unix://run/x.sock", "~"]
    {
        let candidates = EndpointCandidates { config: named(endpoint, ""), ..all() };
        let error =
            error(&EndpointCandidates { flag: Named::default(), environment: Named::default(), ..candidates }).await;
        assert!(error.is_configuration() && !error.is_unreachable(), "{endpoint}");
        assert!(error.to_string().starts_with(&format!("runtime.endpoint names the endpoint {endpoint};")), "{error}");
    }
}

#[tokio::test]
async fn the_error_for_an_image_endpoint_names_what_named_it() {
    let candidates = EndpointCandidates { flag: named("/a", ""), environment: named("", "tcp://x"), ..all() };
    assert!(error(&candidates).await.to_string().starts_with("IMAGE_SERVICE_ENDPOINT names the endpoint tcp://x;"));
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
    let options = CriOptions { answer_timeout: Duration::from_millis(100), ..CriOptions::default() };
    let mut candidates = EndpointCandidates {
        host: HostFs::new(host.path()),
        well_known: ["/absent", "/stale", "/mute", "/run/cri.sock"].map(PathBuf::from).into(),
        ..EndpointCandidates::default()
    };
    let endpoint = resolve(&candidates, &options).await.unwrap();
    assert_eq!((endpoint.runtime.as_str(), endpoint.chosen_by), (runtime.endpoint(), Rule::WellKnown));
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
    for candidates in [EndpointCandidates { flag: named("/blocked", ""), ..none.clone() }, none.clone()] {
        let error = error(&candidates).await;
        let text = "cannot access /blocked: an earlier call is still blocked in the file system";
        assert!(error.is_unreachable() && error.to_string() == text, "{error}");
    }
    let well_known = vec!["/blocked".into(), runtime.endpoint().into()];
    assert_eq!(found(&EndpointCandidates { well_known, ..none }).await.0, runtime.endpoint());
}
