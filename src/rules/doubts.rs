//! What is allowed in a condition and probably not meant: a label that is read without asking whether there is one.

use std::collections::BTreeSet;

use cel::IdedExpr;
use cel::common::ast::{Expr, operators};

use super::facts::FACTS;
use super::parts::for_each_mut;
use super::prepare::literal;

/// Returns the doubts about a condition, each with the id of its place.
pub(super) fn doubts(condition: &IdedExpr) -> Vec<(u64, String)> {
    let (mut read, mut asked) = (Vec::new(), BTreeSet::new());
    for_each_mut(&mut condition.clone(), &mut |part| match &part.expr {
        Expr::Select(select) if select.test => asked.extend(entry(&select.operand, Some(&select.field))),
        Expr::Select(select) => read.extend(Some(part.id).zip(entry(&select.operand, Some(&select.field)))),
        Expr::Call(call) => match (call.func_name.as_str(), &*call.args) {
            (operators::INDEX, [map, key]) => read.extend(Some(part.id).zip(entry(map, literal(key)))),
            (operators::IN, [key, map]) => asked.extend(entry(map, literal(key))),
            _ => {}
        },
        _ => {}
    });
    read.retain(|(_, entry)| !asked.contains(entry));
    let doubt =
        |entry| format!("without {entry} the condition cannot be evaluated, and `keep` keeps what has no such entry");
    read.into_iter().map(|(id, entry)| (id, doubt(entry))).collect()
}

/// Returns an entry of a fact that is a map, as `'keep' in image.labels`; `None` = the expression is no such fact.
fn entry(map: &IdedExpr, key: Option<&str>) -> Option<String> {
    let Expr::Select(select) = &map.expr else { return None };
    let Expr::Ident(object) = &select.operand.expr else { return None };
    let name = format!("{object}.{}", select.field);
    let is_map = FACTS.iter().any(|fact| fact.name == name && fact.kind.starts_with("map"));
    is_map.then(|| Some(format!("'{}' in {name}", key?)))?
}
