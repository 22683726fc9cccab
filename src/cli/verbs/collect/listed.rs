//! Lists of images from other programs, such as scanners: `--remove-list` and `--keep-list`.
//!
//! A line names an image as in `why`: by a name, a digest or an id. A line that is only a part of a name, and one that several images
//! have, is ambiguous and removes nothing: a scanner's list names images that this node may not have. What a line names is removed
//! only if it is unused and nothing keeps it, as with `images.all_unused`.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::args::kubectl_args::NamespaceArgs;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::listed_images;
use crate::cli::input::lookup::Search;
use crate::cli::input::session::plan_now;
use crate::cli::render::output::{Document, Output};
use crate::cli::render::tables::LISTED;
use crate::cli::render::{format, reference};
use crate::config::Loaded;
use crate::model::{Image, ImageId, Snapshot, full_image_name};
use crate::plan::{Decision, Kind, LogPolicy, NamedBy, Plan, Report, Scope, key};

/// Flags for lists of images.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Remove the unused images that a file names (- for standard input)
    ///
    /// Each line is a name, a digest or an id. A report of Trivy in JSON names the images with a vulnerability. The disk usage does not matter, and all guards apply. With -o json, each line of
    /// the list has a line of output.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["plan", "scope", "kind", "namespace", "evict_terminated_pods", "pressure", "wait"])]
    remove_list: Option<PathBuf>,
    /// Also keep the images that a file names (- for standard input)
    #[arg(long, value_name = "FILE", conflicts_with = "plan")]
    keep_list: Option<PathBuf>,
}

/// The names of the lists.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    remove: Option<Vec<String>>,
    keep: Vec<String>,
}

/// What became of an image that a list names.
#[derive(JsonSchema, Serialize)]
pub(in crate::cli) struct ListedImage {
    /// The name in the list.
    name: String,
    /// The id; `null` = the node has no such image.
    id: Option<ImageId>,
    /// All names of the image, which its removal removes together; empty = the node has no such image.
    tags: Vec<String>,
    /// `absent`, `ambiguous`, `kept`, `unknown` if the images cannot be listed, or the outcome of the removal.
    outcome: &'static str,
    /// Why it is kept, refused, ambiguous or not known; empty otherwise.
    why: String,
    /// The bytes that the removal reclaimed; `null` = not removed or not measured.
    freed_bytes: Option<u64>,
}

// === impl ListArgs ===

impl ListArgs {
    pub(super) fn read(&self) -> Result<Lists, CliError> {
        let is_stdin = |list: &Option<PathBuf>| list.as_deref().is_some_and(|path| path.as_os_str() == "-");
        if is_stdin(&self.remove_list) && is_stdin(&self.keep_list) {
            return Err(CliError::message(ErrorKind::Usage, "only one list can be standard input"));
        }
        let remove = self.remove_list.as_deref().map(listed_images::of_file).transpose()?;
        let keep = self.keep_list.as_deref().map(listed_images::of_plain_file).transpose()?;
        Ok(Lists { remove, keep: keep.unwrap_or_default() })
    }
}

// === impl Lists ===

impl Lists {
    /// Returns whether a list names what is removed.
    pub(super) fn removes(&self) -> bool {
        self.remove.is_some()
    }

    /// Returns whether images are kept that the settings do not keep.
    pub(super) fn keeps(&self) -> bool {
        !self.keep.is_empty()
    }

    /// Returns the settings with the lists applied.
    pub(super) fn applied(&self, mut loaded: Loaded) -> Loaded {
        let policy = &mut loaded.settings.policy;
        policy.images.keep.extend(self.keep.iter().map(|name| name.as_str().into()));
        policy.pass.named_by = self.removes().then_some(NamedBy::List);
        loaded
    }

    /// Plans the removal of the named images, and says what is known of each name.
    pub(super) async fn plan(&self, loaded: &Loaded) -> Result<(Plan, Vec<ListedImage>), CliError> {
        let (snapshot, mut plan) = plan_now(loaded, Scope::Images, []).await?;
        let names = self.remove.iter().flatten();
        let known = Known::new(&snapshot, &plan, &loaded.settings.policy.logs);
        let listed: Vec<_> = names.map(|name| ListedImage::new(name, &known)).collect();
        let ids: HashSet<_> = listed.iter().filter_map(|one| one.id.as_ref().map(ImageId::as_str)).collect();
        plan.retain(|decision| decision.kind() == Kind::Image && ids.contains(&*decision.id()));
        Ok((plan, listed))
    }
}

/// The images of the node, and what the plan decides: a list may have thousands of names.
struct Known<'a> {
    by_name: HashMap<String, &'a Image>,
    search: Search<'a>,
    logs: &'a LogPolicy,
    decided: HashMap<String, Decision<'a>>,
}

