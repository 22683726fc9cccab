//! Checks the types of all parts of an expression. The language has no types before the evaluation, so each part is evaluated
//! with the facts of an example: an operand of `&&` may be wrong where the evaluation of the whole never comes to it.

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, operators};
use cel::{Context, ExecutionError, IdedExpr, Value};

use super::facts::{Wants, a_bool, shown};
use super::work::inner;

/// The faults so far, each with the id of its place.
#[derive(Default)]
struct Check {
    faults: Vec<(u64, String)>,
}

/// Returns the faults of the types of an expression.
pub(super) fn check(expression: &IdedExpr, context: &Context<'_, '_>, wants: Wants) -> Vec<(u64, String)> {
    let mut check = Check::default();
    let value = check.part(expression, context);
    check.wants(expression.id, value.as_ref(), wants);
    check.faults
}

/// Returns whether another object may not have this error.
fn depends_on_values(error: &ExecutionError) -> bool {
    matches!(
        error,
        ExecutionError::NoSuchKey(_)
            | ExecutionError::IndexOutOfBounds(_)
            | ExecutionError::DivisionByZero(_)
            | ExecutionError::RemainderByZero(_)
            | ExecutionError::Overflow(..)
    )
}

// === impl Check ===

impl Check {
    /// Checks a part, and returns its value; `None` = it is wrong, or not known for the example.
    fn part(&mut self, expression: &IdedExpr, context: &Context<'_, '_>) -> Option<Value> {
        let before = self.faults.len();
        match &expression.expr {
            // The name of a type is no value.
            Expr::Unspecified | Expr::Struct(_) => return None,
            Expr::Ident(name) if context.get_variable(name).is_none() => return None,
            Expr::Literal(_) | Expr::Ident(_) => {}
            Expr::Select(_) | Expr::List(_) | Expr::Map(_) => {
                for part in inner(expression) {
                    self.part(part, context);
                }
            }
            Expr::Call(call) if call.func_name == "type" => return None,
            Expr::Call(call) => self.call(expression.id, call, context),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, context),
        }
        if self.faults.len() > before {
            return None;
        }
        match Value::resolve(expression, context) {
            Ok(value) => Some(value),
            Err(error) if depends_on_values(&error) => None,
            Err(error) => {
                self.faults.push((expression.id, shown(&error)));
                None
            }
        }
    }

    fn call(&mut self, id: u64, call: &CallExpr, context: &Context<'_, '_>) {
        call.target.iter().for_each(|target| drop(self.part(target, context)));
        let values: Vec<_> = call.args.iter().map(|argument| self.part(argument, context)).collect();
        let bools = match call.func_name.as_str() {
            operators::LOGICAL_AND | operators::LOGICAL_OR => call.args.len(),
            operators::CONDITIONAL => 1,
            _ => 0,
        };
        for (argument, value) in call.args.iter().zip(&values).take(bools) {
            self.wants(argument.id, value.as_ref(), a_bool);
        }
        if let (operators::EQUALS | operators::NOT_EQUALS, [Some(one), Some(other)]) = (&*call.func_name, &*values)
            && !is_comparable(one, other)
        {
            let fault = format!("compares {} with {}, which are never equal", one.type_of(), other.type_of());
            self.faults.push((id, fault));
        }
    }

    /// Checks the body of a loop for the first element of the example.
    fn comprehension(&mut self, comprehension: &ComprehensionExpr, context: &Context<'_, '_>) {
        let range = self.part(&comprehension.iter_range, context);
        let start = self.part(&comprehension.accu_init, context);
        let first = match range {
            Some(Value::List(list)) => list.first().cloned(),
            Some(Value::Map(map)) => map.map.keys().next().map(Into::into),
            _ => None,
        };
        let (Some(first), Some(start), None) = (first, start, &comprehension.iter_var2) else { return };
        let mut inner = context.new_inner_scope();
        inner.add_variable_from_value(&*comprehension.iter_var, first);
        inner.add_variable_from_value(&*comprehension.accu_var, start);
        for part in [&comprehension.loop_cond, &comprehension.loop_step, &comprehension.result] {
            self.part(part, &inner);
        }
    }

    fn wants(&mut self, id: u64, value: Option<&Value>, wants: Wants) {
        if let Some(value) = value
            && let Err(wanted) = wants(value)
        {
            self.faults.push((id, format!("is of type {}, expected {wanted}", value.type_of())));
        }
    }
}

/// Returns whether values of these types can be equal. Numbers can, whatever their types.
fn is_comparable(one: &Value, other: &Value) -> bool {
    let is_number = |value: &Value| matches!(value, Value::Int(_) | Value::UInt(_) | Value::Float(_));
    let is_any = |value: &Value| matches!(value, Value::Null);
    is_any(one)
        || is_any(other)
        || is_number(one) && is_number(other)
        || one.type_of().to_string() == other.type_of().to_string()
}
