//! Checks a parsed condition: known facts and functions, a bounded depth, no loops in loops in loops.

use cel::Program;
use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue};

use super::fact_table::Fact;
use super::facts::objects;
use super::fault::Fault;
use super::work::inner;
use super::{RuleSubject, Uses};

/// The deepest expression. In a debug build each level takes some 50 KiB of stack.
const MAX_DEPTH: usize = 16;
/// The most loops (`exists`, `all`, `map`, `filter`) within each other.
const MAX_LOOPS: usize = 2;

/// The functions of the language besides operators.
const FUNCTIONS: &str = "bool bytes contains double duration dyn endsWith getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear \
    getHours getMilliseconds getMinutes getMonth getSeconds int matches size startsWith string timestamp type \
    uint";

/// The names of types, for `type(x) == int`.
const TYPES: &[&str] = &["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];

struct Check<'a> {
    of: RuleSubject,
    program: &'a Program,
    when: &'a str,
    /// The variables of the loops around a place.
    scope: Vec<&'a str>,
    loops: usize,
    uses: Uses,
    faults: Vec<Fault>,
}

/// Checks a condition, and returns the facts that it uses.
///
/// # Errors
/// The faults, each with line and column.
pub(super) fn check(of: RuleSubject, program: &Program, when: &str) -> Result<Uses, Vec<Fault>> {
    let (scope, uses, faults) = (Vec::new(), Uses::default(), Vec::new());
    let mut check = Check { of, program, when, scope, loops: 0, uses, faults };
    check.expression(program.expression(), 0);
    if check.faults.is_empty() { Ok(check.uses) } else { Err(check.faults) }
}

// === impl Check ===

impl<'a> Check<'a> {
    fn expression(&mut self, expression: &'a IdedExpr, depth: usize) {
        if depth > MAX_DEPTH {
            return self.fault(expression.id, &format!("is deeper than {MAX_DEPTH} levels"));
        }
        let depth = depth + 1;
        match &expression.expr {
            Expr::Ident(name) => self.name(expression.id, name),
            Expr::Select(select) => match &select.operand.expr {
                Expr::Ident(object) if self.is_object(object) => {
                    return self.fact(expression.id, object, &select.field);
                }
                _ => {}
            },
            Expr::Call(call) => {
                self.function(expression.id, &call.func_name);
                self.pattern(call);
            }
            Expr::Comprehension(it) => return self.comprehension(expression.id, it, depth),
            Expr::Struct(_) => self.fault(expression.id, "message types are not supported"),
            Expr::Unspecified | Expr::Literal(_) | Expr::List(_) | Expr::Map(_) => {}
        }
        for part in inner(expression) {
            self.expression(part, depth);
        }
    }

    fn comprehension(&mut self, id: u64, it: &'a ComprehensionExpr, depth: usize) {
        self.loops += 1;
        if self.loops > MAX_LOOPS {
            self.fault(id, &format!("has more than {MAX_LOOPS} loops within each other"));
        }
        self.expression(&it.iter_range, depth);
        let before = self.scope.len();
        self.scope.extend([it.iter_var.as_str(), it.accu_var.as_str()]);
        self.scope.extend(it.iter_var2.as_deref());
        for part in [&it.accu_init, &it.loop_cond, &it.loop_step, &it.result] {
            self.expression(part, depth);
        }
        self.scope.truncate(before);
        self.loops -= 1;
    }

    fn name(&mut self, id: u64, name: &'a str) {
        if self.is_object(name) {
            return self.uses.extend(Fact::of(name).map(|(fact, _)| fact));
        }
        if self.scope.contains(&name) || TYPES.contains(&name) {
            return;
        }
        let known = objects(self.of).join(", ");
        self.fault(id, &format!("unknown name {name:?}; known are {known}"));
    }

    fn fact(&mut self, id: u64, object: &str, field: &str) {
        if let Some(fact) = Fact::find(object, field) {
            self.uses.insert(fact);
        } else {
            let known = Fact::of(object).map(|(_, field)| field).collect::<Vec<_>>().join(", ");
            self.fault(id, &format!("unknown fact {object}.{field}; known are {known}"));
        }
    }

    /// Operators have names such as `_+_` and `@in`, which cannot be written.
    fn function(&mut self, id: u64, name: &str) {
        let is_operator = !name.starts_with(|first: char| first.is_ascii_alphabetic());
        if !is_operator && !FUNCTIONS.split(' ').any(|known| known == name) {
            self.fault(id, &format!("unknown function {name:?}"));
        }
    }

    /// The pattern of `matches` is the operator's: one from a fact could be of any size.
    fn pattern(&mut self, call: &'a CallExpr) {
        let is_pattern = |argument: &&IdedExpr| !matches!(argument.expr, Expr::Literal(LiteralValue::String(_)));
        if call.func_name == "matches"
            && let Some(wrong) = call.args.last().filter(is_pattern)
        {
            self.fault(wrong.id, "the pattern of matches must be a text");
        }
    }

    fn is_object(&self, name: &str) -> bool {
        !self.scope.contains(&name) && objects(self.of).contains(&name)
    }

    fn fault(&mut self, id: u64, what: &str) {
        self.faults.push(placed(self.program, self.when, id, what));
    }
}

/// Returns a fault with its line and column. A part that a macro has made has no place of its own.
pub(super) fn placed(program: &Program, when: &str, id: u64, what: &str) -> Fault {
    let offset = program.source_info().offset_for(id).map_or(0, |(start, _)| start as usize);
    let before = when.get(..offset).unwrap_or_default();
    let (line, last) = (1 + before.matches('\n').count(), before.rsplit('\n').next().unwrap_or_default());
    Fault { at: Some((line, 1 + last.chars().count())), what: what.to_owned() }
}
