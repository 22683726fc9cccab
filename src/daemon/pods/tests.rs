//! Table tests of the pod sources that `auto` finds in a directory tree.

use std::fs;
use std::path::Path;

use super::*;
use crate::config::{PodSettings, PodSources};
use crate::model::{PodList, Seen};

struct Host(tempfile::TempDir);

impl Host {
    fn with(paths: &[&str]) -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        for path in paths {
            host.add(path);
        }
        host
    }

    /// Adds a directory if the path ends with a slash, else a file.
    fn add(&self, path: &str) {
        let at = self.0.path().join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        if path.ends_with('/') { fs::create_dir_all(at).unwrap() } else { fs::write(at, "not a kubeconfig").unwrap() }
    }

    fn settings(&self, pods: PodSettings) -> Settings {
        Settings { host_root: self.0.path().to_owned(), pods, ..Settings::default() }
    }

    fn found(&self, pods: PodSettings) -> Result<Vec<(String, String)>, String> {
        let place = PlaceOfPods { settings: self.settings(pods), node: "n1".to_owned() };
        let parts = place.found()?;
        Ok(parts.into_iter().map(|part| (part.source.name().to_owned(), part.why)).collect())
    }
}

fn kubelet(change: impl FnOnce(&mut KubeletSettings)) -> PodSettings {
    let mut pods = PodSettings::default();
    change(&mut pods.kubelet);
    pods
}

fn only(sources: &[PodSourceName]) -> PodSettings {
    PodSettings { sources: PodSources::of(sources.to_vec()).unwrap(), ..PodSettings::default() }
}

/// The name of the case, its files, its settings, and the expected sources.
type Row = (&'static str, &'static [&'static str], PodSettings, Vec<(&'static str, String)>);

const ADMIN: &str = "etc/kubernetes/kubelet.conf";
const OTHER: &str = "var/lib/kubelet/kubeconfig";
const PODS: &str = "var/lib/kubelet/pods/";

#[test]
fn auto_uses_every_available_source_and_says_why() {
    let own = || PodSettings { kubeconfig: Some("/nowhere/config".into()), ..PodSettings::default() };
    let token = || kubelet(|kubelet| kubelet.token_file = Some("/t".into()));
    let api = |why: &str| ("kube-api", why.to_owned());
    let dir = || ("kubelet-dir", "/var/lib/kubelet/pods exists".to_owned());
    let asked = |key: &str| ("kubelet", format!("{key} is set"));
    let kubeadm = || api("the kubelet's kubeconfig /etc/kubernetes/kubelet.conf");
    let rows: [Row; 10] = [
        ("kubeadm's node", &[ADMIN, PODS], PodSettings::default(), vec![kubeadm(), dir()]),
        ("before its first pod", &[ADMIN], PodSettings::default(), vec![kubeadm()]),
        (
            "another node",
            &[OTHER, PODS],
            PodSettings::default(),
            vec![api("the kubelet's kubeconfig /var/lib/kubelet/kubeconfig"), dir()],
        ),
        ("a kubeconfig that is still to come", &[PODS], own(), vec![api("kubeconfig /nowhere/config"), dir()]),
        ("a kubeconfig set counts more", &[ADMIN], own(), vec![api("kubeconfig /nowhere/config")]),
        ("a token for the kubelet", &[PODS], token(), vec![asked("pods.kubelet_token_file"), dir()]),
        ("both", &[ADMIN, PODS], token(), vec![kubeadm(), asked("pods.kubelet_token_file"), dir()]),
        (
            "the read-only port",
            &[],
            kubelet(|kubelet| kubelet.endpoint = "http://127.0.0.1:10255".to_owned()),
            vec![asked("pods.kubelet_endpoint")],
        ),
        (
            "a certificate",
            &[],
            kubelet(|kubelet| kubelet.client_certificate = Some("/c".into())),
            vec![asked("pods.kubelet_client_certificate")],
        ),
        ("an authority", &[], kubelet(|kubelet| kubelet.ca = Some("/c".into())), vec![asked("pods.kubelet_ca")]),
    ];
    for (row, files, pods, expected) in rows {
        let expected: Vec<_> = expected.into_iter().map(|(name, why)| (name.to_owned(), why)).collect();
        assert_eq!(Host::with(files).found(pods), Ok(expected), "{row}");
    }
}

