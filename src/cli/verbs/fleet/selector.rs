//! The flag that selects nodes by their labels.

use crate::fleet::{LabelCondition, LabelOperator, NodeSelector};

#[derive(Debug, clap::Args)]
pub(super) struct SelectorArgs {
    /// Labels of the nodes, as key=value,key!=value,key,!key (all nodes if not set)
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector)]
    pub selector: Option<NodeSelector>,
}

fn selector(text: &str) -> Result<NodeSelector, String> {
    let condition = |part: &str| {
        let (key, operator, value) = if let Some((key, value)) = part.split_once("!=") {
            (key, LabelOperator::NotIn, Some(value))
        } else if let Some((key, value)) = part.split_once('=') {
            (key, LabelOperator::In, Some(value.trim_start_matches('=')))
        } else if let Some(key) = part.strip_prefix('!') {
            (key, LabelOperator::DoesNotExist, None)
        } else {
            (part, LabelOperator::Exists, None)
        };
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
        if key.is_empty() || !is_plain(key) || !value.is_none_or(is_plain) {
            return Err(format!("{part:?} is not of the form key=value, key!=value, key or !key"));
        }
        let values = value.map(|value| vec![value.to_owned()]);
        Ok(LabelCondition { key: key.to_owned(), operator, values })
    };
    let match_expressions = text.split(',').map(str::trim).map(condition).collect::<Result<_, _>>()?;
    Ok(NodeSelector { match_expressions, ..NodeSelector::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_that_of_kubectl() {
        let parts = |text: &str| {
            let parts = selector(text).unwrap().match_expressions.into_iter();
            parts.map(|it| format!("{} {:?} {:?}", it.key, it.operator, it.values)).collect::<Vec<_>>()
        };
        assert_eq!(parts("pool=gpu, zone!=a"), ["pool In Some([\"gpu\"])", "zone NotIn Some([\"a\"])"]);
        assert_eq!(
            parts("a==b,!spot,example.com/new"),
            ["a In Some([\"b\"])", "spot DoesNotExist None", "example.com/new Exists None",]
        );
        for wrong in ["", "=a", "a in (b)", "a=b,,c", "a=b c"] {
            assert!(selector(wrong).is_err(), "{wrong:?}");
        }
    }
}
