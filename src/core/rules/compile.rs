//! Compiles an expression, with a bound on its length and depth.
//!
//! The parser and the evaluation of `cel` call themselves for each level of an expression, and a stack that overflows ends the
//! process. So an expression has a limited length, is parsed on a stack that suffices for any expression of that length, and is
//! refused if it is deeper than what the stack of any thread can evaluate.

use std::any::Any;

use cel::{IdedExpr, ParseErrors, Program};

use super::facts::{PassFacts, Values, Wants};
use super::fault::{Fault, doubts};
use super::work::{Work, work};
use super::{RuleSubject, Uses, check, prepare};

/// The longest expression in bytes.
pub const MAX_LENGTH: usize = 1024;
/// The stack of the parser. It is reserved and not used, except by an expression that consists of brackets.
const STACK: usize = 128 << 20;

/// An expression that can be evaluated.
pub(super) struct Compiled {
    pub expression: IdedExpr,
    pub work: Work,
    /// The facts that it uses.
    pub uses: Uses,
    /// What is allowed and doubtful.
    pub doubts: Vec<Fault>,
}

/// Compiles an expression over the facts of an object.
pub(super) fn compile(of: RuleSubject, when: &str, wants: Wants) -> Result<Compiled, Vec<Fault>> {
    if when.len() > MAX_LENGTH {
        return Err(vec![format!("has {} bytes, and at most {MAX_LENGTH} are allowed", when.len()).into()]);
    }
    let work = || parse_and_check(of, when, wants);
    std::thread::scope(|scope| {
        let parser = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        parser.map_err(|error| vec![format!("no thread to parse it: {error}").into()])?.join().unwrap_or_else(panicked)
    })
}

/// A panic of the parser is a fault of the expression.
fn panicked(_: Box<dyn Any + Send>) -> Result<Compiled, Vec<Fault>> {
    Err(vec!["cannot be parsed".to_owned().into()])
}

fn parse_and_check(of: RuleSubject, when: &str, wants: Wants) -> Result<Compiled, Vec<Fault>> {
    let program = Program::compile(when).map_err(|errors| syntax(&errors))?;
    let uses = check::check(of, &program, when)?;
    let placed = |faults: Vec<(u64, String)>| -> Vec<Fault> {
        faults.into_iter().map(|(id, what)| check::placed(&program, when, id, &what)).collect()
    };
    let expression = prepare::prepare(program.expression()).map_err(placed)?;
    let faults = PassFacts::example().with(Values::new()).check_types(&expression, wants);
    if !faults.is_empty() {
        return Err(placed(faults));
    }
    let (work, doubts) = (work(&expression), placed(doubts(of, program.expression())));
    Ok(Compiled { work, expression: prepare::name_facts(expression), uses, doubts })
}

/// Returns the faults of the syntax. The first line of a message is what is wrong; the others repeat the expression.
fn syntax(errors: &ParseErrors) -> Vec<Fault> {
    let fault = |error: &cel::ParseError| {
        let what = error.msg.lines().next().unwrap_or_default().chars().take(200).collect::<String>();
        let place = |number: isize| usize::try_from(number).unwrap_or(1).max(1);
        Fault { at: Some((place(error.pos.0), place(error.pos.1))), what }
    };
    errors.errors.iter().map(fault).take(5).collect()
}
