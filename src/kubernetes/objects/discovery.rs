//! The version of the API server, and which resources it serves: the aggregated form, or one request per group-version on
//! a server before 1.26.
//!
//! A group-version that fails is unavailable: nothing in it counts as not served. The clients of kube either fail as a
//! whole then, or take a server without the aggregated form for one without resources.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use http::{Request, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResource};
use kube::core::discovery::v2::{APIGroupDiscovery, APIResourceDiscovery, APIVersionDiscovery};
use serde::Deserialize;

use crate::kubernetes::kubernetes_error::attempt;
use crate::kubernetes::requests::connection::{FAILING_CHECK, built};
use crate::kubernetes::{ApiResource, Cause, Connection, KubernetesError};

/// The aggregated form is preferred. A server takes the first that it knows.
const BOTH_FORMS: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
const WHAT: &str = "discover the resources of the API server";
/// Requests for group-versions in flight at once.
const AT_ONCE: usize = 8;

/// What an API server serves.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Discovered {
    /// All resources in all versions, subresources left out, in the order of the server.
    pub resources: Vec<ApiResource>,
    /// The group-versions whose discovery failed, and why.
    pub unavailable: Vec<(String, String)>,
}

/// An answer in either form. What it lacks is empty.
#[derive(Deserialize)]
struct Answer {
    kind: String,
    /// Of the aggregated form.
    #[serde(default)]
    items: Vec<APIGroupDiscovery>,
    /// Of `/apis`.
    #[serde(default)]
    groups: Vec<APIGroup>,
    /// Of `/api`.
    #[serde(default)]
    versions: Vec<String>,
}

/// The resources of one group-version. An answer without a kind proves nothing.
#[derive(Deserialize)]
struct LegacyList {
    kind: String,
    #[serde(default)]
    resources: Vec<APIResource>,
}

/// The part of `/version` that people know.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    git_version: String,
}

/// Returns the resources that the API server serves.
///
/// # Errors
///
/// The server did not answer or is not ready, or its answer has no resources or no core group: then every owner would look
/// as if its kind were not served.
pub async fn discover(connection: &Connection, limit: Duration) -> Result<Discovered, KubernetesError> {
    attempt(WHAT, try_discover(connection, limit)).await
}

async fn try_discover(connection: &Connection, limit: Duration) -> Result<Discovered, Cause> {
    ready(connection, limit).await?;
    let core: Answer = get(connection, "/api", limit).await?;
    let groups: Answer = get(connection, "/apis", limit).await?;
    let mut found = Discovered::default();
    // While a cluster is upgraded, servers with and without the aggregated form answer.
    for answer in [core, groups] {
        found.add(if answer.kind == "APIGroupDiscoveryList" {
            Discovered::aggregated(answer.items)
        } else {
            legacy(connection, &answer.versions, &answer.groups, limit).await
        });
    }
    if !found.resources.iter().any(|resource| resource.api_version == "v1") {
        return Err(Cause::Unreadable("it has no resources of the core group".to_owned()));
    }
    found.prefer();
    Ok(found)
}

/// Returns the version of the API server, as `v1.36.2`.
///
/// # Errors
///
/// The API server did not answer, or its answer has no version.
pub async fn server_version(connection: &Connection, limit: Duration) -> Result<String, KubernetesError> {
    let read = async { connection.request(built(Request::get("/version").body(Vec::new()))?, limit).await };
    let version: Version = attempt("read the version of the API server", read).await?;
    Ok(version.git_version)
}

/// Requests `/readyz`. An API server that starts serves its custom resources last, so until it is ready their kinds look as
/// if they were not served. Other checks that fail are a warning: the API server answers all the same, and its requests show
/// what does not work. An API server that does not let this user read the path counts as ready.
async fn ready(connection: &Connection, limit: Duration) -> Result<(), Cause> {
    let request = built(Request::get("/readyz").body(Vec::new()))?;
    let failing = match connection.bytes(request, limit).await {
        Err(Cause::Foreign { code, text, .. }) if code >= 500 => {
            let checks: Vec<_> = failing_checks(&text).map(str::to_owned).collect();
            if checks.is_empty() || checks.iter().any(|check| concerns_discovery(check)) {
                return Err(Cause::NotReady { code, checks });
            }
            checks
        }
        Err(Cause::Foreign { .. }) | Ok(_) => Vec::new(),
        Err(cause) if cause.code().is_some() => Vec::new(),
        Err(cause) => return Err(cause),
    };
    connection.warn_of_checks(failing);
    Ok(())
}

