//! The checks. Each runs on a thread of its own, whose registration it may change.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_slice::kernel::{Options, PreemptProbe, Status};
use evenkeel_slice::{enter, enter_lock, kernel};

use crate::sys::{self, Area, GET, SET, UNREGISTER};

const ENXIO: i32 = 6;
const EBUSY: i32 = 16;
const EINVAL: i32 = 22;
const ENOTSUPP: i32 = 524;
/// Status flags of the area: the extension is available, and enabled.
const AVAILABLE: u32 = 1 << 4;
const ENABLED: u32 = 1 << 5;
/// How long to wait for a grant while another thread wants the same CPU.
const LIMIT: Duration = Duration::from_secs(20);

enum Outcome {
    Ok,
    Failed(String),
    Skipped(String),
}

type Check = fn() -> Result<(), Outcome>;

fn ensure(condition: bool, why: impl FnOnce() -> String) -> Result<(), Outcome> {
    if condition {
        return Ok(());
    }
    Err(Outcome::Failed(why()))
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, got: T, want: T) -> Result<(), Outcome> {
    ensure(got == want, || format!("{what}: {got:?}, not {want:?}"))
}

/// Frees the calling thread of the C library's registration, whatever its length; the crate's
/// replacement is used for that where it is needed.
fn without_registration() -> Result<(), Outcome> {
    let status = Options::new().replace_registration(true).enable();
    match status {
        Status::EnabledInOwnArea => {}
        other => return Err(Outcome::Skipped(other.to_string())),
    }
    // The probe's address leads to the own area, which is then unregistered by hand.
    let probe = PreemptProbe::new().ok_or_else(|| Outcome::Failed("no probe".into()))?;
    expect("unregister", sys::rseq(probe.area(), 64, UNREGISTER), Ok(0))
}

/// Registers an area of the check's own and switches the extension on.
fn with_own_registration() -> Result<Area, Outcome> {
    without_registration()?;
    let area = Area::new();
    expect("register 64 bytes", sys::rseq(area.0, 64, 0), Ok(0))?;
    expect(
        "flags before SET",
        area.flags() & (AVAILABLE | ENABLED),
        AVAILABLE,
    )?;
    expect("SET", sys::extension(SET, 1, 0), Ok(0))?;
    Ok(area)
}

