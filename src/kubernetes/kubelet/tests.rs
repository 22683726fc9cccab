//! Tests of the kubelet's endpoint over real sockets.

use std::time::Duration;

use super::*;
use crate::testing::fake_kubelet::{Authority, FakeKubelet, TlsIdentity};

fn with(kubelet: &FakeKubelet, change: impl FnOnce(&mut KubeletAccess)) -> Kubelet {
    let mut access = kubelet.access();
    change(&mut access);
    Kubelet::new(access)
}

async fn cause(kubelet: &Kubelet) -> String {
    kubelet.pods().await.unwrap_err().to_string()
}

#[tokio::test]
async fn the_read_only_port_receives_no_credentials() {
    let kubelet = FakeKubelet::plain().await;
    kubelet.set_pods(&[]);
    kubelet.file("account/token", "secret");
    let answer = kubelet.client().pods().await.unwrap();
    assert_eq!((answer.answered_at, answer.pods.len()), ("2026-01-02T12:00:00Z".parse().unwrap(), 0));
    assert_eq!(kubelet.requests(), [("/pods".to_owned(), None)]);
}

#[tokio::test]
async fn the_kubelet_is_verified_by_certificate_or_authority() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (own, other) = (TlsIdentity::own("not-the-nodes-name"), TlsIdentity::own("n1"));
    let rows = [
        ("its very certificate, whatever its name", &own, &own.certificate, None),
        ("another self-made one of the same name", &other, &own.certificate, Some("certificate")),
        ("signed, for the node", &authority.identity("n1"), &authority.ca, None),
        ("signed, for the address", &authority.identity("127.0.0.1"), &authority.ca, None),
        ("signed, for another node", &authority.identity("n2"), &authority.ca, Some("not valid for")),
        ("signed by a stranger", &stranger.identity("n1"), &authority.ca, Some("certificate")),
    ];
    for (row, identity, ca, fault) in rows {
        let kubelet = FakeKubelet::tls(identity, None).await;
        kubelet.set_pods(&[]);
        let path = kubelet.file("ca.pem", ca);
        let answer = with(&kubelet, |access| access.ca = Some(path)).pods().await;
        match (answer, fault) {
            (Ok(_), None) => {}
            (Err(error), Some(fault)) => assert!(error.to_string().contains(fault), "{row}: {error}"),
            (answer, _) => panic!("{row}: {answer:?}"),
        }
        assert_eq!(kubelet.requests().is_empty(), fault.is_some(), "{row}");
    }
}

#[tokio::test]
async fn the_default_certificate_is_in_the_kubelet_root() {
    let authority = Authority::new();
    for (file, identity, text) in [
        ("kubelet/pki/kubelet.crt", TlsIdentity::own("x"), None),
        ("kubelet/pki/kubelet-server-current.pem", TlsIdentity::own("x"), None),
        ("account/ca.crt", authority.identity("n1"), Some(&authority.ca)),
    ] {
        let kubelet = FakeKubelet::tls(&identity, None).await;
        kubelet.set_pods(&[]);
        let why = cause(&kubelet.client()).await;
        assert!(why.contains("set pods.kubelet_ca") && why.contains("/kubelet/pki/kubelet.crt"), "{why}");
        let with_key = format!("{}{}", identity.certificate, identity.key);
        kubelet.file(file, text.unwrap_or(&with_key));
        kubelet.client().pods().await.unwrap();
    }
}

#[tokio::test]
async fn a_token_is_reread_for_each_request() {
    let own = TlsIdentity::own("n1");
    let kubelet = FakeKubelet::tls(&own, None).await;
    kubelet.set_pods(&[]);
    let ca = kubelet.file("ca.pem", &own.certificate);
    kubelet.file("account/token", "of-account\n");
    let client = with(&kubelet, |access| access.ca = Some(ca.clone()));
    client.pods().await.unwrap();
    kubelet.file("account/token", "renewed");
    client.pods().await.unwrap();
    let file = kubelet.file("my-token", "mine");
    let client = with(&kubelet, |access| (access.ca, access.token_file) = (Some(ca), Some(file)));
    client.pods().await.unwrap();
    let tokens: Vec<_> = kubelet.requests().into_iter().map(|(_, token)| token.unwrap()).collect();
    assert_eq!(tokens, ["Bearer of-account", "Bearer renewed", "Bearer mine"]);
}

