//! The documents that other programs read: the table of their kinds, what each contains, and what `config schema` says of it.
//!
//! A reader gets fields that it does not know, so a version is increased only if an old reader would misunderstand the document.

use clap::ValueEnum;
use schemars::{JsonSchema, schema_for};
use serde::Serialize;
use serde_json::{Value, json};

use super::verbs;
use crate::controller::{ClusterReport, ClusterStatus, PodReport, RelinkReport};
use crate::fleet::{FleetImage, FleetNode};
use crate::model::Snapshot;
use crate::owners::ClusterSnapshot;
use crate::plan::Plan;
use crate::pod_gc::PodPlan;
use crate::store::{DiskAccount, DiskByPod};

/// A document: its kind, the version of its form, and what it contains.
#[derive(Serialize)]
pub(in crate::cli) struct Document<T> {
    kind: &'static str,
    version: u32,
    #[serde(flatten)]
    content: T,
}

/// What a document contains.
pub(in crate::cli) trait Content {
    /// The kind of the document.
    const KIND: &'static str;
    /// The version of its form.
    const VERSION: u32;
}

impl<T: Content> Content for &T {
    const KIND: &'static str = T::KIND;
    const VERSION: u32 = T::VERSION;
}

/// Declares the documents: what `config schema` says of each, its content, its kind and its version.
macro_rules! documents {
    (
        $($(#[doc = $help:literal])+ $name:ident: $content:ty = ($kind:literal, $version:literal),)*
        without a schema $($other:ty = ($other_kind:literal, $other_version:literal),)*
    ) => {
        /// What has a schema.
        #[derive(Clone, Copy, Debug, ValueEnum)]
        pub(in crate::cli) enum SchemaOf {
            $($(#[doc = $help])+ $name,)*
            /// The configuration file
            Config,
        }

        impl SchemaOf {
            pub(in crate::cli) fn schema(self) -> Value {
                match self {
                    $(Self::$name => Document::<$content>::schema(),)*
                    Self::Config => crate::config::schema(),
                }
            }
        }

        $(impl Content for $content {
            const KIND: &'static str = $kind;
            const VERSION: u32 = $version;
        })*
        $(impl Content for $other {
            const KIND: &'static str = $other_kind;
            const VERSION: u32 = $other_version;
        })*
    };
}

documents! {
    /// Output of `snapshot`, input of `plan --snapshot`
    Snapshot: Snapshot = ("Snapshot", 1),
    /// Output of `plan -o json`, input of `collect --plan`
    Plan: Plan = ("Plan", 1),
    /// Output of `collect -o json`
    Collection: verbs::collect::Collection<'_> = ("Collection", 1),
    /// A line of the output of `collect --remove-list FILE -o json`
    ListedImage: verbs::collect::listed::ListedImage = ("ListedImage", 1),
    /// Output of `controller snapshot`, input of `controller plan --snapshot`
    ClusterSnapshot: ClusterSnapshot = ("kubegc.controller.snapshot", 1),
    /// Output of `controller plan -o json`
    ClusterPlan: verbs::controller::plan_cluster::WholePlan = ("kubegc.controller.plan", 1),
    /// Output of `controller why -o json`
    ClusterExplanation: verbs::controller::why_object::Answer = ("kubegc.controller.explanation", 1),
    /// Output of `controller collect -o json`
    ClusterReport: ClusterReport = ("kubegc.controller.report", 1),
    /// Output of `controller relink -o json`
    RelinkReport: RelinkReport = ("kubegc.controller.relink", 1),
    /// Output of `controller plan --pods-only -o json`
    PodPlan: PodPlan = ("kubegc.controller.pod_plan", 1),
    /// Output of `controller collect --pods-only -o json`
    PodReport: PodReport = ("kubegc.controller.pod_report", 1),
    /// Output of `controller status -o json`
    ClusterStatus: ClusterStatus = ("kubegc.controller.status", 1),
    /// Output of `images -o json`
    Images: verbs::images::Images = ("Images", 1),
    /// Output of `lab -o json`
    Lab: verbs::lab::Lab = ("Lab", 1),
    /// Output of `disk -o json`
    DiskAccount: DiskAccount = ("DiskAccount", 1),
    /// Output of `disk --by pod -o json`
    DiskByPod: DiskByPod = ("DiskByPod", 1),
    /// A line of the output of `fleet images -o json`
    FleetImage: FleetImage = ("FleetImage", 1),
    /// A line of the output of `fleet -o json`
    FleetNode: FleetNode = ("FleetNode", 1),
    /// Output of `config rules -o json`
    Rules: verbs::config::rules_page::RuleList = ("Rules", 1),
    without a schema
    verbs::config::config_check::ConfigCheck = ("ConfigCheck", 1),
    verbs::status::Status = ("Status", 2),
}

// === impl Document ===

impl<T: Content> Document<T> {
    pub(in crate::cli) fn of(content: T) -> Self {
        Self { kind: T::KIND, version: T::VERSION, content }
    }
}

impl<T: Content + JsonSchema> Document<T> {
    /// Returns the schema of the content, with the kind and the version.
    fn schema() -> Value {
        let mut schema = schema_for!(T).to_value();
        let kind = json!({ "description": format!("Always `{}`.", T::KIND), "type": "string", "const": T::KIND });
        let version = json!({ "description": "The version of the document.", "type": "integer", "const": T::VERSION });
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            properties.extend([("kind".to_owned(), kind), ("version".to_owned(), version)]);
        }
        // A snapshot that a person writes may have neither.
        if let Some(Value::Array(required)) = schema.get_mut("required").filter(|_| T::KIND != Snapshot::KIND) {
            required.splice(..0, [json!("kind"), json!("version")]);
        }
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_begins_with_its_kind_and_its_version() {
        let text = serde_json::to_string(&Document::of(&Snapshot::default())).unwrap();
        assert!(text.starts_with("{\"kind\":\"Snapshot\",\"version\":1,"), "{text}");
    }
}
