//! Programs that provide the credentials (exec plugins).

use super::{Row, compare, row};

/// A plugin with this script. It runs in the directory of the kubeconfig.
fn plugin(name: &'static str, user: &str, script: &'static str) -> Row {
    Row { files: vec![("plugin.sh", script)], ..row(name, user) }
}

fn of(name: &'static str, fields: &str) -> Row {
    plugin(name, &format!("exec: {{apiVersion: GROUP/v1, command: ./plugin.sh, {fields}}}"), PRINT)
}

fn printing(name: &'static str, script: &'static str) -> Row {
    plugin(name, "exec: {apiVersion: GROUP/v1, command: ./plugin.sh, interactiveMode: Never}", script)
}

const PRINT: &str = "#!/bin/sh
printf %s \"$KUBERNETES_EXEC_INFO\" > input
echo '{HEAD, \"status\": {\"token\": \"of-plugin\"}}'\n";

#[test]
fn exec_plugins_run_as_in_kubectl() {
    compare(vec![
        of("a token", "interactiveMode: Never"),
        of("a terminal where there is none", "interactiveMode: IfAvailable"),
        of("a terminal that is needed", "interactiveMode: Always"),
        of("no mode", ""),
        of("an unknown mode", "interactiveMode: Sometimes"),
        of("facts about the cluster", "interactiveMode: Never, provideClusterInfo: true"),
        Row {
            cluster: Some(
                "server: 'https://127.0.0.1:PORT', certificate-authority: ca.crt, tls-server-name: api.example.com, \
                 extensions: [{name: GROUP/exec, extension: {a: {b: 7}}}]",
            ),
            ..of("all facts about the cluster", "interactiveMode: Never, provideClusterInfo: true")
        },
        plugin(
            "v1beta1 without a mode",
            "exec: {apiVersion: GROUP/v1beta1, command: ./plugin.sh}",
            "#!/bin/sh\nprintf %s \"$KUBERNETES_EXEC_INFO\" > input\n\
             printf 'kind: ExecCredential\\napiVersion: GROUP/v1beta1\\nstatus: {token: yaml}\\n'\n",
        ),
        plugin("v1alpha1", "exec: {apiVersion: GROUP/v1alpha1, command: ./plugin.sh}", PRINT),
        plugin("no version", "exec: {command: ./plugin.sh, interactiveMode: Never}", PRINT),
        plugin("no command", "exec: {apiVersion: GROUP/v1, interactiveMode: Never}", PRINT),
        plugin(
            "a program in $PATH",
            "exec: {apiVersion: GROUP/v1, command: sh, interactiveMode: Never, args: [./plugin.sh]}",
            PRINT,
        ),
        plugin(
            "no such program",
            "exec: {apiVersion: GROUP/v1, command: nowhere-at-all, interactiveMode: Never}",
            PRINT,
        ),
        plugin(
            "a token beside the plugin",
            "token: t, exec: {apiVersion: GROUP/v1, command: ./plugin.sh, interactiveMode: Never}",
            PRINT,
        ),
        Row { flags: &["--token", "other"], ..of("the flag --token beside the plugin", "interactiveMode: Never") },
        plugin(
            "variables and arguments",
            "exec: {apiVersion: GROUP/v1, command: ./plugin.sh, interactiveMode: Never, \
             args: ['a b', c], env: [{name: WHO, value: me}]}",
            "#!/bin/sh\nprintf '{HEAD, \"status\": {\"token\": \"%s-%s-%s\"}}' \"$1\" \"$2\" \"$WHO\"\n",
        ),
        printing(
            "a certificate",
            "#!/bin/sh\necho '{HEAD, \"status\": \
             {\"clientCertificateData\": \"JSON_PEM\", \"clientKeyData\": \"JSON_KEY\"}}'\n",
        ),
        printing(
            "a certificate without a key",
            "#!/bin/sh\necho '{HEAD, \"status\": \
             {\"token\": \"t\", \"clientCertificateData\": \"JSON_PEM\"}}'\n",
        ),
        printing(
            "a token that expires later",
            "#!/bin/sh\necho '{HEAD, \"status\": \
             {\"token\": \"t\", \"expirationTimestamp\": \"2099-01-01T00:00:00Z\"}}'\n",
        ),
        plugin(
            "a password beside the plugin",
            "username: me, password: p, exec: {apiVersion: GROUP/v1, command: ./plugin.sh, interactiveMode: Never}",
            PRINT,
        ),
        plugin(
            "a certificate beside the plugin",
            "client-certificate: me.pem, client-key: me.key, exec: {apiVersion: GROUP/v1, command: ./plugin.sh, interactiveMode: Never}",
            PRINT,
        ),
        Row { cluster: Some("server: 'http://127.0.0.1:PORT'"), ..of("no TLS", "interactiveMode: Never") },
        printing("a failure", "#!/bin/sh\necho '{\"token\": \"secret\"}'; exit 7\n"),
        printing("nothing", "#!/bin/sh\n"),
        printing("something else", "#!/bin/sh\necho secret\n"),
        printing(
            "another kind",
            "#!/bin/sh\necho '{\"kind\": \"Secret\", \"apiVersion\": \"GROUP/v1\", \"status\": {\"token\": \"t\"}}'\n",
        ),
        printing(
            "another version",
            "#!/bin/sh\necho '{\"kind\": \"ExecCredential\", \"apiVersion\": \"GROUP/v1beta1\", \"status\": {\"token\": \"t\"}}'\n",
        ),
        printing("no status", "#!/bin/sh\necho '{HEAD}'\n"),
        printing("an empty status", "#!/bin/sh\necho '{HEAD, \"status\": {}}'\n"),
    ]);
}
