//! Prints what 200 branches in a row cost, per branch, in every form and in several states of the
//! caches; and what a flip costs.
//!
//! ```text
//! cargo run --release -p evenkeel-static-key --example sites
//! ```
//!
//! A pass executes 200 different branches once, each followed by one operation of work. The table
//! gives the median over many passes, divided by 200. `hot` repeats passes back to back. Before the
//! timed pass, `L1 evicted` and `L2 evicted` read more memory than these caches hold. In `written`
//! another thread stores `false` to the flags all the time; that needs a second core that is free:
//! on a busy machine that column shows the time slices of others, hundreds of nanoseconds.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_static_key::{StaticKey, static_branch_unlikely};

/// Branches in a pass.
const SITES: usize = 200;
/// Passes that a median is taken of.
const PASSES: usize = 4_000;
/// Passes in one timing of the hot state.
const BATCH: usize = 100;
/// Timings of the hot state that a median is taken of.
const BATCHES: usize = 400;
/// Bytes read to evict the first-level caches: more than any has, less than a second level.
const L1_BYTES: usize = 160 << 10;
/// Bytes read to evict the second-level cache.
const L2_BYTES: usize = 6 << 20;
/// Stores to a flag between two looks whether to stop.
const WRITES: usize = 64;
const LINE: usize = 64;

static ARMED: StaticKey = StaticKey::new_false("armed");
static UNARMED: StaticKey = StaticKey::new_false("unarmed");
static FLAG: Flag = Flag::new();
static FLAGS: [Flag; SITES] = [const { Flag::new() }; SITES];

/// A boolean in a cache line of its own.
#[repr(align(64))]
struct Flag(AtomicBool);

impl Flag {
    const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    #[inline(always)]
    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cold]
#[inline(never)]
fn cold(x: u64, n: u64) -> u64 {
    black_box(x) * n
}

/// Makes a function of 200 pieces of work, each behind the branch `$test`, in which `$n` is the
/// branch's number.
macro_rules! pass {
    ($($name:ident: |$n:ident| $test:expr;)*) => {
        $(pass! { @expand $name, $n, $test, [
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
            32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59
            60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87
            88 89 90 91 92 93 94 95 96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111
            112 113 114 115 116 117 118 119 120 121 122 123 124 125 126 127 128 129 130 131 132
            133 134 135 136 137 138 139 140 141 142 143 144 145 146 147 148 149 150 151 152 153
            154 155 156 157 158 159 160 161 162 163 164 165 166 167 168 169 170 171 172 173 174
            175 176 177 178 179 180 181 182 183 184 185 186 187 188 189 190 191 192 193 194 195
            196 197 198 199
        ] })*
    };
    (@expand $name:ident, $n:ident, $test:expr, [$($number:literal)*]) => {
        #[inline(never)]
        fn $name(mut x: u64) -> u64 {
            $(
                const { assert!($number < SITES) };
                let $n = $number;
                let _ = $n;
                if $test {
                    x = cold(x, $number);
                }
                x = if $number % 2 == 0 { x.rotate_left(7) } else { x ^ $number };
            )*
            x
        }
    };
}

pass! {
    plain: |_n| false;
    armed_site: |_n| static_branch_unlikely!(ARMED);
    unarmed_site: |_n| static_branch_unlikely!(UNARMED);
    one_flag: |_n| FLAG.get();
    own_flags: |n| FLAGS[n].get();
}

type Pass = fn(u64) -> u64;

/// Name, pass, and the flags that are written in the last column: for forms that load no flag, one
/// that they do not need.
const FORMS: [(&str, Pass, &[Flag]); 5] = [
    ("plain (no branch)", plain, slice::from_ref(&FLAG)),
    ("disabled site", armed_site, slice::from_ref(&FLAG)),
    ("unarmed site", unarmed_site, slice::from_ref(&FLAG)),
    ("load of one flag", one_flag, slice::from_ref(&FLAG)),
    ("load of 200 flags", own_flags, &FLAGS),
];

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_nanos() as f64
}

