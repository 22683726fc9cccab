//! The limit on open files.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the soft limit to the hard one, as each program in Go does. Many systems have a soft limit of 1024 or less, for
/// programs that call `select`.
pub fn raise_file_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // The process works with the lower limit too.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each test is a process of its own.
    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, 100, hard).unwrap();
        raise_file_limit();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (hard, hard));
    }
}
