//! Certificates and keys that kubectl accepts, and others that it refuses (`t4/tls`). Both programs reach the same server, or
//! neither does.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::data;
use super::fake_api::Fake;

/// A block that is a certificate by its label only.
const BAD: &str = "-----BEGIN CERTIFICATE-----\nTUlJQg==\n-----END CERTIFICATE-----\n";
const END: &str = "-----END CERTIFICATE-----\n";

fn file(name: &str) -> String {
    data(&format!("t4/tls/{name}"))
}

/// Returns the certificate and the key of an identity.
fn parts(name: &str) -> (String, String) {
    let text = file(name);
    let (certificate, key) = text.split_at(text.find(END).unwrap() + END.len());
    (certificate.to_owned(), key.to_owned())
}

fn certificate(name: &str) -> String {
    parts(name).0
}

/// Starts a server with this identity. With `clients`, clients need a certificate.
fn server(identity: &str, clients: bool) -> Fake {
    let mut scenario: Value = serde_json::from_str(&data("t4/extra/T4-C-legacy.json")).unwrap();
    scenario["tls"] = json!({"identity": format!("t4/tls/{identity}")});
    if clients {
        scenario["tls"]["clients"] = "t4/tls/ca.crt".into();
    }
    Fake::play(&scenario)
}

fn kubeconfig(authorities: &str, user: &str) -> String {
    let authorities = BASE64_STANDARD.encode(authorities);
    format!(
        "current-context: x\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\nclusters: [{{name: c, cluster: \
         {{server: 'https://127.0.0.1:18080', certificate-authority-data: {authorities}}}}}]\n\
         users: [{{name: u, user: {{{user}}}}}]\n"
    )
}

fn user(certificate: &str, key: &str) -> String {
    let [certificate, key] = [certificate, key].map(|pem| BASE64_STANDARD.encode(pem));
    format!("client-certificate-data: {certificate}, client-key-data: {key}")
}

/// Compares both programs at a server, and returns what kubegc wrote.
fn compare(row: &str, fake: Fake, kubeconfig: &str, connects: bool) -> String {
    let fake = fake.with_kubeconfig(kubeconfig);
    assert_eq!(fake.accepts_kubectl(&["get", "--raw", "/version"]), connects, "{row}: kubectl");
    let text = fake.run(&["plan"]);
    assert_eq!(text.contains("delete  ConfigMap"), connects, "{row}: {text}");
    text
}

#[test]
fn the_kubeconfigs_of_the_reports_connect() {
    for (name, identity, clients) in [
        ("T4-C2-leaf-as-ca", "server.pem", false),
        ("T4-C3-self-signed-ca-true", "self-signed.pem", false),
        ("T4-C4-client-key-p521", "server.pem", true),
        ("T4-C5-rsa-key-wrong-label", "server.pem", true),
        ("T4-C11-bundle-with-bad-certificate", "server.pem", false),
    ] {
        compare(name, server(identity, clients), &data(&format!("t4/{name}.yaml")), true);
    }
}

#[test]
fn servers_are_verified_as_by_kubectl() {
    let (ca, expired) = (file("ca.crt"), file("expired-ca.crt"));
    let rows = [
        ("CA:TRUE, signed by an authority", "ca-true.pem", ca.clone(), true),
        ("CA:TRUE, signed by another authority", "ca-true.pem", file("p256-ca.crt"), false),
        ("a key on P-521", "p521.pem", ca.clone(), true),
        ("a key on P-521, which is the authority", "p521.pem", certificate("p521.pem"), true),
        ("signed on P-521 with SHA-256", "by-p521-sha256.pem", file("p521-ca.crt"), true),
        ("signed on P-521 with SHA-512", "by-p521-sha512.pem", file("p521-ca.crt"), true),
        ("another server as the authority", "server.pem", certificate("p521.pem"), false),
        ("signed with the key of a server", "by-server.pem", certificate("server.pem"), false),
        ("an authority that may sign no certificate", "by-non-signer.pem", file("non-signer.crt"), false),
        ("an expired server", "expired.pem", ca.clone(), false),
        ("an expired server as the authority", "expired.pem", certificate("expired.pem"), false),
        ("an expired authority", "by-expired.pem", expired.clone(), false),
        ("an expired authority beside another", "by-expired.pem", format!("{ca}{expired}"), false),
        ("a certificate for clients", "for-clients.pem", ca.clone(), false),
        ("a certificate for clients as the authority", "for-clients.pem", certificate("for-clients.pem"), false),
        ("a bad block alone", "server.pem", BAD.to_owned(), false),
        ("a block without its end", "server.pem", format!("{}\n{ca}", &ca[..200]), true),
        ("text and a key before", "server.pem", format!("subject=x\n{}{ca}", parts("server.pem").1), true),
        ("lines of Windows", "server.pem", ca.replace('\n', "\r\n"), true),
        ("another label", "server.pem", ca.replace("CERTIFICATE", "TRUSTED CERTIFICATE"), false),
    ];
    for (row, identity, authorities, connects) in rows {
        compare(row, server(identity, false), &kubeconfig(&authorities, "token: t"), connects);
    }
}

#[test]
fn client_keys_are_those_of_kubectl() {
    let compare = |row: &str, (certificate, key): (String, String), connects| {
        let kubeconfig = kubeconfig(&file("ca.crt"), &user(&certificate, &key));
        compare(row, server("server.pem", true), &kubeconfig, connects)
    };
    for name in ["p521-sec1", "rsa-pkcs8-as-rsa", "p256-sec1-as-private-key"] {
        compare(name, parts(&format!("client-{name}.pem")), true);
    }
    let (certificate, key) = parts("client-p521-sec1.pem");
    let parameters = "-----BEGIN EC PARAMETERS-----\nBgUrgQQAIw==\n-----END EC PARAMETERS-----\n";
    compare("parameters before the key", (certificate.clone(), format!("{parameters}{key}")), true);
    compare("the key of another", (certificate, parts("client-rsa-pkcs8-as-rsa.pem").1), false);
    let text = compare("another curve", parts("client-p256k1.pem"), false);
    assert!(text.contains("client-key: not a key that kubegc can use: it can use RSA keys of 2048 to"), "{text}");
    let text = compare("an encrypted key", parts("client-encrypted.pem"), false);
    assert!(text.contains("client-key: it is encrypted: `openssl pkey` decrypts it"), "{text}");
}

/// ring has P-256 with SHA-256 and SHA-384 only.
#[test]
fn an_unsupported_signature_is_explained() {
    let kubeconfig = kubeconfig(&file("p256-ca.crt"), "token: t");
    let text = server("by-p256-sha512.pem", false).with_kubeconfig(&kubeconfig).run(&["plan"]);
    assert!(text.contains("signed in a way that kubegc cannot verify: it can verify RSA with"), "{text}");
}
