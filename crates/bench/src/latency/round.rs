//! One round of one subject.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc as async_mpsc;

use super::hog::Work;
use super::host::{Beat, Host, Seen};
use super::{Config, Error, Subject};
use crate::lock::Distribution;
use crate::machine::process_cpu_time;
use crate::work::Pace;

/// How far apart the beats are.
const PERIOD: Duration = Duration::from_millis(1);

/// How long everything runs before it counts.
pub(super) const WARM_UP: Duration = Duration::from_millis(100);

/// What one round of one subject gave.
#[derive(Clone, Debug)]
pub struct Round {
    /// The CPUs' worth of work that the hogs did: CPU seconds of undisturbed work per second.
    pub work: f64,
    /// The CPUs that this process used meanwhile, all of its threads together; none where the
    /// system does not say. Fewer than there are workers: the rest was idle, or went to others.
    pub cpus: Option<f64>,
    /// From each wake to the run that answers it. Empty where there was no beat.
    pub waits: Distribution,
    /// From when each wake was due to the run that answers it: also what the waking thread was late
    /// by.
    pub lateness: Distribution,
}

/// Hogs at work.
pub(super) struct Hogs {
    works: Vec<Work>,
    is_over: Arc<AtomicBool>,
    ended: mpsc::Receiver<()>,
}

impl Hogs {
    /// Spawns a hog for each length of a poll.
    pub(super) fn spawn(host: &Host, pace: Pace, polls: &[Duration]) -> Hogs {
        let is_over = Arc::default();
        let works: Vec<Work> = polls
            .iter()
            .map(|poll| Work::new(pace, *poll, &is_over))
            .collect();
        let (sender, ended) = mpsc::channel();
        for work in &works {
            let sender = sender.clone();
            // Nobody listens any more where another hog has panicked.
            host.spawn_hog(work.clone(), move || {
                let _ = sender.send(());
            });
        }
        Hogs {
            works,
            is_over,
            ended,
        }
    }

    /// Returns the work that each has done so far.
    pub(super) fn done(&self) -> Vec<Duration> {
        self.works.iter().map(Work::done).collect()
    }

    /// Tells all to end.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Waits until all have ended.
    ///
    /// # Errors
    ///
    /// One panicked.
    pub(super) fn join(self) -> Result<(), Error> {
        let joined = self.works.iter().try_for_each(|_| self.ended.recv());
        joined.map_err(|_| Error::panicked())
    }
}

/// Runs one round; without the beat it is a measurement of work alone.
pub(super) fn run(
    config: &Config,
    pace: Pace,
    subject: Subject,
    has_beat: bool,
) -> Result<Round, Error> {
    let host = Host::start(subject, config.workers())?;
    let polls = vec![config.poll(); config.hogs()];
    let hogs = Hogs::spawn(&host, pace, &polls);
    let (speed, seen) = if has_beat {
        let (beats, receiver) = async_mpsc::unbounded_channel();
        let (sender, seen) = mpsc::channel();
        // The receiver is there until the beat has ended.
        host.spawn_beat(receiver, move |seen| drop(sender.send(seen)));
        let speed = measure(config.duration(), &hogs, |from, until, counts| {
            send_beats(&beats, from, until, counts);
        });
        hogs.end();
        drop(beats);
        (speed, seen.recv().map_err(|_| Error::panicked())?)
    } else {
        let speed = measure(config.duration(), &hogs, |_, until, _| sleep_until(until));
        hogs.end();
        (speed, Seen::new())
    };
    hogs.join()?;
    host.stop();
    Ok(Round {
        work: speed.work.iter().sum(),
        cpus: speed.cpus,
        waits: seen.waits,
        lateness: seen.lateness,
    })
}

/// How fast hogs got on.
pub(super) struct Speed {
    /// The CPUs' worth of work of each.
    pub(super) work: Vec<f64>,
    /// The CPUs that the process used.
    cpus: Option<f64>,
}