/// What a name in a list refers to.
enum NameMatch<'a> {
    Image(&'a Image),
    Nothing,
    Unclear(String),
}

// === impl Known ===

impl<'a> Known<'a> {
    fn new(snapshot: &'a Snapshot, plan: &'a Plan, logs: &'a LogPolicy) -> Self {
        static ALL: NamespaceArgs = NamespaceArgs { namespace: None, all_namespaces: false };
        let listed = snapshot.images.as_ref().into_iter().flatten();
        let by_name = listed.flat_map(|image| image.names().map(move |name| (name.into_owned(), image))).collect();
        Self { by_name, search: Search { snapshot, namespace: &ALL }, logs, decided: plan.by_key() }
    }

    /// Finds the image by its whole name, else in every form that `why` accepts.
    fn match_of(&self, name: &str) -> NameMatch<'a> {
        if let Some(image) = self.by_name.get(&*full_image_name(name)) {
            return NameMatch::Image(image);
        }
        let (is_part, found) = self.search.find_images(self.logs, name);
        match found[..] {
            [] => NameMatch::Nothing,
            [image] if !is_part => NameMatch::Image(image),
            _ if is_part => {
                NameMatch::Unclear(format!("only a part of the name of {}", format::list(&names_of(&found))))
            }
            _ => NameMatch::Unclear(format!("names {}", format::list(&names_of(&found)))),
        }
    }
}

fn names_of(images: &[&Image]) -> Vec<String> {
    images.iter().map(|image| image.tags.first().cloned().unwrap_or_else(|| image.id.to_string())).collect()
}

// === impl ListedImage ===

impl ListedImage {
    fn new(name: &str, known: &Known) -> Self {
        let no_image = |outcome, why| (None, outcome, why);
        let (image, outcome, why) = match (known.search.snapshot.images.cause(), known.match_of(name)) {
            (Some(cause), _) => no_image("unknown", cause.to_owned()),
            (None, NameMatch::Nothing) => no_image("absent", String::new()),
            (None, NameMatch::Unclear(why)) => no_image("ambiguous", why),
            (None, NameMatch::Image(image)) => match known.decided.get(&key(Kind::Image, image.id.as_str())) {
                Some(Decision::Keep(kept)) => (Some(image), "kept", kept.reason.explain().phrase.into_owned()),
                Some(Decision::Remove(_) | Decision::IfNeeded(_)) | None => (Some(image), "not_begun", String::new()),
            },
        };
        let id = image.map(|image| image.id.clone());
        let tags = image.map(|image| image.tags.clone()).unwrap_or_default();
        Self { name: name.to_owned(), id, tags, outcome, why, freed_bytes: None }
    }

    /// Returns whether the line may mean several images, so that it removed nothing.
    pub(super) fn is_ambiguous(&self) -> bool {
        self.outcome == "ambiguous"
    }

    /// Returns the text for the table: the cause, and the names that go with the image.
    fn note(&self) -> String {
        let is_removed = matches!(self.outcome, "removed" | "would_remove");
        let all = (is_removed && self.tags.len() > 1)
            .then(|| format!("all {} names: {}", self.tags.len(), self.tags.join(", ")));
        let texts = Some(&self.why).filter(|why| !why.is_empty()).cloned().into_iter().chain(all);
        texts.collect::<Vec<_>>().join("; ")
    }

    fn finish(&mut self, report: &Report) {
        self.outcome = report.outcome.kind();
        self.freed_bytes = report.freed_bytes;
        self.why = report.note.clone().unwrap_or_default();
    }
}

/// Returns the error of lines that removed nothing because they may mean several images.
pub(super) fn ambiguous(lines: usize) -> CliError {
    let message = format!("cannot remove images for {} of the list: ambiguous", format::count(lines, "line"));
    CliError::message(ErrorKind::Partial, message).hint("name each image in full, by its tag, digest or id")
}

/// Prints what became of each name.
pub(super) fn print(listed: &mut [ListedImage], reports: &[Report], output: &mut Output) -> Result<(), CliError> {
    let by_id: HashMap<_, _> = reports.iter().map(|report| (report.action.target.id(), report)).collect();
    for one in &mut *listed {
        if let Some(report) = one.id.as_ref().and_then(|id| by_id.get(id.as_str())) {
            one.finish(report);
        }
    }
    let removed = listed.iter().filter(|one| matches!(one.outcome, "removed" | "would_remove"));
    let names = removed.filter_map(|one| Some(reference(Kind::Image, one.id.as_ref()?.as_str())));
    let documents: Vec<_> = listed.iter().map(Document::of).collect();
    output.entries(&documents, names, || {
        let row = |one: &ListedImage| {
            let freed = one.freed_bytes.map(format::size).unwrap_or_default();
            [one.name.clone(), one.outcome.replace('_', " "), freed, one.note()]
        };
        LISTED.text(listed.iter().map(row))
    })
}
