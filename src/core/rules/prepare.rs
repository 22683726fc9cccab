//! Prepares a checked expression for many evaluations: patterns are compiled once, and durations are read as the settings are.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, RwLock};

use cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue};
use cel::extractors::This;
use cel::{Context, IdedExpr};
use regex::{Regex, RegexBuilder};

use super::fact_table::Fact;

/// The name of `matches` after the preparation. It cannot be written.
const MATCHES: &str = "@matches";
/// What precedes the name of a fact in the question whether it is available. It cannot be written.
pub(super) const HAS: char = '?';
/// The most memory of a compiled pattern in bytes, as the crate has it: `\w{1,63}` takes several MiB, because it has all letters.
const MAX_PATTERN_BYTES: usize = 10 << 20;

/// The patterns of all conditions of this process. They are the operator's: each is a literal text in a condition.
static PATTERNS: LazyLock<RwLock<HashMap<String, Regex>>> = LazyLock::new(RwLock::default);

/// Returns the expression with prepared patterns and durations, or the faults of its patterns, each with the id of its place.
pub(super) fn prepare(expression: &IdedExpr) -> Result<IdedExpr, Vec<(u64, String)>> {
    let (mut prepared, mut faults) = (expression.clone(), Vec::new());
    for_each_mut(&mut prepared, &mut |part| {
        let id = part.id;
        if let Expr::Call(call) = &mut part.expr {
            match call.func_name.as_str() {
                "matches" => faults.extend(prepare_pattern(call).err().map(|fault| (id, fault))),
                "duration" => prepare_duration(call),
                _ => {}
            }
        }
    });
    if faults.is_empty() { Ok(prepared) } else { Err(faults) }
}

/// Gives each fact, and each question whether it is available, a name of its own, which is one look-up. An expression with a loop over a
/// variable with the name of an object stays as it is.
pub(super) fn name_facts(mut expression: IdedExpr) -> IdedExpr {
    let mut variables = Vec::new();
    for_each_mut(&mut expression, &mut |part| {
        if let Expr::Comprehension(it) = &part.expr {
            variables.extend([it.iter_var.clone()].into_iter().chain(it.iter_var2.clone()));
        }
    });
    for_each_mut(&mut expression, &mut |part| {
        if let Expr::Select(select) = &part.expr
            && let Expr::Ident(object) = &select.operand.expr
            && !variables.contains(object)
            && let Some(fact) = Fact::find(object, &select.field)
        {
            part.expr = Expr::Ident(select.test.then_some(HAS).into_iter().chain(fact.row().name.chars()).collect());
        }
    });
    expression
}

/// Adds the functions that a prepared expression calls.
pub(super) fn add_functions(context: &mut Context<'_, '_>) {
    // The name is not declared by the language, so the addition cannot fail.
    let _ = context.add_function(MATCHES, |This(text): This<Arc<String>>, pattern: Arc<String>| {
        let patterns = PATTERNS.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        patterns.get(pattern.as_str()).is_some_and(|regex| regex.is_match(&text))
    });
}

fn prepare_pattern(call: &mut CallExpr) -> Result<(), String> {
    let Some(pattern) = call.args.last().and_then(literal) else { return Ok(()) };
    let regex = RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).build();
    let regex = regex.map_err(|error| format!("matches: {}", last_line(&error.to_string())))?;
    PATTERNS.write().unwrap_or_else(std::sync::PoisonError::into_inner).insert(pattern.to_owned(), regex);
    MATCHES.clone_into(&mut call.func_name);
    Ok(())
}

/// The language has no days. What a setting accepts is written in its units; the rest stays as it is.
fn prepare_duration(call: &mut CallExpr) {
    let Some(argument) = call.args.first_mut() else { return };
    if let Some(time) = literal(argument).and_then(|text| humantime::parse_duration(text).ok()) {
        let text = format!("{}s{}ns", time.as_secs(), time.subsec_nanos());
        argument.expr = Expr::Literal(LiteralValue::String(text.into()));
    }
}

/// Returns a literal text; `None` = the expression is something else.
pub(super) fn literal(expression: &IdedExpr) -> Option<&str> {
    match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text),
        _ => None,
    }
}

/// A message of the crate repeats the pattern first.
fn last_line(message: &str) -> &str {
    message.lines().last().unwrap_or_default().trim_start_matches("error: ")
}

/// Calls `visit` for an expression and everything in it, the inner parts first.
pub(super) fn for_each_mut(expression: &mut IdedExpr, visit: &mut impl FnMut(&mut IdedExpr)) {
    match &mut expression.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) => {}
        Expr::Select(select) => for_each_mut(&mut select.operand, visit),
        Expr::Call(call) => {
            call.target.iter_mut().for_each(|target| for_each_mut(target, visit));
            call.args.iter_mut().for_each(|argument| for_each_mut(argument, visit));
        }
        Expr::List(list) => list.elements.iter_mut().for_each(|element| for_each_mut(element, visit)),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    for_each_mut(&mut entry.key, visit);
                    for_each_mut(&mut entry.value, visit);
                }
            }
        }
        Expr::Comprehension(it) => {
            let parts = [&mut it.iter_range, &mut it.accu_init, &mut it.loop_cond, &mut it.loop_step, &mut it.result];
            for part in parts {
                for_each_mut(part, visit);
            }
        }
    }
    visit(expression);
}
