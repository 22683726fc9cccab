//! `kubegc run`.

use std::time::Duration;

use super::{CliError, ErrorKind, live};
use crate::config::Loaded;
use crate::cri::{self, Endpoint};
use crate::daemon::{Cycle, now, service, signals};
use crate::execute::Stop;
use crate::record::{Lock, Store};

/// Be the service: collect containers and images, each in its rhythm, until a signal
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Serves. `reload` reads the configuration anew; a fault in it leaves the rules as they are.
pub fn run(Args {}: &Args, loaded: &Loaded, reload: impl FnMut() -> Result<Loaded, CliError>) -> Result<(), CliError> {
    live::block_on(async {
        let (signals, stop, wishes) = signals::listen().map_err(|error| CliError::new(ErrorKind::Internal, error))?;
        tokio::select! {
            done = serve(loaded, &stop, wishes, reload) => done,
            signal = signals.aborted() => Err(CliError::aborted(signal)),
        }
    })
}

async fn serve(
    loaded: &Loaded,
    stop: &Stop,
    wishes: signals::Reload,
    mut reload: impl FnMut() -> Result<Loaded, CliError>,
) -> Result<(), CliError> {
    let mut settings = loaded.settings.clone();
    settings.runtime.options.patience = settings.runtime.options.patience.max(service::PATIENCE);
    let _lock = Lock::take(&Lock::path_beside(&settings.state.path), "run")?;
    let store = Store::open(&settings.state.path)?.store;
    let Some(endpoint) = endpoint(loaded, stop).await else { return Ok(()) };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        endpoint = endpoint.runtime,
        images = endpoint.images,
        chosen_by = %endpoint.chosen_by,
        settings = %loaded.to_json(),
        "begins"
    );
    let (intervals, disks) = (settings.intervals.clone(), live::disks(&settings));
    let cycle = Cycle::live(settings, &endpoint, disks, store, now());
    let policy = || match reload() {
        Ok(loaded) => {
            tracing::info!(settings = %loaded.to_json(), "rules read anew");
            Some(loaded.settings.policy)
        }
        Err(error) => {
            tracing::error!(%error, "the rules stay as they are");
            None
        }
    };
    service::run(cycle, &intervals, stop, wishes, policy).await;
    tracing::info!("ends");
    Ok(())
}

/// Finds the runtime's socket, and waits for it as long as it takes: at boot we may be there first. `None` = stopped
/// meanwhile. A socket that was named is taken as it is.
async fn endpoint(loaded: &Loaded, stop: &Stop) -> Option<Endpoint> {
    let settings = &loaded.settings;
    let mut wait = Duration::from_secs(1);
    loop {
        match cri::resolve(&loaded.candidates, &settings.runtime.options).await {
            Ok(endpoint) => return Some(endpoint),
            Err(error) => tracing::warn!(%error, "no runtime yet"),
        }
        tokio::select! {
            () = stop.wait() => return None,
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(settings.intervals.max_backoff),
        }
    }
}
