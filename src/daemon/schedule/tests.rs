//! Tests of the schedule with paused time.

use std::cell::{Cell, RefCell};

use tokio::time::{sleep, timeout};

use super::*;

const C: Job = Job::Containers;
const I: Job = Job::Images;
const P: Job = Job::Pressure;

fn intervals(containers: u64, images: u64, max_backoff: u64) -> Intervals {
    let [containers, images, max_backoff] = [containers, images, max_backoff].map(Duration::from_secs);
    Intervals { containers, images, pressure: LONGEST, max_backoff }
}

/// Passes that never overlap.
const ALONE: Limits = Limits { hold_up: LONGEST, shutdown: LONGEST, stall: LONGEST, first_images: Duration::ZERO };

/// Fails the test if the schedule does not stop.
async fn in_time<T>(schedule: impl Future<Output = T>) -> T {
    timeout(Duration::from_hours(48), schedule).await.expect("did not stop for two days")
}

/// Runs the schedule until `count` passes have begun. `pass` defines how long each pass takes and its result.
/// Returns the start time of each pass, in seconds.
async fn passes(
    intervals: Intervals,
    count: usize,
    pass: impl FnMut(Job, usize) -> (u64, PassResult),
) -> Vec<(u64, Job)> {
    let (begun, most) = passes_within(&ALONE, intervals, count, pass).await;
    assert_eq!(most, 1, "passes at a time");
    begun
}

/// Does the same with limits. Also returns how many passes ran in parallel at most.
async fn passes_within(
    limits: &Limits,
    intervals: Intervals,
    count: usize,
    pass: impl FnMut(Job, usize) -> (u64, PassResult),
) -> (Vec<(u64, Job)>, usize) {
    let stop = CancellationToken::new();
    let start = Instant::now();
    let (begun, pass) = (RefCell::new(Vec::new()), RefCell::new(pass));
    let (running, most) = (RefCell::new(Vec::new()), Cell::new(0));
    let progress = Progress::default();
    let schedule = run(&intervals, limits, &stop, &progress, async |job| {
        assert!(!running.borrow().contains(&job), "two passes of one loop at a time");
        running.borrow_mut().push(job);
        most.set(most.get().max(running.borrow().len()));
        begun.borrow_mut().push((start.elapsed().as_secs(), job));
        let number = begun.borrow().len();
        if number == count {
            stop.cancel();
        }
        let (seconds, passed) = (pass.borrow_mut())(job, number);
        sleep(Duration::from_secs(seconds)).await;
        running.borrow_mut().retain(|running| *running != job);
        passed
    });
    in_time(schedule).await;
    (begun.into_inner(), most.get())
}

#[tokio::test(start_paused = true)]
async fn container_and_image_passes_run_immediately_then_at_intervals() {
    let begun = passes(intervals(60, 300, 900), 9, |_, _| (0, PassResult::Succeeded)).await;
    let expected = [(0, C), (0, I), (60, C), (120, C), (180, C), (240, C), (300, C), (300, I), (360, C)];
    assert_eq!(begun, expected);
}

#[tokio::test(start_paused = true)]
async fn looks_at_the_disks_come_between_and_before_passes() {
    let intervals = Intervals { pressure: Duration::from_secs(20), ..intervals(60, 300, 900) };
    let begun = passes(intervals, 8, |_, _| (0, PassResult::Succeeded)).await;
    assert_eq!(begun, [(0, C), (0, I), (20, P), (40, P), (60, P), (60, C), (80, P), (100, P)]);
}

#[tokio::test(start_paused = true)]
async fn the_period_counts_from_the_end_of_a_run() {
    let begun =
        passes(intervals(60, 1000, 1000), 4, |scope, _| (if scope == C { 45 } else { 0 }, PassResult::Succeeded)).await;
    assert_eq!(begun, [(0, C), (45, I), (105, C), (210, C)]);
}

