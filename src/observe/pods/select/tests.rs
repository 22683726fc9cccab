//! Table tests of the pod sources that `auto` finds in a directory tree.

use std::fs;

use super::*;
use crate::host_path::HostFs;
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

    fn options(&self, sources: &[PodSourceName]) -> PodSourceOptions {
        let host = HostFs::new(self.0.path());
        let credentials = CredentialCandidates { host: host.clone(), ..CredentialCandidates::default() };
        let kubelet = KubeletAccess {
            endpoint: "http://127.0.0.1:1".to_owned(),
            node: "n1".to_owned(),
            ca: None,
            token_file: None,
            client: None,
            account: credentials.account.clone(),
            host,
            kubelet_root: credentials.kubelet_root.clone(),
        };
        PodSourceOptions {
            sources: sources.to_vec(),
            node: "n1".to_owned(),
            credentials,
            kubelet,
            kubelet_key: None,
            clock: || jiff::Timestamp::UNIX_EPOCH,
        }
    }

    fn auto(&self) -> PodSourceOptions {
        self.options(&[PodSourceName::Auto])
    }
}

/// Returns the names of the sources that `auto` finds, each with the reason.
fn auto_entries(options: &PodSourceOptions) -> Result<Vec<(String, String)>, String> {
    Ok(options.search()?.into_iter().map(|entry| (entry.source.name().to_owned(), entry.why)).collect())
}

/// The name of the case, its files, its kubeconfig and key of the kubelet, and the expected sources.
type Row =
    (&'static str, &'static [&'static str], (Option<&'static str>, Option<&'static str>), Vec<(&'static str, String)>);

const ADMIN: &str = "etc/kubernetes/kubelet.conf";
const OTHER: &str = "var/lib/kubelet/kubeconfig";
const PODS: &str = "var/lib/kubelet/pods/";

#[test]
fn auto_uses_every_available_source_and_says_why() {
    let (own, token) = (Some("/nowhere/config"), Some("pods.kubelet_token_file"));
    let api = |why: &str| ("kube-api", why.to_owned());
    let kubelet = || ("kubelet", "pods.kubelet_token_file is set".to_owned());
    let kubeadm = || api("the kubelet's kubeconfig /etc/kubernetes/kubelet.conf");
    let rows: [Row; 6] = [
        ("kubeadm's node", &[ADMIN, PODS], (None, None), vec![kubeadm()]),
        (
            "another node",
            &[OTHER, PODS],
            (None, None),
            vec![api("the kubelet's kubeconfig /var/lib/kubelet/kubeconfig")],
        ),
        ("a kubeconfig that is still to come", &[PODS], (own, None), vec![api("kubeconfig /nowhere/config")]),
        ("a kubeconfig set counts more", &[ADMIN], (own, None), vec![api("kubeconfig /nowhere/config")]),
        ("a token for the kubelet", &[PODS], (None, token), vec![kubelet()]),
        ("both", &[ADMIN, PODS], (None, token), vec![kubeadm(), kubelet()]),
    ];
    for (row, files, (kubeconfig, kubelet_key), expected) in rows {
        let host = Host::with(files);
        let mut options = PodSourceOptions { kubelet_key, ..host.auto() };
        options.credentials.kubeconfigs = kubeconfig.map(Into::into).into_iter().collect();
        let expected: Vec<_> = expected.into_iter().map(|(name, why)| (name.to_owned(), why)).collect();
        assert_eq!(auto_entries(&options), Ok(expected), "{row}");
    }
}

#[test]
fn auto_without_a_source_never_uses_the_runtime() {
    for files in [&[][..], &[PODS][..]] {
        let cause = auto_entries(&Host::with(files).auto()).unwrap_err();
        for word in ["/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/kubeconfig", "service account", "\"runtime\""] {
            assert!(cause.contains(word), "{cause}");
        }
    }
}

async fn list_of(source: &dyn PodSource) -> Seen<PodList> {
    let (containers, sandboxes) = (Seen::Seen(Vec::new()), Seen::Seen(Vec::new()));
    let answer = source.list(&containers, &sandboxes);
    tokio::time::timeout(std::time::Duration::from_secs(30), answer).await.expect("no answer")
}

#[tokio::test]
async fn auto_looks_again_until_there_is_somebody() {
    let host = Host::with(&[]);
    let source = host.auto().select();
    assert!(list_of(&*source).await.cause().unwrap().starts_with("no pod source available"));
    assert_eq!(source.name(), "auto");
    host.add(PODS);
    host.add(ADMIN);
    assert!(list_of(&*source).await.cause().unwrap().contains("not a kubeconfig"));
    assert_eq!(source.name(), "kube-api");
    fs::rename(host.0.path().join(ADMIN), host.0.path().join("elsewhere")).unwrap();
    list_of(&*source).await;
    assert_eq!(source.name(), "kube-api", "it stays with its choice");
}

#[tokio::test]
async fn configured_sources_are_used_unchanged() {
    use PodSourceName::{Kubelet, None, Runtime};
    let host = Host::with(&[PODS]);
    let rows: [(&[PodSourceName], &str, Option<bool>); 3] = [
        (&[None], "none", Option::None),
        (&[Runtime], "runtime", Some(true)),
        (&[Runtime, Kubelet], "runtime+kubelet", Some(false)),
    ];
    for (sources, name, complete) in rows {
        let source = host.options(sources).select();
        let list = list_of(&*source).await;
        assert_eq!((source.name(), list.as_ref().map(|list| list.complete)), (name, complete), "{sources:?}");
        let chosen = list.as_ref().map_or("pods.source", |list| list.sources[0].chosen_by.as_str());
        assert_eq!(chosen, "pods.source", "{sources:?}");
    }
    assert_eq!(list_of(&*host.options(&[None]).select()).await.cause(), Some("pods.source is none"));
}

#[tokio::test]
async fn auto_has_no_pods_until_a_source_is_found() {
    let auto = Host::with(&[]).auto().select();
    assert_eq!((auto.name(), auto.has_kubelet()), ("auto", true));
    assert_eq!(auto.cached_pods().await, []);
}
