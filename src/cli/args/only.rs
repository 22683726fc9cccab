//! Flags that limit a plan to some objects. Every guard stays in force: a limit only takes actions away.

use std::collections::HashSet;

use clap_complete::ArgValueCompleter;

use super::kubectl_args::NamespaceArgs;
use super::values;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::lookup::{Finding, Search, ambiguous, nothing, with_kind};
use crate::cli::verbs::completions;
use crate::config::Loaded;
use crate::model::Snapshot;
use crate::plan::{Kept, Kind, NamedBy, Pace, Plan, Policy};

/// Flags that limit a plan.
#[derive(Debug, clap::Args)]
pub struct OnlyArgs {
    /// Include only these objects: `KIND/NAME`, `KIND NAME...`, or a form that `why` accepts
    #[arg(value_name = "OBJECT", add = ArgValueCompleter::new(completions::objects))]
    objects: Vec<String>,
    /// Include only objects of these kinds
    #[arg(long, value_parser = values::kinds(), value_delimiter = ',')]
    kind: Vec<Kind>,
    #[command(flatten)]
    namespace: NamespaceArgs,
}

// === impl OnlyArgs ===

impl OnlyArgs {
    /// Returns whether any limit is set.
    pub(in crate::cli) fn is_set(&self) -> bool {
        !self.objects.is_empty() || !self.kind.is_empty() || self.namespace.get().is_some()
    }

    /// Returns whether single objects are named.
    pub(in crate::cli) fn names_objects(&self) -> bool {
        !self.objects.is_empty()
    }

    /// Returns the settings for a plan of the named objects: the disk usage is no reason to keep an image that is named, and
    /// the pace counts no others. Every guard and the minimum age remain.
    pub(in crate::cli) fn applied(&self, mut loaded: Loaded) -> Loaded {
        if self.names_objects() {
            let policy = &mut loaded.settings.policy;
            (policy.pass.named_by, policy.images.pace) = (Some(NamedBy::Arguments), Pace::default());
        }
        loaded
    }

    /// Checks that no object is named beside a list of images. The kind may be named, as in `collect images --remove-list`.
    pub(in crate::cli) fn check_alone(&self, has_list: bool) -> Result<(), CliError> {
        if has_list && self.names_single() {
            return Err(CliError::message(ErrorKind::Usage, "--remove-list names the images; omit OBJECT"));
        }
        Ok(())
    }

    /// Returns whether more than the kind `images` is named.
    fn names_single(&self) -> bool {
        !matches!(self.objects.iter().map(String::as_str).collect::<Vec<_>>()[..], [] | ["image" | "images"])
    }

    /// Returns how many named objects a plan keeps: named images, and all of them if it removes none.
    pub(in crate::cli) fn kept(&self, plan: &Plan) -> usize {
        let is_missed = |one: &&Kept| one.kind == Kind::Image || plan.actions.is_empty();
        if self.names_single() { plan.kept.iter().filter(is_missed).count() } else { 0 }
    }

    /// Returns the plan without the other objects.
    pub(in crate::cli) fn limit(&self, mut plan: Plan, snapshot: &Snapshot, policy: &Policy) -> Result<Plan, CliError> {
        if !self.is_set() {
            return Ok(plan);
        }
        let named = self.named(snapshot, policy)?;
        let is_named = |kind: Kind, id: &str| self.objects.is_empty() || named.contains(&(kind, id.to_owned()));
        let is_of_kind = |kind| self.kind.is_empty() || self.kind.contains(&kind);
        plan.retain(|decision| {
            let kind = decision.kind();
            is_of_kind(kind) && self.namespace.includes(decision.pod()) && is_named(kind, &decision.id())
        });
        Ok(plan)
    }

    /// Returns the objects that the words refer to.
    fn named(&self, snapshot: &Snapshot, policy: &Policy) -> Result<HashSet<(Kind, String)>, CliError> {
        let mut named = HashSet::new();
        for word in &with_kind(&self.objects) {
            match (Search { snapshot, namespace: &NamespaceArgs::default() }).find(&policy.logs, word) {
                Finding::Objects(found) => named.extend(found.into_iter().map(|found| (found.kind, found.id))),
                Finding::Ambiguous(candidates) => return Err(ambiguous(word, &candidates)),
                Finding::Nothing(similar) => return Err(nothing(word, &similar)),
            }
        }
        Ok(named)
    }
}