#[tokio::test]
async fn a_client_certificate_is_shown() {
    let (own, authority) = (TlsIdentity::own("n1"), Authority::new());
    let me = authority.identity("kubegc");
    let kubelet = FakeKubelet::tls(&own, Some(&authority)).await;
    kubelet.set_pods(&[]);
    let ca = kubelet.file("ca.pem", &own.certificate);
    let both = kubelet.file("both.pem", &format!("{}{}", me.certificate, me.key));
    assert!(with(&kubelet, |access| access.ca = Some(ca.clone())).pods().await.is_err(), "no certificate is shown");
    let access = |access: &mut KubeletAccess| {
        (access.ca, access.client) = (Some(ca.clone()), Some((both.clone(), both.clone())));
    };
    with(&kubelet, access).pods().await.unwrap();
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let kubelet = FakeKubelet::plain().await;
    let rows = [
        (
            401,
            "Unauthorized",
            "the kubelet refused /pods: not authenticated; set pods.kubelet_token_file or \
                               pods.kubelet_client_certificate",
        ),
        (
            403,
            "Forbidden (user=x)",
            "may not read /pods from the kubelet: grant `get` on nodes/proxy (from Kubernetes 1.33 \
                                     nodes/pods is enough)",
        ),
        (500, "it broke\n", "the kubelet answers 500 for /pods: \"it broke\""),
        (200, "{}", "the kubelet's answer for /pods is not understood: missing field `items` at line 1 column 2"),
    ];
    for (code, text, expected) in rows {
        kubelet.set_answer("/pods", code, text);
        assert_eq!(cause(&kubelet.client()).await, expected);
    }
    kubelet.set_answer("/metrics", 403, "");
    let error = kubelet.client().process().await.unwrap_err().to_string();
    assert_eq!(error, "may not read /metrics from the kubelet: grant `get` on nodes/metrics");
    kubelet.set_answer("/healthz", 500, "[-]syncloop failed: reason withheld");
    let error = kubelet.client().check_health().await.unwrap_err().to_string();
    assert_eq!(error, "the kubelet answers 500 for /healthz: \"[-]syncloop failed: reason withheld\"");
    kubelet.set_pods(&[]);
    kubelet.set_date("soon");
    assert_eq!(cause(&kubelet.client()).await, "the kubelet's answer for /pods is not understood: it has no date");
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_named() {
    let own = TlsIdentity::own("n1");
    let kubelet = FakeKubelet::tls(&own, None).await;
    let ca = kubelet.file("ca.pem", &own.certificate);
    let junk = kubelet.file("junk", "not a certificate");
    let absent = with(&kubelet, |access| access.ca = Some("/absent".into()));
    assert_eq!(cause(&absent).await, "cannot read /absent: entity not found");
    let junky = with(&kubelet, |access| access.ca = Some(junk.clone()));
    assert_eq!(cause(&junky).await, "/junk: there is no certificate in it");
    let keyless = with(&kubelet, |access| {
        (access.ca, access.client) = (Some(ca.clone()), Some((ca.clone(), junk.clone())));
    });
    assert!(cause(&keyless).await.starts_with("/junk: "), "{}", cause(&keyless).await);
    let tokenless = with(&kubelet, |access| (access.ca, access.token_file) = (Some(ca.clone()), Some("/t".into())));
    assert_eq!(cause(&tokenless).await, "cannot read /t: entity not found");
}

#[tokio::test]
async fn an_unavailable_or_hanging_kubelet_is_reported_promptly() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let kubelet = FakeKubelet::plain().await;
    let access = KubeletAccess { endpoint, ..kubelet.access() };
    let hangs = Kubelet::new(access.clone()).with_limit(Duration::from_millis(50));
    assert_eq!(cause(&hangs).await, "cannot read /pods from the kubelet: no answer within 0 s");
    drop(silent);
    let why = cause(&Kubelet::new(access)).await;
    assert!(why.starts_with("cannot read /pods from the kubelet: ") && why.contains("refused"), "{why}");
}

#[tokio::test]
async fn credentials_on_a_blocked_disk_are_an_immediate_error() {
    let kubelet = FakeKubelet::plain().await.client();
    let _release = kubelet.access.host.block("the credentials".as_ref()).await;
    let why = cause(&kubelet).await;
    assert!(why.contains("the credentials: an earlier call is still blocked"), "{why}");
}
