//! The parts of an expression.

use cel::IdedExpr;
use cel::common::ast::{EntryExpr, Expr};

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