#[tokio::test(start_paused = true)]
async fn a_long_pass_delays_others_and_loses_none() {
    let begun =
        passes(intervals(60, 300, 900), 6, |scope, _| (if scope == I { 200 } else { 0 }, PassResult::Succeeded)).await;
    assert_eq!(begun, [(0, C), (0, I), (200, C), (260, C), (320, C), (380, C)]);
}

#[tokio::test(start_paused = true)]
async fn slow_container_passes_do_not_starve_image_passes() {
    let begun =
        passes(intervals(1, 30, 900), 6, |scope, _| (if scope == C { 50 } else { 0 }, PassResult::Succeeded)).await;
    assert_eq!(begun, [(0, C), (50, I), (51, C), (101, I), (102, C), (152, I)]);
}

#[tokio::test(start_paused = true)]
async fn a_pass_over_the_limit_delays_no_other_loop() {
    let limits = Limits { hold_up: Duration::from_secs(30), ..ALONE };
    let intervals = Intervals { pressure: Duration::from_secs(20), ..intervals(60, 50, 900) };
    // The first pass over containers hangs for an hour.
    let takes = |job, number| (if job == C && number == 1 { 3600 } else { 0 }, PassResult::Succeeded);
    let (begun, most) = passes_within(&limits, intervals, 8, takes).await;
    // The pressure check was due at 20 s and images at 0 s. Both wait until 30 s and then run at their intervals.
    let expected = [(0, C), (30, P), (30, I), (50, P), (70, P), (80, I), (90, P), (110, P)];
    assert_eq!((begun.as_slice(), most), (&expected[..], 2));
}

#[tokio::test(start_paused = true)]
async fn a_loop_waits_for_each_pass_within_the_limit() {
    let limits = Limits { hold_up: Duration::from_secs(30), ..ALONE };
    let intervals = Intervals { pressure: Duration::from_secs(40), ..intervals(60, 1, 900) };
    let takes = |_, _| (100, PassResult::Succeeded);
    let (begun, most) = passes_within(&limits, intervals, 5, takes).await;
    // Each pass begins at least 30 s after the previous one, and after the end of the previous pass of its own
    // loop.
    assert_eq!((begun.as_slice(), most), (&[(0, C), (30, I), (60, P), (131, I), (161, C)][..], 3));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_passes_within_its_limit() {
    let limits = Limits { shutdown: Duration::from_secs(75), ..ALONE };
    let start = Instant::now();
    let (begun, _) = passes_within(&limits, intervals(60, 300, 900), 1, |_, _| (3600, PassResult::Succeeded)).await;
    assert_eq!((begun.as_slice(), start.elapsed().as_secs()), (&[(0, C)][..], 75));
}

#[tokio::test(start_paused = true)]
async fn consecutive_failures_double_the_back_off_within_a_limit() {
    let begun = passes(intervals(60, 100_000, 900), 9, |scope, number| {
        (0, if scope == I || number == 8 { PassResult::Succeeded } else { PassResult::Failed })
    })
    .await;
    let waits: Vec<_> = begun.iter().filter(|(_, scope)| *scope == C).map(|(at, _)| *at).collect();
    let waits: Vec<_> = waits.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits, [120, 240, 480, 900, 900, 900, 60]);
}

#[tokio::test(start_paused = true)]
async fn one_loops_failures_do_not_slow_the_other() {
    let begun = passes(intervals(60, 60, 900), 8, |scope, _| {
        (0, if scope == I { PassResult::Failed } else { PassResult::Succeeded })
    })
    .await;
    assert_eq!(begun, [(0, C), (0, I), (60, C), (120, C), (120, I), (180, C), (240, C), (300, C)]);
}