/// Returns the failing checks in an answer of `/readyz`, such as `[-]etcd failed: reason withheld`.
fn failing_checks(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_prefix(FAILING_CHECK)?.split_whitespace().next())
}

/// Returns whether an API server with this failing check may not serve all its kinds yet, or no longer (kube-apiserver 1.36).
fn concerns_discovery(check: &str) -> bool {
    const CHECKS: [&str; 7] = [
        "apiextensions",
        "apiservice",
        "autoregist",
        "crd-informer",
        "informer-sync",
        "kube-aggregator-informers",
        "shutdown",
    ];
    CHECKS.iter().any(|part| check.contains(part))
}

async fn get<T: serde::de::DeserializeOwned>(connection: &Connection, path: &str, limit: Duration) -> Result<T, Cause> {
    let request = built(Request::get(path).header(header::ACCEPT, BOTH_FORMS).body(Vec::new()))?;
    connection.request(request, limit).await
}

/// Requests each group-version. One that fails is unavailable, and the others are used.
async fn legacy(connection: &Connection, core: &[String], groups: &[APIGroup], limit: Duration) -> Discovered {
    let core = core.iter().map(|version| (version.clone(), format!("/api/{version}")));
    let groups = groups.iter().flat_map(versions).map(|version| {
        let path = format!("/apis/{version}");
        (version, path)
    });
    let lists = core.chain(groups).map(|(version, path)| async move {
        let list = get::<LegacyList>(connection, &path, limit).await;
        (version, list)
    });
    let mut found = Discovered::default();
    let mut lists = stream::iter(lists).buffered(AT_ONCE);
    while let Some((version, list)) = lists.next().await {
        match list {
            Ok(list) if list.kind == "APIResourceList" => found.add_legacy(&version, list),
            Ok(list) => found.unavailable.push((version, format!("it answered with a {}", list.kind))),
            Err(cause) => found.unavailable.push((version, cause.of(WHAT).to_string())),
        }
    }
    found
}

/// Lists the versions of a group, the preferred one first, as in the aggregated form. The preference may be empty.
fn versions(group: &APIGroup) -> impl Iterator<Item = String> {
    let preferred = group.preferred_version.as_ref().map(|version| version.group_version.as_str());
    let all = group.versions.iter().map(|version| version.group_version.as_str());
    let others = all.filter(move |version| Some(*version) != preferred);
    preferred.into_iter().chain(others).filter(|version| !version.is_empty()).map(str::to_owned)
}

// === impl Discovered ===

impl Discovered {
    fn add(&mut self, other: Self) {
        self.resources.extend(other.resources);
        self.unavailable.extend(other.unavailable);
    }

    fn aggregated(groups: Vec<APIGroupDiscovery>) -> Self {
        let mut found = Self::default();
        for group in groups {
            let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
            for APIVersionDiscovery { version, resources, freshness } in group.versions {
                let version = version.unwrap_or_default();
                let api_version = if name.is_empty() { version } else { format!("{name}/{version}") };
                if freshness.as_deref() == Some("Stale") {
                    found.unavailable.push((api_version, "the API server reports it as stale".to_owned()));
                } else {
                    let resources = resources.into_iter();
                    found.resources.extend(resources.filter_map(|resource| in_version(resource, &api_version)));
                }
            }
        }
        found
    }

    fn add_legacy(&mut self, api_version: &str, list: LegacyList) {
        let whole = list.resources.into_iter().filter(|resource| !resource.name.contains('/'));
        self.resources.extend(whole.map(|resource| ApiResource {
            api_version: api_version.to_owned(),
            resource: resource.name,
            kind: resource.kind,
            namespaced: resource.namespaced,
            verbs: resource.verbs,
            is_preferred: false,
        }));
    }

    /// Marks the first version that serves a resource of a group. The preferred version of a group comes first.
    fn prefer(&mut self) {
        let mut seen = std::collections::HashSet::new();
        for resource in &mut self.resources {
            let group = resource.api_version.rsplit_once('/').map_or("", |(group, _)| group);
            resource.is_preferred = seen.insert((group.to_owned(), resource.resource.clone()));
        }
    }
}

/// A resource without a kind has only subresources.
fn in_version(found: APIResourceDiscovery, api_version: &str) -> Option<ApiResource> {
    Some(ApiResource {
        api_version: api_version.to_owned(),
        resource: found.resource?,
        kind: found.response_kind?.kind.filter(|kind| !kind.is_empty())?,
        namespaced: found.scope? == "Namespaced",
        verbs: found.verbs,
        is_preferred: false,
    })
}
