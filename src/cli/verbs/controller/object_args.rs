//! The flags that limit `plan`, `collect` and `relink` to some objects.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::plan_cluster::WholePlan;
use super::source::observer;
use crate::cli::args::kubectl_args::NamespaceArgs;
use crate::cli::cli_error::{CliError, note};
use crate::cli::input::cluster::Source;
use crate::cli::input::one_document;
use crate::cli::input::session::block_on;
use crate::controller::{ObjectFilter, ResourceFilter, ResourceName};
use crate::kubernetes::DENIED;
use crate::model::Uid;

#[derive(Debug, clap::Args)]
pub struct SelectArgs {
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
}

/// Flags that limit a command to some objects.
#[derive(Debug, clap::Args)]
pub struct ObjectArgs {
    #[command(flatten)]
    pub(super) select: SelectArgs,
    /// Include only what an earlier plan would delete or change, the output of `plan -o json` (- for standard input)
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
}

// === impl SelectArgs ===

impl SelectArgs {
    /// Returns what the flags select, for a service.
    pub(super) fn filter(&self) -> ObjectFilter {
        let namespace = self.namespace.get().unwrap_or_default().to_owned();
        let resources = ResourceFilter { only: self.only.clone(), ignore: self.ignore.clone() };
        ObjectFilter { resources, namespace, uids: None, labels: self.selector.clone() }
    }
}

// === impl ObjectArgs ===

impl ObjectArgs {
    /// Returns what the flags select. Labels are those of this moment.
    pub(super) fn filter(&self, source: Source<'_>) -> Result<ObjectFilter, CliError> {
        let mut filter = self.filter_of_pods()?;
        let labeled = filter.labels.take().map(|selector| self.labeled(&selector, source)).transpose()?;
        filter.uids = match (labeled, filter.uids) {
            (Some(labeled), Some(planned)) => Some(&labeled & &planned),
            (labeled, planned) => labeled.or(planned),
        };
        Ok(filter)
    }

    /// Returns the same for pods, whose labels their collector reads.
    pub(super) fn filter_of_pods(&self) -> Result<ObjectFilter, CliError> {
        Ok(ObjectFilter { uids: self.planned()?, ..self.select.filter() })
    }

    fn labeled(&self, selector: &str, source: Source<'_>) -> Result<HashSet<Uid>, CliError> {
        let observer = observer(Arc::new(source.patient_connection()), source, self.select.namespace.get());
        let (uids, errors) = block_on(async { Ok(observer.labeled(selector).await?) })?;
        // Its objects are not selected. What may not be listed is an error of the command itself.
        errors.iter().filter(|error| !error.starts_with(DENIED)).for_each(|error| note(error));
        Ok(uids)
    }

    fn planned(&self) -> Result<Option<HashSet<Uid>>, CliError> {
        let Some(file) = &self.plan else { return Ok(None) };
        let WholePlan { objects: plan, pods } = one_document::cluster_plan(file)?;
        let actions = plan.actions.into_iter().chain(plan.predicted).map(|action| action.object.uid);
        let pods = pods.into_iter().flat_map(|pods| pods.actions).map(|pod| Uid::new(&pod.uid));
        Ok(Some(actions.chain(pods).collect()))
    }
}
