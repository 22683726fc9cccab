//! Images that may be the last copy in the cluster, which a policy of the cluster keeps: images without a registry to pull them from.
//! Such an image is removed only while another node is known to keep it.

use crate::model::Image;
use crate::plan::document::reason::KeepReason;
use crate::plan::policy::LastCopies;

// === impl LastCopies ===

impl LastCopies {
    /// Returns whether an image is one of those whose last copy is kept.
    pub fn covers(&self, image: &Image) -> bool {
        let is_named = |name: &str| self.patterns.iter().any(|pattern| pattern.matches(name));
        self.policy.is_some() && (is_imported(image) || image.names().any(|name| is_named(&name)))
    }

    /// Returns that the image is kept as the last copy that is known.
    pub(super) fn keep(&self, image: &Image) -> Option<KeepReason> {
        let policy = self.policy.clone().filter(|_| self.covers(image) && !self.elsewhere.contains(&image.id))?;
        Some(KeepReason::LastCopy { policy })
    }
}

/// Returns whether an image has no digest of a registry. containerd gives an imported one without a name the digest
/// `import-2026-11-21@sha256:…`; a name that was pulled begins with its registry.
fn is_imported(image: &Image) -> bool {
    image.digests.iter().all(|digest| digest.starts_with("import-"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::plan::document::action::Kind;
    use crate::plan::policy::Policy;
    use crate::plan::tests::node::{Node, hold, node};
    use crate::rules::{ImageTotal, Limits, Rule, RuleSubject, RuleText, Then};

    /// Imported images of which `there` is on another node, and images that were pulled, on a disk with so many of 1000 bytes free.
    fn images(available_bytes: u64) -> Node {
        let pulled = |name: &'static str| move |image: &mut Image| image.digests = vec![format!("{name}@sha256:01")];
        let node = node().disk(available_bytes).image("here", 300).image("there", 300);
        let node = node.image("local", 300).which(pulled("registry.example.com/local/app"));
        let node = node.image("unnamed", 300).which(pulled("import-2026-11-21"));
        node.image("pulled", 300).which(pulled("registry.example.com/app")).set(|policy| {
            policy.pass.last_copies = LastCopies {
                policy: Some("air-gap".to_owned()),
                patterns: vec!["registry.example.com/local/*".into()],
                elsewhere: ["there".into()].into(),
            };
        })
    }

    fn rule(then: Then) -> impl FnOnce(&mut Policy) {
        let (name, when, note, resource) = ("r".to_owned(), "true".to_owned(), String::new(), String::new());
        let rule =
            Rule::compile(RuleText { name, subject: RuleSubject::Image, resource, when, then, until: None, note });
        move |policy| policy.rules = [rule.unwrap()].into_iter().collect()
    }

    #[test]
    #[rustfmt::skip]
    fn the_last_copy_is_kept_whatever_would_remove_it() {
        let kept = "here local unnamed: last_copy";
        let all_unused = |policy: &mut Policy| policy.images.all_unused = true;
        let total = Then::Limits(Limits { total: Some(ImageTotal { above_bytes: 1, until_bytes: 0 }), ..Limits::default() });
        let off = |policy: &mut Policy| policy.pass.last_copies.policy = None;
        hold(&[Kind::Image], [
            ("nothing is to be removed", images(500), "here local pulled there unnamed: below_threshold", ""),
            ("for space", images(10), kept, "pulled there: space"),
            ("for its age", images(500).set(|policy| policy.images.max_age = Duration::from_mins(9)), kept, "pulled there: age"),
            ("all are requested", images(500).set(all_unused), kept, "pulled there: unused"),
            ("by a rule", images(500).set(rule(Then::Remove)), kept, "pulled there: rule"),
            ("by the limit of a rule", images(500).set(rule(total)), kept, "pulled there: rule"),
            ("no policy keeps it", images(10).set(off), "", "here local pulled there unnamed: space"),
        ]);
    }
}
