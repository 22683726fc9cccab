//! Which nodes go ahead in a rollout.

/// Returns the place of a node, from 0 to 99. Its name alone decides, so an agent needs no list of the nodes.
pub fn place_of(node: &str) -> u8 {
    // FNV-1a, 32 bit: its result must be the same in all versions.
    let hash = node.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    u8::try_from(hash % 100).unwrap_or_default()
}

/// Returns whether a node is among the first nodes, in percent. Those of a smaller share are among those of a larger one.
pub fn goes_ahead(node: &str, percent: u8) -> bool {
    place_of(node) < percent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_about_so_many_nodes_and_grows() {
        let ahead =
            |percent| (0..1000).filter(|number| goes_ahead(&format!("node-{number}"), percent)).collect::<Vec<_>>();
        let [few, more] = [ahead(5), ahead(25)];
        assert!((30..=70).contains(&few.len()) && (210..=290).contains(&more.len()), "{} {}", few.len(), more.len());
        assert!(few.iter().all(|node| more.contains(node)));
        assert_eq!((ahead(0).len(), ahead(100).len()), (0, 1000));
    }

    /// Agents of several versions must agree.
    #[test]
    fn the_share_of_a_name_never_changes() {
        let least = |node| (0..=100).find(|percent| goes_ahead(node, *percent));
        assert_eq!([least("node-1"), least("node-2"), least("ip-10-0-0-1")], [Some(88), Some(7), Some(97)]);
    }
}