#[test]
fn waits_are_never_below_the_interval_or_a_second() {
    let wait = |interval, max_backoff, failures| {
        let [interval, max_backoff] = [interval, max_backoff].map(Duration::from_secs);
        let mut timer = Timer::new(C, interval, max_backoff, Instant::now());
        timer.backoff = timer.backoff.after(failures);
        timer.wait().as_secs()
    };
    assert_eq!(wait(3600, 900, 0), 3600);
    assert_eq!(wait(3600, 900, 5), 3600, "the longest wait is shorter than the interval");
    assert_eq!(wait(0, 900, 0), 1, "nothing spins");
    assert_eq!(wait(0, 900, 3), 8);
    assert_eq!(wait(u64::MAX, u64::MAX, u32::MAX), LONGEST.as_secs(), "nothing overflows");
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_a_wait_at_once() {
    let stop = CancellationToken::new();
    let start = Instant::now();
    let begun = RefCell::new(0);
    let intervals = intervals(60, 300, 900);
    let progress = Progress::default();
    let schedule = run(&intervals, &ALONE, &stop, &progress, async |_| {
        *begun.borrow_mut() += 1;
        PassResult::Succeeded
    });
    let pull = async {
        sleep(Duration::from_secs(10)).await;
        stop.cancel();
    };
    in_time(async { tokio::join!(schedule, pull) }).await;
    assert_eq!((start.elapsed().as_secs(), begun.into_inner()), (10, 2));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_during_a_pass_begins_no_other() {
    let begun = passes(intervals(60, 300, 900), 1, |_, _| (30, PassResult::Succeeded)).await;
    assert_eq!(begun, [(0, C)], "images were due, too");
}

#[tokio::test(start_paused = true)]
async fn who_is_stopped_already_begins_nothing() {
    let stop = CancellationToken::new();
    stop.cancel();
    in_time(run(&intervals(60, 300, 900), &ALONE, &stop, &Progress::default(), async |_| panic!("a pass began"))).await;
}

/// Runs the schedule with passes over containers that behave like `pass`, for ten hours. Returns what hangs then.
async fn stalled_after_ten_hours(pass: impl AsyncFn()) -> Option<&'static str> {
    let (stop, progress) = (CancellationToken::new(), Progress::default());
    let limits = Limits { hold_up: Duration::from_secs(30), stall: Duration::from_mins(15), ..ALONE };
    let intervals = intervals(60, 300, 900);
    let schedule = run(&intervals, &limits, &stop, &progress, async |job| {
        if job == C {
            pass().await;
        }
        PassResult::Succeeded
    });
    let later = async {
        sleep(Duration::from_hours(10)).await;
        progress.stalled(Instant::now()).map(|stalled| stalled.what)
    };
    tokio::select! {
        () = schedule => panic!("the schedule ended"),
        stalled = later => stalled,
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_hanging_pass_is_reported_as_stalled() {
    assert_eq!(stalled_after_ten_hours(std::future::pending).await, Some("containers"));
    let moves = async || {
        for _ in 0..1000 {
            sleep(Duration::from_mins(10)).await;
        }
    };
    assert_eq!(stalled_after_ten_hours(moves).await, None, "a removal may take ten minutes");
    assert_eq!(stalled_after_ten_hours(async || {}).await, None);
}

/// The longest waits are in the settings, so the limit of a hang follows them.
#[test]
fn the_stall_limit_exceeds_each_configured_time_out() {
    let hour = Duration::from_hours(1);
    for options in [
        CriOptions { read_timeout: hour, ..CriOptions::default() },
        CriOptions { removal_timeout: hour, ..CriOptions::default() },
        CriOptions { answer_timeout: hour, ..CriOptions::default() },
        CriOptions { patience: hour, ..CriOptions::default() },
    ] {
        assert!(Limits::of(&options).stall > hour, "{options:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_pass_over_images_can_wait() {
    let limits = Limits { first_images: Duration::from_secs(90), ..ALONE };
    let (begun, _) = passes_within(&limits, intervals(60, 300, 900), 5, |_, _| (0, PassResult::Succeeded)).await;
    assert_eq!(begun, [(0, C), (60, C), (90, I), (120, C), (180, C)]);
}
