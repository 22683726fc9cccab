//! `kubegc pause`.

use std::time::Duration;

use jiff::Timestamp;
use nix::unistd::{Uid, User};

use crate::cli::args::times;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::session::block_on;
use crate::cli::render::output::Output;
use crate::cli::verb::{READS_FILES, Start, Verb, VerbFacts};
use crate::config::Environment;
use crate::daemon::{now, removals_ended, write_pause};
use crate::fleet::Pause;

/// The longest wait for removals in progress: most take less than a second, that of a large image some seconds.
const REMOVALS: Duration = Duration::from_secs(10);

/// Stop all removals on this node until `kubegc resume`
///
/// It returns when no removal is in progress any more. Passes go on and show what they would remove. The pause holds for the
/// service and for commands, and outlives a restart. It is a file beside the store, which another tool can create or delete too: an empty
/// file is a pause without an end. On a full disk it takes the place of a file that the service keeps in reserve.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// End of the pause: a duration from now, or a time (UTC if it names no zone)
    #[arg(long, value_name = "WHEN", value_parser = times::from_now)]
    until: Option<Timestamp>,
    /// Why, as status and events show it
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "pause",
            examples: &[
                ("Stop all removals until kubegc resume", "kubegc pause --reason incident-7"),
                ("Stop all removals for an hour", "kubegc pause --until 1h"),
            ],
            words: &["stop", "suspend", "hold", "cordon", "freeze"],
            ..READS_FILES
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let settings = start.load()?.settings;
        let file = settings.state.pause_file();
        let pause = self.pause(start.environment);
        write_pause(&file, &pause).map_err(|error| {
            let message = format!("cannot pause: cannot write {}: {error}", file.display());
            CliError::message(ErrorKind::Partial, message)
                .hint("the file is beside the store (state.path); run as the user of the service, usually root")
        })?;
        output.text(&format!("{pause}\n"))?;
        if !block_on(async { Ok(removals_ended(&file, REMOVALS).await) })? {
            let message = "a removal that began before the pause is still in progress";
            return Err(CliError::message(ErrorKind::Partial, message).hint("no other removal begins"));
        }
        Ok(())
    }
}

impl Args {
    fn pause(&self, environment: &Environment) -> Pause {
        Pause { by: who(environment), reason: self.reason.clone(), since: Some(now()), until: self.until }
    }
}

/// Returns the name of the person: behind sudo, or that of the user of the process.
fn who(environment: &Environment) -> String {
    let own = Uid::current();
    let name = || User::from_uid(own).ok().flatten().map(|user| user.name);
    environment.sudo_user.clone().or_else(name).unwrap_or_else(|| format!("uid {own}"))
}
