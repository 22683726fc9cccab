//! kubegc and kubectl with the same files and flags reach the same server as the same user, or both reach none.

mod plugins;
mod server;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use self::server::{NAME, Server};
use crate::manifests::kubectl;
use crate::shell::Shell;

/// A certificate of X.509 version 1, as `openssl x509 -req` makes it, and its key.
const V1: &str = include_str!("../data/kubeconfigs/x509-v1.pem");

/// What one row sets. Texts have `PORT`, `CA`, `PEM`, `KEY` and `V1` replaced.
#[derive(Clone, Default)]
struct Row {
    name: &'static str,
    /// The fields of the cluster. Default: the server with its authority.
    cluster: Option<&'static str>,
    /// The fields of the user.
    user: String,
    /// The flags.
    flags: &'static [&'static str],
    /// The environment.
    env: &'static [(&'static str, &'static str)],
    /// Other files: name and text. A script is executable.
    files: Vec<(&'static str, &'static str)>,
    /// No kubeconfig is written and named. `files` may have one.
    without_file: bool,
}

const CLUSTER: &str = "server: 'https://127.0.0.1:PORT', certificate-authority: ca.crt";

fn row(name: &'static str, user: &str) -> Row {
    Row { name, user: user.to_owned(), ..Row::default() }
}