#[test]
fn auto_without_a_source_names_the_places_and_never_uses_the_runtime() {
    for files in [&[][..], &[PODS][..]] {
        let cause = Host::with(files).found(PodSettings::default()).unwrap_err();
        for word in ["/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/kubeconfig", "service account", "\"runtime\""] {
            assert!(cause.contains(word), "{cause}");
        }
    }
}

async fn ask(source: &dyn observe::PodSource) -> Seen<PodList> {
    let (containers, sandboxes) = (Seen::Seen(Vec::new()), Seen::Seen(Vec::new()));
    let asked = source.list(&containers, &sandboxes);
    tokio::time::timeout(std::time::Duration::from_secs(30), asked).await.expect("no answer")
}

#[tokio::test]
async fn auto_looks_again_until_there_is_somebody() {
    let host = Host::with(&[]);
    let source = pod_source(&host.settings(PodSettings::default()), "n1");
    assert!(ask(&*source).await.cause().unwrap().starts_with("no pod source available"));
    assert_eq!(source.name(), "auto");
    host.add(PODS);
    host.add(ADMIN);
    let list = ask(&*source).await;
    let list = list.as_ref().unwrap();
    assert_eq!((source.name(), list.complete), ("kube-api+kubelet-dir", false));
    let chosen: Vec<_> = list.sources.iter().map(|report| report.chosen_by.as_str()).collect();
    assert_eq!(
        chosen,
        ["auto: the kubelet's kubeconfig /etc/kubernetes/kubelet.conf", "auto: /var/lib/kubelet/pods exists"]
    );
    assert!(list.sources[0].missing.as_ref().unwrap().contains("not a kubeconfig"), "{list:?}");
    fs::rename(host.0.path().join(ADMIN), host.0.path().join("elsewhere")).unwrap();
    ask(&*source).await;
    assert_eq!(source.name(), "kube-api+kubelet-dir", "it stays with its choice");
}

#[tokio::test]
async fn sources_that_are_set_are_asked_as_they_are() {
    use PodSourceName::{KubeletDir, None, Runtime};
    let host = Host::with(&[PODS]);
    let rows: [(&[PodSourceName], &str, Option<bool>); 4] = [
        (&[None], "none", Option::None),
        (&[Runtime], "runtime", Some(true)),
        (&[Runtime, KubeletDir], "runtime+kubelet-dir", Some(true)),
        (&[KubeletDir], "kubelet-dir", Some(false)),
    ];
    for (sources, name, complete) in rows {
        let source = pod_source(&host.settings(only(sources)), "n1");
        let list = ask(&*source).await;
        assert_eq!((source.name(), list.as_ref().map(|list| list.complete)), (name, complete), "{sources:?}");
        let chosen = list.as_ref().map_or("pods.source", |list| list.sources[0].chosen_by.as_str());
        assert_eq!(chosen, "pods.source", "{sources:?}");
    }
    assert_eq!(ask(&*pod_source(&host.settings(only(&[None])), "n1")).await.cause(), Some("pods.source is none"));
}

#[tokio::test]
async fn the_kubelet_is_asked_as_set() {
    let mut pods = only(&[PodSourceName::Kubelet]);
    pods.kubelet.client_certificate = Some("/c".into());
    pods.kubelet.client_key = Some("/k".into());
    let place = PlaceOfPods { settings: Host::with(&[]).settings(pods), node: " Node-1 ".to_owned() };
    let access = place.kubelet();
    assert_eq!((access.node.as_str(), access.endpoint.as_str()), ("node-1", "https://127.0.0.1:10250"));
    assert_eq!(access.client, Some(("/c".into(), "/k".into())));
    assert_eq!(access.kubelet_root, Path::new("/var/lib/kubelet"));
}