/// Runs `body` on CPU 0 beside a thread that wants the same CPU.
fn crowded<T>(body: impl FnOnce() -> T) -> T {
    static STOP: AtomicBool = AtomicBool::new(false);
    STOP.store(false, Ordering::Relaxed);
    let hog = thread::spawn(|| {
        sys::pin_to_cpu_0();
        while !STOP.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    sys::pin_to_cpu_0();
    let result = body();
    STOP.store(true, Ordering::Relaxed);
    hog.join().expect("the hog does not panic");
    result
}

fn auxiliary_vector() -> Result<(), Outcome> {
    let (size, align) = (sys::auxiliary(27), sys::auxiliary(28));
    if size < 33 {
        return Err(Outcome::Skipped(format!(
            "AT_RSEQ_FEATURE_SIZE is {size}, below 33"
        )));
    }
    ensure(align.is_power_of_two() && align <= 64, || {
        format!("align {align}")
    })
}

fn register_enable_get() -> Result<(), Outcome> {
    let area = with_own_registration()?;
    expect("flags after SET", area.flags() & ENABLED, ENABLED)?;
    expect("GET", sys::extension(GET, 0, 0), Ok(1))?;
    ensure(area.cpu() >= 0, || "the area is not filled".into())?;
    expect(
        "a second registration",
        sys::rseq(area.0, 64, 0),
        Err(EBUSY),
    )?;
    expect("another one", sys::rseq(Area::new().0, 64, 0), Err(EINVAL))?;
    expect("SET 0", sys::extension(SET, 0, 0), Ok(0))?;
    expect("GET", sys::extension(GET, 0, 0), Ok(0))
}

fn yield_ends_a_grant() -> Result<(), Outcome> {
    let area = with_own_registration()?;
    expect("a yield without a grant", sys::slice_yield(), Ok(0))?;
    crowded(|| {
        // A grant may expire between seeing it and the yield: some attempts.
        for _ in 0..100 {
            ensure(area.wait_for_grant(LIMIT), || "no grant".into())?;
            area.request(false);
            let yielded = sys::slice_yield();
            expect("both bytes after the yield", area.word(), (0, 0))?;
            match yielded {
                Ok(1) => return expect("a second yield", sys::slice_yield(), Ok(0)),
                other => expect("yield", other, Ok(0))?,
            }
        }
        Err(Outcome::Failed("no yield of 100 found a grant".into()))
    })
}

fn a_system_call_revokes() -> Result<(), Outcome> {
    let area = with_own_registration()?;
    crowded(|| {
        ensure(area.wait_for_grant(LIMIT), || "no grant".into())?;
        sys::foreign_call();
        expect("both bytes after a system call", area.word(), (0, 0))?;
        expect("a yield after it", sys::slice_yield(), Ok(0))
    })
}

fn a_grant_expires() -> Result<(), Outcome> {
    let area = with_own_registration()?;
    crowded(|| {
        ensure(area.wait_for_grant(LIMIT), || "no grant".into())?;
        let start = Instant::now();
        while area.word().1 != 0 {
            ensure(start.elapsed() < LIMIT, || {
                "the grant does not expire".into()
            })?;
            std::hint::spin_loop();
        }
        area.request(false);
        expect("a yield after it", sys::slice_yield(), Ok(0))
    })
}

fn a_legacy_registration_gives_524() -> Result<(), Outcome> {
    without_registration()?;
    expect("register 32 bytes", sys::rseq(Area::new().0, 32, 0), Ok(0))?;
    expect("SET", sys::extension(SET, 1, 0), Err(ENOTSUPP))
}

fn no_registration_gives_6() -> Result<(), Outcome> {
    without_registration()?;
    expect("SET", sys::extension(SET, 1, 0), Err(ENXIO))?;
    let status = Options::new().register_area(false).enable();
    expect("status", status, Status::NotRegistered)
}

fn wrong_arguments_give_22() -> Result<(), Outcome> {
    let _area = with_own_registration()?;
    expect("an unknown operation", sys::extension(3, 0, 0), Err(EINVAL))?;
    expect("SET 2", sys::extension(SET, 2, 0), Err(EINVAL))?;
    expect(
        "GET with an argument",
        sys::extension(GET, 1, 0),
        Err(EINVAL),
    )?;
    expect("a fourth argument", sys::extension(SET, 1, 1), Err(EINVAL))
}

/// Runs sections until `done`, beside another thread on the same CPU.
fn sections_until(done: impl Fn() -> bool) -> Result<(), Outcome> {
    let start = Instant::now();
    while !done() {
        ensure(start.elapsed() < LIMIT, || "it does not happen".into())?;
        for _ in 0..100 {
            let _outer = enter();
            let _inner = enter_lock();
            for _ in 0..1000 {
                std::hint::spin_loop();
            }
        }
    }
    Ok(())
}

fn sections_are_granted() -> Result<(), Outcome> {
    let status = Options::new().replace_registration(true).enable();
    if !status.is_enabled() {
        return Err(Outcome::Skipped(status.to_string()));
    }
    expect("status", kernel::status(), status)?;
    crowded(|| sections_until(|| kernel::grants() >= 10))?;
    expect("GET", sys::extension(GET, 0, 0), Ok(1))?;
    let other = thread::spawn(|| {
        drop(enter());
        kernel::status()
    });
    let other = other.join().expect("a section does not panic");
    ensure(other.is_enabled(), || format!("on another thread: {other}"))
}

fn the_probe_sees_a_preemption() -> Result<(), Outcome> {
    kernel::enable_thread();
    let Some(probe) = PreemptProbe::new() else {
        return Err(Outcome::Skipped("no rseq area".into()));
    };
    crowded(|| {
        probe.arm();
        let start = Instant::now();
        while !probe.has_lost_cpu() {
            // Reading the clock makes no system call where there is a vDSO; where it does, the
            // check still holds.
            ensure(start.elapsed() < LIMIT, || "no preemption is seen".into())?;
            std::hint::spin_loop();
        }
        ensure(probe.disarm(), || "disarm forgets it".into())
    })
}

const CHECKS: &[(&str, Check)] = &[
    ("auxiliary_vector", auxiliary_vector),
    ("register_enable_get", register_enable_get),
    ("yield_ends_a_grant", yield_ends_a_grant),
    ("a_system_call_revokes", a_system_call_revokes),
    ("a_grant_expires", a_grant_expires),
    (
        "a_legacy_registration_gives_524",
        a_legacy_registration_gives_524,
    ),
    ("no_registration_gives_6", no_registration_gives_6),
    ("wrong_arguments_give_22", wrong_arguments_give_22),
    ("sections_are_granted", sections_are_granted),
    ("the_probe_sees_a_preemption", the_probe_sees_a_preemption),
];

pub(crate) fn main() -> ExitCode {
    let mut failed = false;
    for &(name, check) in CHECKS {
        let outcome = match thread::spawn(move || check().err()).join() {
            Ok(None) => Outcome::Ok,
            Ok(Some(outcome)) => outcome,
            Err(_) => Outcome::Failed("it panicked".into()),
        };
        match outcome {
            Outcome::Ok => println!("check {name}: ok"),
            Outcome::Skipped(why) => println!("check {name}: skipped: {why}"),
            Outcome::Failed(why) => {
                failed = true;
                println!("check {name}: FAILED: {why}");
            }
        }
    }
    ExitCode::from(u8::from(failed))
}