fn batch(pass: Pass) -> Duration {
    let start = Instant::now();
    for x in 0..BATCH as u64 {
        black_box(pass(black_box(x)));
    }
    start.elapsed()
}

/// Returns the time of one branch, ns, when passes follow each other.
fn hot(pass: Pass) -> f64 {
    batch(pass);
    median((0..BATCHES).map(|_| batch(pass)).collect()) / (BATCH * SITES) as f64
}

/// Returns the time of one branch, ns, in single passes after `prepare`, less what timing takes.
fn single(pass: Pass, passes: usize, mut prepare: impl FnMut()) -> f64 {
    let mut time = |pass: Pass| {
        prepare();
        let start = Instant::now();
        black_box(pass(black_box(1)));
        start.elapsed()
    };
    let empty: Pass = |x| x;
    let nothing = median((0..passes).map(|_| time(empty)).collect());
    let all = median((0..passes).map(|_| time(pass)).collect());
    (all - nothing) / SITES as f64
}

fn evict(memory: &[u8]) {
    let sum: u64 = memory
        .iter()
        .step_by(LINE)
        .map(|byte| u64::from(*byte))
        .sum();
    black_box(sum);
}

/// Returns the time of one branch, ns, while another thread writes to `flags` without a pause.
fn while_written(pass: Pass, flags: &[Flag]) -> f64 {
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..WRITES {
                    flags
                        .iter()
                        .for_each(|flag| flag.0.store(false, Ordering::Relaxed));
                }
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut times = Vec::new();
        while times.len() < BATCHES {
            let before = rounds.load(Ordering::Relaxed);
            let time = batch(pass);
            // A batch counts if the writer was running meanwhile, not waiting for a core.
            if rounds.load(Ordering::Relaxed) > before + 1 {
                times.push(time);
            }
        }
        stop.store(true, Ordering::Relaxed);
        median(times) / (BATCH * SITES) as f64
    })
}

fn print_table() {
    let memory = vec![1_u8; L2_BYTES];
    println!("ns per branch         hot  L1 evicted  L2 evicted  written");
    for (name, pass, flags) in FORMS {
        let columns = [
            hot(pass),
            single(pass, PASSES, || evict(&memory[..L1_BYTES])),
            single(pass, PASSES / 10, || evict(&memory)),
            while_written(pass, flags),
        ];
        let [hot, l1, l2, written] = columns;
        println!("{name:<18} {hot:>6.3} {l1:>11.3} {l2:>11.3} {written:>8.3}");
    }
}

fn print_flips(key: &'static StaticKey) {
    let (mut enables, mut disables, mut arms) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PASSES / 10 {
        let timed = |times: &mut Vec<Duration>, flip: &dyn Fn() -> bool| {
            let start = Instant::now();
            assert!(flip());
            times.push(start.elapsed());
        };
        timed(&mut enables, &|| key.enable().is_ok());
        timed(&mut disables, &|| key.disable().is_ok());
        timed(&mut arms, &|| key.arm().is_ok());
    }
    println!(
        "{} sites: enable {:.1} us, disable {:.2} us, arm {:.1} us",
        key.sites().len(),
        median(enables) / 1e3,
        median(disables) / 1e3,
        median(arms) / 1e3,
    );
}

fn main() {
    static ONE: StaticKey = StaticKey::new_false("one site");
    black_box(static_branch_unlikely!(ONE));
    // The optimiser must not find out that nobody writes to the flags.
    let never = std::env::args().count() > 1_000;
    FLAG.0.store(never, Ordering::Relaxed);
    for flag in &FLAGS {
        flag.0.store(never, Ordering::Relaxed);
    }
    match ARMED.arm() {
        Ok(sites) => println!("{sites} sites armed"),
        Err(error) => println!("not armed, so a disabled site loads the flag: {error}"),
    }
    print_table();
    if ONE.arm().is_ok() {
        print_flips(&ONE);
        print_flips(&ARMED);
    }
}
