//! `kubegc controller run`.

use std::sync::Arc;

use super::source;
use crate::cli::CliError;
use crate::cli::session::block_on_all_threads;
use crate::config::Loaded;
use crate::controller::{OwnersService, ResourceFilter, ResourceName};
use crate::daemon::{now, signals};

/// Collect garbage until a signal stops it
///
/// It watches the metadata of all objects and deletes those whose owners are all deleted, as the garbage collector of
/// kube-controller-manager does. It completes deletions with the policies foreground and orphan.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Collect only objects of these resources, as apps/deployments or configmaps
    #[arg(long, value_delimiter = ',', value_name = "GROUP/RESOURCE")]
    only: Vec<ResourceName>,
    /// Collect no objects of these resources
    #[arg(long, value_delimiter = ',', value_name = "GROUP/RESOURCE")]
    ignore: Vec<ResourceName>,
}

/// Runs the service.
pub(super) fn run(args: &Args, loaded: &Loaded) -> Result<(), CliError> {
    let filter = ResourceFilter { only: args.only.clone(), ignore: args.ignore.clone() };
    block_on_all_threads(async {
        let (signals, stop, _) = signals::listen()?;
        let connection = Arc::new(source::connection(loaded));
        let service = OwnersService::new(&connection, loaded.settings.controller.clone(), filter, now);
        tokio::select! {
            () = service.run(stop) => Ok(()),
            signal = signals.aborted() => Err(CliError::aborted(signal)),
        }
    })
}
