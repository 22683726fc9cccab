//! The flags that limit `plan`, `collect` and `relink` to some objects.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::source::observer;
use crate::cli::args::kubectl_args::NamespaceArgs;
use crate::cli::cli_error::{CliError, note};
use crate::cli::input::cluster::Source;
use crate::cli::input::one_document;
use crate::cli::input::session::block_on;
use crate::controller::{ObjectFilter, ResourceFilter, ResourceName};
use crate::model::Uid;

/// Flags that limit a command to some objects.
#[derive(Debug, clap::Args)]
pub struct ObjectArgs {
    #[command(flatten)]
    pub(super) namespace: NamespaceArgs,
    /// Include only objects with these labels, as in kubectl: app=web,tier!=db
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(super) selector: Option<String>,
    /// Include only these resources, such as apps/deployments or configmaps
    #[arg(long, value_delimiter = ',', value_name = "GROUP/RESOURCE")]
    only: Vec<ResourceName>,
    /// Skip these resources
    #[arg(long, value_delimiter = ',', value_name = "GROUP/RESOURCE")]
    ignore: Vec<ResourceName>,
    /// Include only what an earlier plan would delete or change, the output of `plan -o json` (- for standard input)
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
}

// === impl ObjectArgs ===

impl ObjectArgs {
    /// Returns what the flags select. Labels are those of this moment.
    pub(super) fn filter(&self, source: Source<'_>) -> Result<ObjectFilter, CliError> {
        let namespace = self.namespace.get().unwrap_or_default().to_owned();
        let resources = ResourceFilter { only: self.only.clone(), ignore: self.ignore.clone() };
        let labeled = self.selector.as_deref().map(|selector| self.labeled(selector, source)).transpose()?;
        let planned = self.planned()?;
        let uids = match (labeled, planned) {
            (Some(labeled), Some(planned)) => Some(&labeled & &planned),
            (labeled, planned) => labeled.or(planned),
        };
        Ok(ObjectFilter { resources, namespace, uids })
    }

    fn labeled(&self, selector: &str, source: Source<'_>) -> Result<HashSet<Uid>, CliError> {
        let observer = observer(Arc::new(source.patient_connection()), source, self.namespace.get());
        let (uids, errors) = block_on(async { Ok(observer.labeled(selector).await?) })?;
        // Its objects are not selected.
        for error in errors {
            note(&error);
        }
        Ok(uids)
    }

    fn planned(&self) -> Result<Option<HashSet<Uid>>, CliError> {
        let Some(file) = &self.plan else { return Ok(None) };
        let plan = one_document::cluster_plan(file)?;
        let actions = plan.actions.into_iter().chain(plan.predicted);
        Ok(Some(actions.map(|action| action.object.uid).collect()))
    }
}
