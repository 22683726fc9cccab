//! What is wrong with an expression, or doubtful in it.
//!
//! Doubtful is what is allowed and probably not meant: a label that is read without asking whether there is one, and what a
//! rule for logs may not know of a deleted pod.

use std::collections::BTreeSet;
use std::fmt;

use cel::IdedExpr;
use cel::common::ast::{Expr, operators};

use super::RuleSubject;
use super::fact_table::Fact;
use super::prepare::{for_each_mut, literal};

/// A fault of an expression, or a doubt about it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    /// Line and column in the expression, from 1; `None` = the expression as a whole.
    pub at: Option<(usize, usize)>,
    pub what: String,
}

// === impl Fault ===

impl From<String> for Fault {
    fn from(what: String) -> Self {
        Self { at: None, what }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.at.map_or(Ok(()), |(line, column)| write!(f, "{line}:{column}: "))?;
        f.write_str(&self.what)
    }
}

/// Returns the doubts about a condition, each with the id of its place.
pub(super) fn doubts(of: RuleSubject, condition: &IdedExpr) -> Vec<(u64, String)> {
    let (mut read, mut asked) = (Vec::new(), BTreeSet::new());
    let mut of_pods = Vec::new();
    for_each_mut(&mut condition.clone(), &mut |part| match &part.expr {
        Expr::Select(select) if select.test => {
            asked.extend(entry(&select.operand, Some(&select.field)));
            asked.extend(of_pod(&select.operand, &select.field));
        }
        Expr::Select(select) => {
            read.extend(Some(part.id).zip(entry(&select.operand, Some(&select.field))));
            of_pods.extend(Some(part.id).zip(of_pod(&select.operand, &select.field)));
        }
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
    of_pods.retain(|(_, fact)| of == RuleSubject::Log && !asked.contains(fact));
    let of_deleted =
        |fact| format!("{fact} is known only of a pod that a pass saw before it was deleted; `keep` keeps other logs");
    let of_pods = of_pods.into_iter().map(|(id, fact)| (id, of_deleted(fact)));
    read.into_iter().map(|(id, entry)| (id, doubt(entry))).chain(of_pods).collect()
}

/// Returns the name of a fact that only the pod itself has, as `pod.phase`.
fn of_pod(object: &IdedExpr, field: &str) -> Option<String> {
    fact(object, field).filter(|fact| fact.is_of_pod()).map(|fact| fact.row().name.to_owned())
}

/// Returns an entry of a fact that is a map, as `'keep' in image.labels`; `None` = the expression is no such fact.
fn entry(map: &IdedExpr, key: Option<&str>) -> Option<String> {
    let Expr::Select(select) = &map.expr else { return None };
    let fact = fact(&select.operand, &select.field)?.row();
    fact.kind.starts_with("map").then(|| Some(format!("'{}' in {}", key?, fact.name)))?
}

fn fact(object: &IdedExpr, field: &str) -> Option<Fact> {
    let Expr::Ident(object) = &object.expr else { return None };
    Fact::find(object, field)
}
