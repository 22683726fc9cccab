//! Long series of cases, of which a run plays a part. `make test-random` plays all.

/// One case of so many is played. It has no divisor in common with the numbers of scopes and of frequencies, which alternate.
const EACH: usize = 5;

/// Returns a part of a series, the same in each run. Series with other offsets have other parts, so that what is left out under one
/// fault is played under another. Returns all with `KUBEGC_CASES=all`.
pub fn of<T>(offset: usize, cases: Vec<T>) -> Vec<T> {
    if plays_all() {
        return cases;
    }
    cases.into_iter().skip(offset % EACH).step_by(EACH).collect()
}

/// Returns whether this run plays the whole of each series.
pub fn plays_all() -> bool {
    std::env::var("KUBEGC_CASES").is_ok_and(|cases| cases == "all")
}

#[test]
fn each_case_is_in_one_of_five_parts() {
    let mut cases: Vec<_> = (10..15).flat_map(|offset| of(offset, (0..23).collect())).collect();
    cases.sort_unstable();
    assert_eq!(cases, (0..23).collect::<Vec<_>>());
}
