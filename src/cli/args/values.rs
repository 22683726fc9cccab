//! Types of the core as values of flags.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::owners::Propagation;
use crate::plan::{Kind, Scope};

/// Returns the word for a kind in flags and in references to objects, as `log-dir/NAME`.
pub(in crate::cli) fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::LogDir => "log-dir",
        Kind::LogFile => "log-file",
        Kind::LogLink => "log-link",
        kind => kind.as_str(),
    }
}

pub(in crate::cli) fn kinds() -> impl TypedValueParser<Value = Kind> {
    words(Kind::ALL, |kind| {
        let help = match kind {
            Kind::Container => "Containers",
            Kind::Sandbox => "Sandboxes",
            Kind::LogDir => "Log directories",
            Kind::LogFile => "Log files",
            Kind::LogLink => "Log links",
            Kind::Leftover => "Leftovers in the kubelet's directory",
            Kind::Image => "Images",
        };
        (word(kind), help)
    })
}

pub(in crate::cli) fn scopes() -> impl TypedValueParser<Value = Scope> {
    words([Scope::Containers, Scope::Images, Scope::All], |scope| {
        let help = match scope {
            Scope::Containers => "Containers, sandboxes and logs",
            Scope::Images => "Images",
            Scope::All => "Everything",
        };
        (scope.as_str(), help)
    })
}

/// Returns the parser of a policy of deletion.
pub(in crate::cli) fn propagations() -> impl TypedValueParser<Value = Propagation> {
    words([Propagation::Background, Propagation::Foreground, Propagation::Orphan], |propagation| match propagation {
        Propagation::Background => ("background", "Delete the dependents afterward"),
        Propagation::Foreground => ("foreground", "Delete the dependents first"),
        Propagation::Orphan => ("orphan", "Keep the dependents, without the reference"),
    })
}

/// Returns a parser of values that have a word and a help text each.
fn words<T: Copy + Send + Sync + 'static, const COUNT: usize>(
    values: [T; COUNT],
    text: fn(T) -> (&'static str, &'static str),
) -> impl TypedValueParser<Value = T> {
    let possible = values.map(text).map(|(word, help)| PossibleValue::new(word).help(help));
    PossibleValuesParser::new(possible)
        .try_map(move |word| values.into_iter().find(|value| text(*value).0 == word).ok_or("an unknown word"))
}
