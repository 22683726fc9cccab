//! `kubegc config rules`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::cli_error::CliError;
use crate::cli::input::documents::Snapshots;
use crate::cli::input::session::{all_seen, block_on, plan_now};
use crate::cli::render::format;
use crate::cli::render::output::{Document, Output};
use crate::cli::render::plan_tables::rule_note;
use crate::cli::render::tables::RULES;
use crate::cli::verb::{READS_FILES, ROWS, Start, Verb, VerbFacts};
use crate::config::then_text;
use crate::plan::{RuleNote, Scope};
use crate::rules::RuleText;

/// Show each rule, and what it decides now
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Use a snapshot instead of this node (- for standard input)
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
}

/// The rules, and what each decides now, for programs.
#[derive(JsonSchema, Serialize)]
pub(in crate::cli) struct RuleList {
    /// The rules, in order.
    rules: Vec<RuleEntry>,
}

/// A rule, and what it decides now.
#[derive(JsonSchema, Serialize)]
struct RuleEntry {
    /// What it is about.
    #[serde(rename = "for")]
    of: &'static str,
    /// The condition.
    when: String,
    /// What follows, as in the configuration.
    then: String,
    /// The day on which it ends; `null` = it has none.
    until: Option<String>,
    /// The note for people.
    note: String,
    /// What it decides now.
    #[serde(flatten)]
    now: RuleNote,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "config rules",
            examples: &[("Show what each rule decides now", "kubegc config rules")],
            formats: ROWS,
            ..READS_FILES
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let loaded = start.load()?;
        let (_, plan) = match &self.snapshot {
            Some(file) => Snapshots::open(file)?.planned(&loaded.settings.policy)?,
            None => block_on(plan_now(&loaded, Scope::All, []))?,
        };
        let rules = loaded.settings.policy.rules.iter().map(crate::rules::Rule::text);
        let rules = rules.zip(&plan.rules).map(|(text, now)| RuleEntry::new(text, now.clone())).collect();
        let list = RuleList { rules };
        output.result(&Document::of(&list), || list.text())?;
        all_seen(&plan)
    }
}

// === impl RuleEntry ===

impl RuleEntry {
    fn new(text: &RuleText, now: RuleNote) -> Self {
        let until = text.until.map(|day| day.to_string());
        Self {
            of: text.subject.into(),
            when: text.when.clone(),
            then: then_text(&text.then),
            until,
            note: text.note.clone(),
            now,
        }
    }

    fn row(&self) -> [String; 8] {
        let bytes = self.now.total_bytes.unwrap_or(self.now.bytes);
        let size = Some(bytes).filter(|bytes| *bytes > 0).map(format::size);
        [
            self.now.rule.clone(),
            self.of.to_owned(),
            self.then.clone(),
            self.now.objects.to_string(),
            size.unwrap_or_else(|| "-".to_owned()),
            self.until.clone().unwrap_or_else(|| "-".to_owned()),
            self.when.clone(),
            self.note.clone(),
        ]
    }
}

// === impl RuleList ===

impl RuleList {
    fn text(&self) -> String {
        if self.rules.is_empty() {
            return "No rules. docs/rules.md has examples.\n".to_owned();
        }
        let notes = self.rules.iter().filter_map(|rule| rule_note(&rule.now)).map(|note| format!("Rule: {note}\n"));
        let notes: String = notes.collect();
        let gap = if notes.is_empty() { "" } else { "\n" };
        format!("{}{gap}{notes}", RULES.text(self.rules.iter().map(RuleEntry::row)))
    }
}
