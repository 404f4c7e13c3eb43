//! Stress: random cases one after the other, and a watchdog.

use std::error::Error;
use std::process;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel::Level;
use evenkeel_bench::stats::Random;
use evenkeel_bench::work::Pace;

use crate::case::{self, Case};
use crate::subject::Kind;

/// Without progress for so long there is a deadlock.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often the watchdog looks.
const LOOK: Duration = Duration::from_millis(250);

static PROGRESS: AtomicU64 = AtomicU64::new(0);

/// What runs now, for the watchdog.
static NOW: Mutex<String> = Mutex::new(String::new());

/// Settings of the stress.
pub(crate) struct Settings {
    pub(crate) minutes: f64,
    pub(crate) seed: u64,
    pub(crate) kinds: Vec<Kind>,
    /// After a deadlock wait for a debugger instead of ending.
    pub(crate) stays: bool,
}

/// Draws a case; the same seed gives the same one.
fn draw(seed: u64, kinds: &[Kind]) -> Case {
    let mut random = Random::new(seed);
    // Most of them short, few long.
    let mut below_us = |limit: u64| {
        let scale = 1 << random.below(1 + limit.ilog2() as usize);
        Duration::from_micros(1 + random.below(scale) as u64)
    };
    let (poll, held, outside) = (below_us(20_000), below_us(200), below_us(200));
    let sleep = below_us(3_000);
    let level = match random.below(8) {
        0 => Level::Handoff,
        _ => Level::Park,
    };
    let slices = [0, 100, 300, 1_000];
    Case {
        kind: kinds[random.below(kinds.len())],
        level,
        workers: 1 + random.below(4),
        tasks: 1 + random.below(24),
        poll,
        held,
        outside,
        slice: Duration::from_micros(slices[random.below(slices.len())]),
        sleep,
        seed,
    }
}

/// Runs random cases until the time is over.
///
/// # Errors
///
/// As [`case::run`]. Ends the process with status 1 at a deadlock.
pub(crate) fn run(settings: &Settings) -> Result<(), Box<dyn Error>> {
    let stays = settings.stays;
    thread::spawn(move || watch(stays));
    let end = Instant::now() + Duration::from_secs_f64(settings.minutes * 60.0);
    let pace = Pace::measure();
    let (mut cases, mut operations, mut preempted) = (0, 0, 0.0);
    let mut seed = settings.seed;
    while Instant::now() < end {
        let case = draw(seed, &settings.kinds);
        let duration = Duration::from_millis(200 + seed % 7 * 200);
        set_now(format!("{} --seed {seed}: {case:?}", case.name()));
        let outcome = case::run(&case, pace, duration, &PROGRESS)?;
        cases += 1;
        operations += outcome.total;
        preempted += outcome.preempted * duration.as_secs_f64();
        seed = seed.wrapping_add(1);
    }
    println!(
        "stress: {cases} cases from seed {}, {operations} operations, about {preempted:.0} polls \
         preempted, no deadlock",
        settings.seed
    );
    Ok(())
}

fn set_now(text: String) {
    *NOW.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner) = text;
}

/// Ends the process when nothing gets on. Allocates nothing, since the allocator's lock may be what
/// everybody waits for.
fn watch(stays: bool) {
    let (mut last, mut since) = (PROGRESS.load(Ordering::Relaxed), Instant::now());
    loop {
        thread::sleep(LOOK);
        let now = PROGRESS.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() >= PATIENCE {
            let case = NOW
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            eprintln!("deadlock: no progress for {PATIENCE:?}: {case}");
            if stays {
                wait_for_a_debugger();
            }
            process::exit(1);
        }
    }
}

/// Does not return: the process stays as it is until somebody ends it.
fn wait_for_a_debugger() -> ! {
    loop {
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    //! Cases are drawn within their limits, and by their seed.
    use super::*;

    #[test]
    fn cases_follow_from_their_seed_and_stay_within_limits() {
        let mut kinds = Vec::new();
        for seed in 0..1_000 {
            let case = draw(seed, &Kind::ALL);
            assert_eq!(format!("{case:?}"), format!("{:?}", draw(seed, &Kind::ALL)));
            assert!((1..=4).contains(&case.workers) && (1..=24).contains(&case.tasks));
            assert!(case.poll <= Duration::from_millis(20) && !case.poll.is_zero());
            assert!(case.held <= Duration::from_micros(200), "{case:?}");
            if !kinds.contains(&case.kind) {
                kinds.push(case.kind);
            }
        }
        assert_eq!(kinds.len(), Kind::ALL.len());
    }
}
