//! Kubeconfig files as kubectl 1.36 reads them. kube is stricter about some, so the fields are mended first.

use kube::config::Kubeconfig;
use serde_json::{Map, Value};
use serde_saphyr::options::DuplicateKeyPolicy;

use crate::model::yaml_error_text;

/// Reads the text of a kubeconfig: its first document, of repeated keys the last.
///
/// # Errors
/// It is no YAML, or no kubeconfig; the cause.
pub(super) fn read(text: &str) -> Result<Kubeconfig, String> {
    let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
    let documents = serde_saphyr::from_multiple_with_options::<Value>(text, options);
    let mut document = documents.map_err(|error| yaml_error_text(&error))?.into_iter().next().unwrap_or_default();
    if document.is_null() {
        document = Value::Object(Map::new());
    }
    for (list, field) in [("clusters", "cluster"), ("users", "user")] {
        let entries = document.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        entries.filter_map(|named| named.get_mut(field)?.as_object_mut()).for_each(mend);
    }
    serde_json::from_value(document).map_err(|error| error.to_string())
}

/// Joins kubeconfigs, as those that `KUBECONFIG` lists. Of objects with one name the first counts, and the first current
/// context that is not empty.
pub(super) fn merge(files: impl IntoIterator<Item = Kubeconfig>) -> Kubeconfig {
    let mut whole = Kubeconfig::default();
    for file in files {
        let named = file.current_context.filter(|name| !name.is_empty());
        whole.current_context = whole.current_context.or(named);
        whole.clusters.extend(file.clusters);
        whole.contexts.extend(file.contexts);
        whole.auth_infos.extend(file.auth_infos);
    }
    whole
}

fn mend(fields: &mut Map<String, Value>) {
    // An empty text is none, so that it does not win over a file.
    fields.retain(|_, value| value.as_str() != Some(""));
    for (_, value) in fields.iter_mut().filter(|(name, _)| name.ends_with("-data")) {
        if let Some(base64) = value.as_str() {
            *value = base64.split_whitespace().collect::<String>().into();
        }
    }
    // A user name without a password is sent all the same.
    if fields.contains_key("username") {
        fields.entry("password").or_insert_with(|| "".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: &str = "contexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\n";

    fn file(cluster: &str, user: &str) -> String {
        format!("clusters: [{{name: c, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n{CONTEXT}")
    }

    #[test]
    fn data_in_any_form_of_base64_is_the_same() {
        let pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        let line = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";
        let (one, two) = line.split_at(40);
        let block = format!("|\n      {one}\n      {two}\n");
        for data in [line.to_owned(), format!("'{one} {two}'"), block] {
            let text = format!(
                "clusters:\n- name: c\n  cluster:\n    server: https://x\n    certificate-authority-data: {data}\nusers: [{{name: u, user: {{}}}}]\n{CONTEXT}"
            );
            let read = read(&text).unwrap();
            let found = read.clusters[0].cluster.as_ref().unwrap().certificate_authority_data.clone();
            assert_eq!(found.as_deref(), Some(line), "{pem}");
        }
    }

    #[test]
    fn empty_texts_are_none_and_last_duplicates_count() {
        let user = "token: '', tokenFile: /t, client-certificate-data: '', username: ''";
        let read = read(&file("server: 'https://a', server: 'https://b', proxy-url: ''", user)).unwrap();
        let user = read.auth_infos[0].auth_info.as_ref().unwrap();
        assert_eq!(
            (user.token.is_none(), user.username.is_none(), user.token_file.as_deref()),
            (true, true, Some("/t"))
        );
        assert!(user.client_certificate_data.is_none());
        assert_eq!(read.clusters[0].cluster.as_ref().unwrap().server.as_deref(), Some("https://b"));
        assert_eq!(read.clusters[0].cluster.as_ref().unwrap().proxy_url, None);
    }
}
