//! A fault that lasts.

/// Whether what is repeated fails, so that a fault that lasts is logged once.
#[derive(Debug, Default)]
pub struct Outage(bool);

// === impl Outage ===

impl Outage {
    /// Records the fault of an attempt; `None` = it worked. Returns the fault if it is the first one since an attempt worked.
    pub fn begins<E>(&mut self, fault: Option<E>) -> Option<E> {
        let was_failing = std::mem::replace(&mut self.0, fault.is_some());
        fault.filter(|_| !was_failing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_returned_once_until_an_attempt_works() {
        let mut outage = Outage::default();
        let begun = [Some(1), Some(2), None, None, Some(3), Some(4)].map(|fault| outage.begins(fault));
        assert_eq!(begun, [Some(1), None, None, None, Some(3), None]);
    }
}