/// Returns how fast the hogs get on while `wait` is called: first for the warm-up, then
/// with `true` for what counts, with the times from when and until when it is to wait.
pub(super) fn measure(
    duration: Duration,
    hogs: &Hogs,
    mut wait: impl FnMut(Instant, Instant, bool),
) -> Speed {
    let begin = Instant::now();
    wait(begin, begin + WARM_UP, false);
    let (begin, before, cpu_before) = (Instant::now(), hogs.done(), process_cpu_time());
    wait(begin, begin + duration, true);
    let (elapsed, after, cpu_after) = (begin.elapsed(), hogs.done(), process_cpu_time());
    let per_second = |time: Duration| time.as_secs_f64() / elapsed.as_secs_f64();
    let done = after
        .iter()
        .zip(&before)
        .map(|(after, before)| per_second(after.saturating_sub(*before)));
    let cpu = cpu_after.zip(cpu_before);
    Speed {
        work: done.collect(),
        cpus: cpu.map(|(after, before)| per_second(after.saturating_sub(before))),
    }
}

/// Sends the beats that are due between two times. When this thread was late, those that were due
/// follow at once.
fn send_beats(
    beats: &async_mpsc::UnboundedSender<Beat>,
    from: Instant,
    until: Instant,
    counts: bool,
) {
    let mut due = from + PERIOD;
    while due < until {
        sleep_until(due);
        let sent = Instant::now();
        if beats.send(Beat { due, sent, counts }).is_err() {
            // The beat has panicked, which is found out when its figures are asked for.
            return;
        }
        due += PERIOD;
    }
}

pub(super) fn sleep_until(time: Instant) {
    thread::sleep(time.saturating_duration_since(Instant::now()));
}

#[cfg(all(test, feature = "groups"))]
mod tests {
    use super::*;

    fn config() -> Config {
        Config::new()
            .with_hogs(2)
            .with_poll(Duration::from_micros(100))
            .with_duration(Duration::from_millis(30))
    }

    #[test]
    fn every_beat_is_answered_and_none_without_a_beat() {
        let pace = Pace::measure();
        for subject in [Subject::Runtime(evenkeel::Level::Off), Subject::Tokio] {
            let round = run(&config(), pace, subject, true).unwrap();
            // From 1 ms to 29 ms.
            assert_eq!(round.waits.count(), 29, "{}", subject.name());
            assert_eq!(round.lateness.count(), 29);
            assert!(round.work > 0.0);
            let late = round.lateness.figures();
            assert!(late.total >= round.waits.figures().total);
        }
        let off = Subject::Runtime(evenkeel::Level::Off);
        let round = run(&config(), pace, off, false).unwrap();
        assert!(round.waits.count() == 0 && round.work > 0.0);
    }

    #[cfg(feature = "preempt")]
    #[test]
    fn polls_that_would_go_on_for_a_minute_end_with_the_round() {
        let config = config().with_hogs(3).with_poll(Duration::from_secs(60));
        let pace = Pace::measure();
        for subject in Subject::ALL {
            let round = run(&config, pace, subject, true).unwrap();
            assert_eq!(round.waits.count(), 29, "{}", subject.name());
        }
    }

    #[test]
    fn a_panic_of_a_hog_is_an_error() {
        let host = Host::start(Subject::Tokio, 1).unwrap();
        let is_over = Arc::default();
        let work = Work::new(Pace::measure(), PERIOD, &is_over);
        let (sender, ended) = mpsc::channel();
        host.spawn_hog(work.clone(), move || {
            let _sender: mpsc::Sender<()> = sender;
            panic!("on purpose");
        });
        let hogs = Hogs {
            works: vec![work],
            is_over,
            ended,
        };
        hogs.end();
        assert_eq!(
            hogs.join().unwrap_err().to_string(),
            Error::panicked().to_string()
        );
    }
}
