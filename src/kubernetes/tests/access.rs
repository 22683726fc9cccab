//! Tests of which credentials are used, and where the files in them are looked for.

use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use crate::host_path::HostFs;
use crate::kubernetes::credentials::access::Credentials;
use crate::kubernetes::{Access, Cause, Connection, CredentialCandidates};

const KUBECONFIG: &str = r"
apiVersion: v1
kind: Config
current-context: here
clusters:
- name: c
  cluster: {server: 'https://10.0.0.1:6443', certificate-authority: pki/ca.crt}
contexts:
- name: here
  context: {cluster: c, user: u}
users:
- name: u
  user:
    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem
    client-key: /var/lib/kubelet/pki/kubelet-client-current.pem
";

/// A mounted host, and files of the agent beside it.
struct Host {
    dir: TempDir,
}

impl Host {
    fn new() -> Self {
        let host = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(host.root()).unwrap();
        host
    }

    fn with(self, path: &str, text: &str) -> Self {
        let path = self.at(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    fn root(&self) -> std::path::PathBuf {
        self.dir.path().join("host")
    }

    fn at(&self, path: &str) -> std::path::PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }

    fn candidates(&self) -> CredentialCandidates {
        CredentialCandidates {
            account: self.dir.path().join("account"),
            host: HostFs::new(self.root()),
            ..CredentialCandidates::default()
        }
    }

    fn set(&self, kubeconfig: impl AsRef<Path>) -> CredentialCandidates {
        CredentialCandidates { kubeconfigs: vec![kubeconfig.as_ref().to_owned()], ..self.candidates() }
    }
}

fn text(access: Result<Access, Cause>) -> String {
    access.map_or_else(|error| format!("error: {error}"), |access| access.chosen_by)
}

fn fault(candidates: &CredentialCandidates) -> String {
    candidates.find().and_then(|access| access.target().map(drop)).unwrap_err().to_string()
}

#[test]
fn settings_precede_the_service_account_and_kubelet_credentials() {
    let host = Host::new();
    let nothing = "error: no credentials for the API server: no kubeconfig is set, no service account exists, and none of these files: \
                   /etc/kubernetes/kubelet.conf, /var/lib/kubelet/kubeconfig";
    assert_eq!(text(host.candidates().find()), nothing);
    let host = host.with("/var/lib/kubelet/kubeconfig", KUBECONFIG);
    assert_eq!(text(host.candidates().find()), "the kubelet's kubeconfig /var/lib/kubelet/kubeconfig");
    let host = host.with("/etc/kubernetes/kubelet.conf", KUBECONFIG);
    assert_eq!(text(host.candidates().find()), "the kubelet's kubeconfig /etc/kubernetes/kubelet.conf");
    std::fs::create_dir(host.dir.path().join("account")).unwrap();
    std::fs::write(host.dir.path().join("account/token"), "t").unwrap();
    assert_eq!(text(host.candidates().find()), "the pod's service account");
    let host = host.with("/root/.kube/config", KUBECONFIG);
    let set = host.set("/root/.kube/config").find().unwrap();
    assert_eq!(set.credentials, Credentials::Kubeconfigs(vec!["/root/.kube/config".into()]));
    assert_eq!(set.chosen_by, "kubeconfig /root/.kube/config");
}

#[test]
fn a_collector_of_a_cluster_has_no_credentials_of_a_node() {
    let host = Host::new().with("/etc/kubernetes/kubelet.conf", KUBECONFIG);
    let candidates = CredentialCandidates { without_kubelets: true, ..host.candidates() };
    let nothing = "error: no credentials for the API server: no kubeconfig is set, and no service account exists";
    assert_eq!(text(candidates.find()), nothing);
}

#[test]
fn a_configured_but_missing_kubeconfig_is_an_error() {
    let host = Host::new().with("/etc/kubernetes/kubelet.conf", KUBECONFIG);
    assert_eq!(text(host.set("/nowhere").find()), "error: kubeconfig /nowhere does not exist");
}

#[test]
fn kubeconfig_files_and_links_resolve_on_the_host() {
    let own = rcgen::generate_simple_self_signed(["node".to_owned()]).unwrap();
    let pem = format!("{}{}", own.cert.pem(), own.signing_key.serialize_pem());
    let host = Host::new()
        .with("/etc/kubernetes/kubelet.conf", KUBECONFIG)
        .with("/etc/kubernetes/pki/ca.crt", &own.cert.pem())
        .with("/var/lib/kubelet/pki/kubelet-client-1.pem", &pem);
    let current = host.at("/var/lib/kubelet/pki/kubelet-client-current.pem");
    symlink("/var/lib/kubelet/pki/kubelet-client-1.pem", current).unwrap();
    let target = host.candidates().find().unwrap().target().unwrap();
    assert_eq!(target.identity.unwrap().cert, [own.cert.der().clone()]);
    assert_eq!(target.config.cluster_url.to_string(), "https://10.0.0.1:6443/");
    assert!(target.verifier.is_some(), "the authority was read");
}

#[test]
fn the_kubeconfig_of_the_agent_is_the_fallback() {
    let host = Host::new();
    let own = host.dir.path().join("own/config");
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    std::fs::write(&own, KUBECONFIG.replace("certificate-authority: pki/ca.crt", "")).unwrap();
    // A file that does not exist anywhere keeps its path, so that the message shows it.
    let text = fault(&host.set(&own));
    assert!(
        text.contains("client-certificate /var/lib/kubelet/pki/kubelet-client-current.pem: No such file"),
        "{text}"
    );
}

#[test]
fn a_kubelet_configuration_in_the_place_of_a_kubeconfig_is_passed_over() {
    let configuration = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n";
    let host = Host::new().with("/etc/kubernetes/kubelet.conf", configuration);
    assert!(matches!(host.candidates().find(), Err(Cause::NoAccess { .. })));
    let host = host.with("/var/lib/kubelet/kubeconfig", KUBECONFIG);
    assert_eq!(text(host.candidates().find()), "the kubelet's kubeconfig /var/lib/kubelet/kubeconfig");
}

#[test]
fn faults_in_a_kubeconfig_are_reported_with_its_path() {
    let at = "/etc/kubernetes/kubelet.conf";
    let bad = |text: &str| fault(&Host::new().with(at, text).with("/etc/kubernetes/pki/ca.crt", "").candidates());
    let text = bad("{");
    assert!(text.starts_with("/etc/kubernetes/kubelet.conf: not a kubeconfig that can be used: "), "{text}");
    let text = bad(&KUBECONFIG.replace("current-context: here", "current-context: there"));
    assert!(text.contains("there"), "{text}");
    let exec = KUBECONFIG.replace("  user:\n", "  user:\n    exec: {apiVersion: v1, command: /bin/true}\n");
    let text = bad(&exec);
    assert!(text.contains("its credentials come from a program") && text.contains(at), "{text}");
    let text = fault(&Host::new().with(at, KUBECONFIG).candidates());
    assert!(text.contains("pki/ca.crt"), "the missing authority is named: {text}");
}

#[test]
fn a_program_of_an_unused_user_is_ignored() {
    let other = format!("{KUBECONFIG}- name: other\n  user:\n    exec: {{apiVersion: v1, command: /bin/true}}\n");
    let host = Host::new().with("/etc/kubernetes/kubelet.conf", &other).with("/etc/kubernetes/pki/ca.crt", "");
    let text = fault(&host.candidates());
    assert!(text.contains("no certificate") && !text.contains("program"), "{text}");
}

#[test]
fn a_kubeconfig_that_may_not_be_read_is_reported() {
    // A test may run as root, which can read every file. A directory in place of the file fails for root too.
    let host = Host::new().with("/etc/kubernetes/kubelet.conf/file", "");
    let text = fault(&host.candidates());
    assert!(text.starts_with("cannot read /etc/kubernetes/kubelet.conf: "), "{text}");
}

#[tokio::test]
async fn invalid_certificates_are_reported_when_the_connection_opens() {
    let host = Host::new()
        .with("/etc/kubernetes/kubelet.conf", KUBECONFIG)
        .with("/etc/kubernetes/pki/ca.crt", &rcgen::generate_simple_self_signed([]).unwrap().cert.pem())
        .with("/var/lib/kubelet/pki/kubelet-client-current.pem", "rubbish");
    let error = Connection::new(host.candidates()).clients().await.map(drop).unwrap_err();
    let text = error.to_string();
    let cause =
        "/etc/kubernetes/kubelet.conf: not a kubeconfig that can be used: client-certificate: no certificate in PEM";
    assert_eq!(text, cause);
}

#[tokio::test]
async fn credentials_that_come_later_are_found_then() {
    let host = Host::new();
    let connection = Connection::new(host.candidates());
    assert!(matches!(connection.clients().await.map(drop), Err(Cause::NoAccess { .. })));
    let plain = KUBECONFIG.lines().filter(|line| !line.contains("client-")).collect::<Vec<_>>().join("\n");
    let plain = plain.replace("certificate-authority: pki/ca.crt", "").replace("  user:", "  user: {}");
    let _host = host.with("/var/lib/kubelet/kubeconfig", &plain);
    connection.clients().await.unwrap();
    assert_eq!(connection.chosen_by().await, "the kubelet's kubeconfig /var/lib/kubelet/kubeconfig");
}
