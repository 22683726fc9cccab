//! `kubegc fleet remove`: images that all nodes remove while they are unused.

use std::path::PathBuf;

use jiff::Timestamp;

use super::answers::{WaitArgs, show_answers};
use super::selector::SelectorArgs;
use super::written_policy::write_policy;
use crate::cli::args::times;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::cluster::Source;
use crate::cli::input::listed_images;
use crate::cli::input::session::block_on;
use crate::cli::render::output::Output;
use crate::cli::verb::{LOOKS, Start, Verb, VerbFacts};
use crate::fleet::{ImageList, NodeDiskPolicySpec};

/// Remove unused images from all nodes, until a time
///
/// The list is a NodeDiskPolicy. Each node removes these images in its passes over images while they are unused, under its own guards, and
/// answers. A node that joins before the list expires does so too. A list of the same name is replaced; `kubegc fleet resume --name NAME` ends
/// it.
#[derive(Debug, clap::Args)]
pub(super) struct RemoveArgs {
    /// Names with a tag or a digest, digests (sha256:…), or repositories
    #[arg(value_name = "IMAGE", required_unless_present = "list")]
    images: Vec<String>,
    /// File with a name on each line, or a report of Trivy in JSON (- for standard input)
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    #[command(flatten)]
    nodes: SelectorArgs,
    /// End of the list: a duration from now, or a time (UTC if it names no zone)
    #[arg(long, value_name = "WHEN", value_parser = times::from_now, default_value = "30d")]
    expires: Timestamp,
    /// Name of the policy
    #[arg(long, value_name = "NAME", default_value = "remove")]
    name: String,
    #[command(flatten)]
    wait: WaitArgs,
}

// === impl RemoveArgs: the command ===

impl Verb for RemoveArgs {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "fleet remove",
            examples: &[
                ("Remove an image from all nodes, and wait for their answers", "kubegc fleet remove app:1.2 --wait"),
                ("Remove what a scanner found", "kubegc fleet remove --list report.json --name scan"),
            ],
            words: &["purge", "rmi", "prune"],
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let list = self.image_list()?;
        let connection = Source::new(&start.load()?, start).patient_connection();
        let (node_selector, remove_images) = (self.nodes.selector.clone(), Some(list));
        let spec = NodeDiskPolicySpec { node_selector, remove_images, ..NodeDiskPolicySpec::default() };
        block_on(async {
            let written = write_policy(&connection, &self.name, &spec).await?;
            output.text(&format!("nodediskpolicy.kubegc.dev/{} applied until {:.0}\n", self.name, self.expires))?;
            let selector = self.nodes.selector.as_ref();
            match self.wait.wait {
                Some(wait) => show_answers(&connection, selector, &written, wait, output).await,
                None => self.wait.show(&connection, selector, |node| node.policies.contains(&self.name), output).await,
            }
        })
    }
}

impl RemoveArgs {
    fn image_list(&self) -> Result<ImageList, CliError> {
        let mut words = self.images.clone();
        words.extend(self.list.as_deref().map(listed_images::of_file).transpose()?.unwrap_or_default());
        let list = ImageList::of(words);
        let list =
            list.map_err(|fault| CliError::message(ErrorKind::Usage, format!("cannot remove images: {fault}")))?;
        Ok(ImageList { expires: Some(self.expires), ..list })
    }
}
