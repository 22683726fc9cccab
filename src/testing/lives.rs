//! What the simulated lives of a cluster and of a node share: seeds, clock, log and first fault, and how a life that fails becomes
//! a small test.

use std::cell::Cell;
use std::fmt::{Debug, Display, Write as _};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The number of lives, and the one that is printed.
const LIVES: &str = "KUBEGC_LIVES";
const SEED: &str = "KUBEGC_SEED";
/// How many smaller lives are tried at most.
const MOST: usize = 400;

thread_local! {
    /// The beginning of the life of this thread, and by how many seconds its wall clock is wrong.
    static CLOCK: Cell<Option<(Instant, i64)>> = const { Cell::new(None) };
}

/// How a life went.
#[derive(Default)]
pub struct Life {
    pub log: String,
    pub fault: Option<String>,
}

/// How lives of one sort are made and read.
pub struct Lives<S> {
    pub script: fn(u64) -> Vec<S>,
    pub play: fn(&[S]) -> Life,
    /// Imports the names in a script.
    pub imports: &'static str,
    /// Returns whether a person reads a line of the log.
    pub is_read: fn(&str) -> bool,
}

/// What happens in a life, as text, and its first fault.
pub struct Record {
    begun: Instant,
    pub life: Life,
}

/// Random numbers that follow from a seed (`SplitMix64`), and of which kinds steps are.
pub struct Random {
    state: u64,
    kinds: u64,
}

// === impl Lives ===

impl<S: Copy + Debug> Lives<S> {
    /// Plays `count` lives, or as many as the environment says: every second one from `first` on.
    pub fn plays(&self, first: u64, count: u64) {
        for seed in (first..number(LIVES).unwrap_or(count)).step_by(2) {
            assert!((self.play)(&(self.script)(seed)).fault.is_none(), "{}", self.failure(seed));
        }
    }

    /// Plays the script of a test.
    pub fn holds(&self, steps: &[S]) {
        let life = (self.play)(steps);
        assert_eq!(life.fault, None, "{}", life.log);
    }

    pub fn replays(&self, seeds: u64) {
        for seed in 0..seeds {
            let [first, second] = [(); 2].map(|()| (self.play)(&(self.script)(seed)).log);
            let differs = first.lines().zip(second.lines()).find(|(one, other)| one != other);
            assert!(first == second, "seed {seed}: {differs:?}");
        }
    }

    /// Prints the life of the seed in the environment as a story.
    pub fn prints(&self) {
        let seed = number(SEED).unwrap_or(1);
        let steps = (self.script)(seed);
        let life = (self.play)(&steps);
        println!("{}\n{}", self.as_text(&steps), self.story(&life.log));
        assert!(life.fault.is_none(), "{}", self.failure(seed));
    }

    /// Describes the life of a seed that fails.
    fn failure(&self, seed: u64) -> String {
        let steps = self.smaller((self.script)(seed));
        let life = (self.play)(&steps);
        let fault = life.fault.unwrap_or_default();
        format!("seed {seed}: {fault}\n\n{}\n\n{}", self.as_text(&steps), self.story(&life.log))
    }

    /// Returns the smallest script found that fails too.
    fn smaller(&self, mut steps: Vec<S>) -> Vec<S> {
        let (mut part, mut tried) = ((steps.len() / 2).max(1), 0);
        loop {
            let (mut at, before) = (0, steps.len());
            while at < steps.len() && tried < MOST {
                let end = steps.len().min(at + part);
                let rest: Vec<_> = [&steps[..at], &steps[end..]].concat();
                tried += 1;
                if (self.play)(&rest).fault.is_some() { steps = rest } else { at = end }
            }
            if tried >= MOST || part == 1 && steps.len() == before {
                return steps;
            }
            part = (part / 2).max(1);
        }
    }

    fn story(&self, log: &str) -> String {
        log.lines().filter(|line| (self.is_read)(line)).collect::<Vec<_>>().join("\n")
    }

    /// Returns a script as the body of a test.
    fn as_text(&self, steps: &[S]) -> String {
        let steps: Vec<_> = steps.iter().map(|step| format!("    {step:?},")).collect();
        format!("{}\nholds(&[\n{}\n]);", self.imports, steps.join("\n"))
    }
}

// === impl Record ===

/// Begins a life in this thread.
impl Default for Record {
    fn default() -> Self {
        let begun = Instant::now();
        CLOCK.set(Some((begun, 0)));
        Self { begun, life: Life::default() }
    }
}

impl Record {
    pub fn log(&mut self, line: impl Display) {
        let at = self.begun.elapsed();
        let _ = writeln!(self.life.log, "{:9.3} {line}", at.as_secs_f64());
    }

    /// Records a fault of the process. Only the first one counts.
    pub fn fault(&mut self, fault: String) {
        self.log(format_args!("FAULT: {fault}"));
        self.life.fault.get_or_insert(fault);
    }

    pub fn take(&mut self) -> Life {
        std::mem::take(&mut self.life)
    }
}

// === impl Random ===

impl Random {
    /// A half of the seeds have half of the kinds of steps, which happen more often then.
    pub fn of_seed(seed: u64) -> Self {
        let mut random = Self { state: seed, kinds: u64::MAX };
        random.kinds = if seed & 2 == 0 { u64::MAX } else { random.below(usize::MAX) as u64 };
        random
    }

    /// Returns the number of a kind of step.
    pub fn kind(&mut self, limit: usize) -> usize {
        let kinds = self.kinds;
        std::iter::repeat_with(|| self.below(limit)).find(|kind| kinds >> kind & 1 == 1).unwrap()
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap()
    }

    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// Plays in a thread of its own, so that what the code stores for each thread is empty at the start, and in a runtime whose clock only
/// moves when nothing is left to do.
pub fn alone<F: Future<Output = Life>>(life: impl FnOnce() -> F + Send) -> Life {
    let builder = || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    std::thread::scope(|scope| scope.spawn(|| builder().block_on(async { life().await })).join()).unwrap()
}

/// Moves the wall clock of this life.
pub fn jump(seconds: i64) {
    CLOCK.set(CLOCK.get().map(|(begun, skew)| (begun, skew + seconds)));
}

/// The wall clock of this life.
pub fn clock() -> Timestamp {
    let (begun, skew) = CLOCK.get().unwrap();
    let since = SignedDuration::try_from(begun.elapsed()).unwrap() + SignedDuration::from_secs(skew);
    "2026-01-02T03:04:05Z".parse::<Timestamp>().unwrap() + since
}

#[expect(clippy::disallowed_methods, reason = "a test has no settings")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}
