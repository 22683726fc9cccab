//! `kubegc controller run`.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::source;
use crate::cli::session::block_on_all_threads;
use crate::cli::{CliError, ErrorKind};
use crate::config::Loaded;
use crate::controller::{Candidate, OwnersService, ResourceFilter, ResourceName};
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
    /// Collect only while this process has the Lease, and end when it is lost
    #[arg(long)]
    leader_elect: bool,
}

/// Runs the service.
pub(super) fn run(args: &Args, loaded: &Loaded) -> Result<(), CliError> {
    block_on_all_threads(async {
        let (signals, stop, _) = signals::listen()?;
        tokio::select! {
            served = serve(args, loaded, stop) => served,
            signal = signals.aborted() => Err(CliError::aborted(signal)),
        }
    })
}

async fn serve(args: &Args, loaded: &Loaded, stop: CancellationToken) -> Result<(), CliError> {
    let (connection, settings) = (Arc::new(source::connection(loaded)), loaded.settings.controller.clone());
    let filter = ResourceFilter { only: args.only.clone(), ignore: args.ignore.clone() };
    let service = OwnersService::new(&connection, settings.clone(), filter, now);
    if !args.leader_elect {
        service.run(stop).await;
        return Ok(());
    }
    let mut candidate = Candidate::new(connection, settings.lease, identity(&loaded.settings.node), now);
    tokio::select! {
        () = candidate.lead() => {}
        () = stop.cancelled() => return Ok(()),
    }
    let lost = tokio::select! {
        () = service.run(stop.clone()) => false,
        () = candidate.stay() => true,
    };
    if lost {
        return Err(CliError::message(ErrorKind::Internal, "the lease is lost; another replica may lead now"));
    }
    candidate.release().await;
    Ok(())
}

/// Returns a name that no other process has: two replicas may have the same node and the same process ID.
fn identity(node: &str) -> String {
    format!("{node}_{:016x}", RandomState::new().hash_one(std::process::id()))
}