fn flags(name: &'static str, user: &str, flags: &'static [&'static str]) -> Row {
    Row { flags, ..row(name, user) }
}

fn cluster(name: &'static str, cluster: &'static str) -> Row {
    Row { cluster: Some(cluster), ..row(name, "token: t") }
}

/// What one program did.
#[derive(Debug, Eq, PartialEq)]
struct Deed {
    /// How the requests came, and who sent them.
    requests: BTreeSet<String>,
    /// The input of the plugin, if one ran.
    input: Option<serde_json::Value>,
}

struct Rig {
    server: Server,
    pem: String,
    key: String,
}

// === impl Rig ===

impl Rig {
    fn new() -> Self {
        let own = rcgen::generate_simple_self_signed(["me".to_owned()]).unwrap();
        Self { server: Server::start(), pem: own.cert.pem(), key: own.signing_key.serialize_pem() }
    }

    fn text(&self, text: &str) -> String {
        let data = |text: &str| BASE64_STANDARD.encode(text);
        text.replace("PORT", &self.server.port.to_string())
            .replace("HEAD", r#""kind": "ExecCredential", "apiVersion": "GROUP/v1""#)
            .replace("GROUP", "client.authentication.k8s.io")
            .replace("DATA_CA", &data(&self.server.authority))
            .replace("DATA_PEM", &data(&self.pem))
            .replace("DATA_KEY", &data(&self.key))
            .replace("JSON_PEM", &self.pem.replace('\n', "\\n"))
            .replace("JSON_KEY", &self.key.replace('\n', "\\n"))
    }

    fn shell(&self, row: &Row) -> Shell {
        let mut shell = Shell::new().with("ca.crt", &self.server.authority).with("me.pem", &self.pem);
        shell = shell.with("me.key", &self.key).with("v1.pem", V1).with("token", "of-file\n").with("home/none", "");
        if !row.without_file {
            let fields = (row.cluster.unwrap_or(CLUSTER), &row.user);
            shell = shell.with("kubeconfig", &self.text(&kubeconfig(fields.0, fields.1)));
        }
        for (name, text) in &row.files {
            shell = shell.with(name, &self.text(text));
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(shell.path(name), mode).unwrap();
        }
        shell
    }

    /// Runs one of the programs with the environment and the flags of the row.
    fn deed(&self, row: &Row, mut command: Command, shell: &Shell) -> (Deed, String) {
        let home = shell.path("home").display().to_string();
        command.env("HOME", &home).env("PATH", "/usr/bin:/bin");
        if !row.without_file {
            command.env("KUBECONFIG", shell.path("kubeconfig"));
        }
        let here = shell.path("").display().to_string();
        command.envs(row.env.iter().map(|(name, value)| (name, self.text(value).replace("HERE/", &here))));
        command.args(row.flags.iter().map(|flag| self.text(flag).replace("HERE/", &here)));
        let output = assert_cmd::Command::from_std(command).output().unwrap();
        let input = std::fs::read_to_string(shell.path("input")).ok();
        let _ = std::fs::remove_file(shell.path("input"));
        let _ = std::fs::remove_file(shell.path("ran"));
        let input = input.map(|text| serde_json::from_str(&text).unwrap());
        assert!(!output.status.success(), "the server refuses every request");
        (Deed { requests: self.server.seen(), input }, String::from_utf8(output.stderr).unwrap())
    }
}

fn kubeconfig(cluster: &str, user: &str) -> String {
    format!(
        "current-context: x\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
    )
}

/// Compares the programs in each row, and reports all differences at once.
fn compare(rows: Vec<Row>) {
    let rig = Rig::new();
    let mut faults = String::new();
    for row in rows {
        let shell = rig.shell(&row);
        let mut command = Command::new(kubectl());
        command.args(["get", "--raw", "/version"]).current_dir(shell.path("")).env_clear();
        let (theirs, said) = rig.deed(&row, command, &shell);
        let (ours, says) = rig.deed(&row, shell.command(&["controller", "snapshot"]), &shell);
        if ours != theirs {
            writeln!(faults, "{}:\nkubectl {theirs:?}\n{said}kubegc {ours:?}\n{says}", row.name).unwrap();
        }
        assert!(!says.contains("panicked") && !says.contains("secret"), "{}: {says}", row.name);
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn tokens_and_passwords_are_those_of_kubectl() {
    let mut rows = vec![
        row("a token", "token: t"),
        row("a token file, with a newline", "tokenFile: token"),
        row("a token file before a token", "tokenFile: token, token: t"),
        row("an empty token beside a file", "tokenFile: token, token: ''"),
        row("a missing token file", "tokenFile: nowhere"),
        row("a missing token file beside a token", "tokenFile: nowhere, token: t"),
        row("an empty token file", "tokenFile: home/none"),
        row("an empty token file beside a token", "tokenFile: home/none, token: t"),
        row("a password", "username: me, password: secret"),
        row("a name without a password", "username: me"),
        row("empty names", "username: '', password: '', token: t"),
        row("a password and a token", "username: me, password: secret, token: t"),
        row("an impersonation", "token: t, as: you, as-groups: [a, b], as-uid: '7', as-user-extra: {scopes: [v, w]}"),
        row("groups without a user", "token: t, as-groups: [a]"),
        cluster("no impersonation but by TLS", "server: 'http://127.0.0.1:PORT'"),
        Row {
            cluster: Some("server: 'http://127.0.0.1:PORT'"),
            ..row("an impersonation without TLS", "token: t, as: you, as-groups: [a]")
        },
        Row {
            cluster: Some("server: 'http://127.0.0.1:PORT'"),
            ..row("a missing file without TLS", "tokenFile: nowhere")
        },
        row("an old token", "auth-provider: {name: gcp, config: {access-token: t}}"),
        row("repeated keys", "token: a, token: b"),
        row("a token of two lines", "token: \"a\\nb\""),
    ];
    rows.extend([
        flags("the flag --token", "", &["--token", "other"]),
        flags("the flag --token before a token", "token: t", &["--token", "other"]),
        flags("the flag --token before a file", "tokenFile: token", &["--token", "other"]),
        flags(
            "the flag --token beside a certificate",
            "client-certificate: me.pem, client-key: me.key",
            &["--token", "o"],
        ),
        flags("the flag --token beside a password", "username: me, password: secret", &["--token", "other"]),
        flags("the flag --as", "token: t", &["--as", "you", "--as-group", "a", "--as-group", "b"]),
        flags("the flag --as before that of the file", "token: t, as: we, as-groups: [c]", &["--as", "you"]),
        flags(
            "the flag --as-group before that of the file",
            "token: t, as: we, as-groups: [c]",
            &["--as", "you", "--as-group", "a"],
        ),
    ]);
    compare(rows);
}

#[test]
fn servers_and_certificates_are_those_of_kubectl() {
    compare(vec![
        cluster("data of an authority", "server: 'https://127.0.0.1:PORT', certificate-authority-data: DATA_CA"),
        cluster("an unknown authority", "server: 'https://127.0.0.1:PORT'"),
        cluster("no verification", "server: 'https://127.0.0.1:PORT', insecure-skip-tls-verify: true"),
        cluster(
            "no verification beside an authority",
            "server: 'https://127.0.0.1:PORT', insecure-skip-tls-verify: true, certificate-authority: ca.crt",
        ),
        cluster("a missing authority", "server: 'https://127.0.0.1:PORT', certificate-authority: nowhere"),
        cluster("an empty authority", "server: 'https://127.0.0.1:PORT', certificate-authority: home/none"),
        cluster(
            "empty data beside an authority",
            "server: 'https://127.0.0.1:PORT', certificate-authority: ca.crt, certificate-authority-data: ''",
        ),
        cluster(
            "the name of a server",
            "server: 'https://127.0.0.1:PORT', certificate-authority: ca.crt, tls-server-name: api.example.com",
        ),
        cluster(
            "another name of a server",
            "server: 'https://127.0.0.1:PORT', certificate-authority: ca.crt, tls-server-name: other",
        ),
        cluster("a name that has no certificate", "server: 'https://localhost:PORT', certificate-authority: ca.crt"),
        cluster("no TLS", "server: 'http://127.0.0.1:PORT'"),
        cluster("no scheme, and TLS", "server: '127.0.0.1:PORT', certificate-authority: ca.crt"),
        cluster("no scheme", "server: '127.0.0.1:PORT'"),
        cluster("no scheme, without verification", "server: 'localhost:PORT', insecure-skip-tls-verify: true"),
        cluster("another scheme", "server: 'ftp://127.0.0.1:PORT'"),
        cluster("no host", "server: 'https://'"),
        cluster("no server", "certificate-authority: ca.crt"),
        cluster("spaces in a server", "server: 'https://127.0.0.1 :PORT'"),
        row("a client certificate", "client-certificate: me.pem, client-key: me.key"),
        row("data of a client certificate", "client-certificate-data: DATA_PEM, client-key-data: DATA_KEY"),
        row("a certificate of version 1", "client-certificate: v1.pem, client-key: v1.pem"),
        row("a certificate without a key", "client-certificate: me.pem"),
        row("a key without a certificate", "client-key: me.key"),
        row("the key of another", "client-certificate: me.pem, client-key: v1.pem"),
        row("no certificate in the file", "client-certificate: home/none, client-key: me.key"),
        row("a certificate and a token", "client-certificate: me.pem, client-key: me.key, token: t"),
        Row {
            cluster: Some("server: '127.0.0.1:PORT'"),
            ..row("no scheme, and a client certificate", "client-certificate: me.pem, client-key: me.key")
        },
    ]);
    assert_eq!(NAME, "api.example.com", "the rows have it");
}

const A: &str = "current-context: x
contexts: [{name: x, context: {cluster: c, user: a}}, {name: y, context: {cluster: c, user: b}}]
clusters: [{name: c, cluster: {server: 'http://127.0.0.1:PORT'}}, {name: far, cluster: {server: 'http://127.0.0.1:1'}}]
users: [{name: a, user: {token: of-a}}, {name: b, user: {token: of-b}}]\n";
const B: &str = "current-context: z
contexts: [{name: x, context: {cluster: far, user: b}}, {name: z, context: {cluster: c, user: d}}]
users: [{name: a, user: {token: wrong}}, {name: d, user: {tokenFile: token}}]\n";

/// As tools write it that begin with an empty file.
const EMPTY: &str = "apiVersion: v1\nkind: Config\nclusters: null\ncontexts: null\nusers: null\ncurrent-context: ''\n";

fn several(name: &'static str, flags: &'static [&'static str]) -> Row {
    let env = &[("KUBECONFIG", "HERE/a:HERE/nowhere:HERE/sub/b:")];
    Row {
        env,
        files: vec![("a", A), ("sub/b", B), ("sub/token", "of-sub")],
        without_file: true,
        ..flags_row(name, flags)
    }
}

/// A row whose kubeconfig is this text.
fn whole(text: &'static str, name: &'static str, flags: &'static [&'static str]) -> Row {
    let env = &[("KUBECONFIG", "HERE/kubeconfig")];
    Row { env, files: vec![("kubeconfig", text)], without_file: true, ..flags_row(name, flags) }
}

fn flags_row(name: &'static str, flags: &'static [&'static str]) -> Row {
    Row { name, flags, ..Row::default() }
}

#[test]
fn several_kubeconfigs_count_as_one() {
    compare(vec![
        several("the first current context", &[]),
        Row { files: vec![("a", EMPTY), ("sub/b", A)], ..several("the first current context that is not empty", &[]) },
        several("a context of the second file, with a file beside it", &["--context", "z"]),
        several("another context", &["--context", "y"]),
        several("a context that does not exist", &["--context", "w"]),
        several("another user", &["--user", "d"]),
        several("a user that does not exist", &["--user", "w"]),
        several("another cluster", &["--context", "x", "--cluster", "far", "--server", "127.0.0.1:PORT"]),
        several("a cluster that does not exist", &["--cluster", "w"]),
        whole(
            "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:PORT'}}]\n",
            "a user that is not there",
            &[],
        ),
        whole(
            "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n",
            "a cluster that is not there",
            &["--user", "u"],
        ),
        whole(
            "current-context: w\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:PORT'}}]\n",
            "a current context that is not there",
            &[],
        ),
        whole(
            "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:PORT'}}]\n",
            "a cluster without a context",
            &["--cluster", "c"],
        ),
        whole("clusters: [{name: c, cluster: {server: 'http://127.0.0.1:PORT'}}]\n", "no context", &[]),
        several("a named file alone", &["--kubeconfig", "HERE/sub/b", "--server", "http://127.0.0.1:PORT"]),
        several("a named file that is missing", &["--kubeconfig", "HERE/nowhere"]),
        Row { env: &[], files: vec![("home/.kube/config", A)], without_file: true, ..row("the file at home", "") },
        Row {
            env: &[],
            files: vec![],
            without_file: true,
            ..flags("only a server", "", &["-s", "http://127.0.0.1:PORT"])
        },
        Row {
            env: &[],
            without_file: true,
            ..flags("a server and a token", "", &["-s", "127.0.0.1:PORT", "--token", "t"])
        },
        flags("another server", "token: t", &["--server", "https://127.0.0.1:PORT"]),
        Row {
            cluster: Some("server: 'https://127.0.0.1:1', certificate-authority: ca.crt, tls-server-name: other"),
            ..flags("another server has its own name", "token: t", &["--server", "https://127.0.0.1:PORT"])
        },
        Row { files: vec![("kubeconfig", "")], without_file: true, ..row("no kubeconfig at all", "") },
        whole("{", "no YAML", &[]),
        whole(
            "clusters: null\nusers: null\ncontexts: null\ncurrent-context: ''\n",
            "empty lists",
            &["-s", "127.0.0.1:PORT"],
        ),
    ]);
}

#[test]
fn proxies_are_those_of_kubectl() {
    let far = |name, env: &'static [(&'static str, &'static str)]| Row {
        cluster: Some("server: 'https://api.example.com:PORT', certificate-authority: ca.crt"),
        env,
        ..row(name, "token: t")
    };
    compare(vec![
        cluster(
            "an HTTP proxy",
            "server: 'https://127.0.0.1:PORT', certificate-authority: ca.crt, proxy-url: 'http://127.0.0.1:PORT'",
        ),
        cluster(
            "a proxy with a password",
            "server: 'https://127.0.0.1:PORT', certificate-authority: ca.crt, proxy-url: 'http://me:pass%40word@127.0.0.1:PORT'",
        ),
        cluster(
            "an HTTPS proxy",
            "server: 'https://api.example.com:443', certificate-authority: ca.crt, proxy-url: 'https://127.0.0.1:PORT'",
        ),
        cluster(
            "a SOCKS proxy",
            "server: 'https://api.example.com:443', certificate-authority: ca.crt, proxy-url: 'socks5://127.0.0.1:PORT'",
        ),
        cluster(
            "no scheme of a proxy",
            "server: 'https://127.0.0.1:PORT', certificate-authority: ca.crt, proxy-url: '127.0.0.1:PORT'",
        ),
        cluster(
            "another scheme of a proxy",
            "server: 'https://127.0.0.1:PORT', certificate-authority: ca.crt, proxy-url: 'ftp://127.0.0.1:PORT'",
        ),
        cluster("an empty proxy", "server: 'https://127.0.0.1:PORT', certificate-authority: ca.crt, proxy-url: ''"),
        far("the proxy of the environment", &[("HTTPS_PROXY", "http://127.0.0.1:PORT")]),
        far("the proxy of the environment in lower case", &[("https_proxy", "http://127.0.0.1:PORT")]),
        far("the proxy without a scheme", &[("HTTPS_PROXY", "127.0.0.1:PORT")]),
        far("a SOCKS proxy of the environment", &[("HTTPS_PROXY", "socks5://127.0.0.1:PORT")]),
        far("only the proxy of the other scheme", &[("HTTP_PROXY", "http://127.0.0.1:PORT")]),
        far("a server that has no proxy", &[("HTTPS_PROXY", "http://127.0.0.1:PORT"), ("NO_PROXY", "example.com")]),
        far(
            "a port that has no proxy",
            &[("HTTPS_PROXY", "http://127.0.0.1:PORT"), ("NO_PROXY", "api.example.com:PORT")],
        ),
        far("another port", &[("HTTPS_PROXY", "http://127.0.0.1:PORT"), ("NO_PROXY", "api.example.com:1,example")]),
        Row { env: &[("HTTPS_PROXY", "http://127.0.0.1:1")], ..row("this host has no proxy", "token: t") },
        Row {
            cluster: Some(
                "server: 'https://127.0.0.1:PORT', certificate-authority: ca.crt, proxy-url: 'http://127.0.0.1:PORT'",
            ),
            env: &[("HTTPS_PROXY", "http://127.0.0.1:1"), ("NO_PROXY", "127.0.0.1")],
            ..row("the proxy of a cluster has precedence", "token: t")
        },
    ]);
}
