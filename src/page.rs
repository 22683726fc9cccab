//! The page for people: how full the file systems were, what was removed and why, and what would be removed next.
//!
//! `kubegc report` prints it, and the agent serves it. It is one HTML document without scripts, and its charts are
//! inline SVG. This room makes text from data: it reads nothing and decides nothing.
//!
//! The page of the agent shows what the last passes planned, and the last account of the disks. A request for it observes and plans nothing, so many
//! requests do not load the runtime.

mod chart;
mod contents;
mod document;
mod outlook;
#[cfg(test)]
mod tests;

pub use contents::Contents;
pub use document::{Document, Facts, Past};
pub use outlook::{Line, Outlook, Removals};

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::model::printable_lines;

/// The style of the page. `Content-Security-Policy` permits only this one, by [`STYLE_HASH`].
const STYLE: &str = include_str!("page/style.css");
/// The SHA-256 of the style in base64, for the header `Content-Security-Policy`.
pub const STYLE_HASH: &str = "VOEENznBIzxLZmf+2Kqqp5kvEYstkPZYRbM8J91hN+c=";

/// Returns the page as HTML.
pub fn html(document: &Document) -> String {
    printable_lines(&page(document).into_string())
}

fn page(document: &Document) -> Markup {
    let Document { facts, .. } = document;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "kubegc on " (facts.node) }
                style { (PreEscaped(STYLE)) }
            }
            body { main {
                (head(document))
                (document.disks())
                (document.contents())
                (document.days())
                (document.removed())
                (document.next())
                (document.kept())
            } }
        }
    }
}

fn head(document: &Document) -> Markup {
    let Facts { node, at, program, mode, profile, .. } = &document.facts;
    html! {
        header {
            h1 { "kubegc on " (node) }
            p { "Version " (program) ", mode " (mode) ", profile " (profile) ". As of " (chart::time(*at)) "." }
            @for warning in document.warnings() { p.warning role="alert" { (warning) } }
        }
    }
}
