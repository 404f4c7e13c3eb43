//! What tasks contend for.

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::PoisonError;

use clap::ValueEnum;
use evenkeel_bench::stats::Random;
use evenkeel_bench::work::Steps;

/// Blocks that a task keeps in the subjects that allocate.
const BLOCKS: usize = 64;

/// Blocks that one operation replaces there.
const REPLACED: usize = 16;

/// Largest block there, in bytes: beyond what the C library keeps for each thread without a lock.
const MAX_BLOCK: usize = 8 << 10;

/// What tasks contend for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// `std::sync::Mutex`.
    Std,
    /// `parking_lot::Mutex`.
    ParkingLot,
    /// `evenkeel_slice::Mutex`, whose holders are in critical sections.
    Slice,
    /// The system's allocator: each operation replaces 16 blocks of 1 B to 8 KiB.
    Malloc,
    /// The same through `evenkeel_slice::SliceAlloc`.
    SliceMalloc,
    /// `println!`, to `/dev/null`: the lock of the standard output.
    Print,
}

impl Kind {
    /// Every kind.
    pub(crate) const ALL: [Kind; 6] = [
        Kind::Std,
        Kind::ParkingLot,
        Kind::Slice,
        Kind::Malloc,
        Kind::SliceMalloc,
        Kind::Print,
    ];

    /// Returns the name, as tables and the command line give it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Std => "std",
            Kind::ParkingLot => "parking-lot",
            Kind::Slice => "slice",
            Kind::Malloc => "malloc",
            Kind::SliceMalloc => "slice-malloc",
            Kind::Print => "print",
        }
    }

    /// Returns whether it is a mutex, held for a time that can be chosen.
    pub(crate) fn is_mutex(self) -> bool {
        matches!(self, Kind::Std | Kind::ParkingLot | Kind::Slice)
    }

    /// Makes what the tasks of one run share.
    pub(crate) fn shared(self) -> Shared {
        match self {
            Kind::Std => Shared::Std(std::sync::Mutex::new(0)),
            Kind::ParkingLot => Shared::ParkingLot(parking_lot::Mutex::new(0)),
            Kind::Slice => Shared::Slice(evenkeel_slice::Mutex::new(0)),
            Kind::Malloc | Kind::SliceMalloc => Shared::Heap,
            Kind::Print => Shared::Output,
        }
    }
}

/// What the tasks of one run share. Mutexes hold the number of operations done.
pub(crate) enum Shared {
    Std(std::sync::Mutex<u64>),
    ParkingLot(parking_lot::Mutex<u64>),
    Slice(evenkeel_slice::Mutex<u64>),
    Heap,
    Output,
}

/// Adds one, in two parts with the work between them: an addition of another holder in between
/// would be lost.
fn add(counter: &mut u64, held: Steps) {
    let before = black_box(*counter);
    held.run();
    *counter = before + 1;
}

impl Shared {
    /// Does one operation, which holds a mutex for `held`.
    pub(crate) fn operate(&self, own: &mut Own, held: Steps) {
        match self {
            Shared::Std(mutex) => {
                let mut counter = mutex.lock().unwrap_or_else(PoisonError::into_inner);
                add(&mut counter, held);
            }
            Shared::ParkingLot(mutex) => add(&mut mutex.lock(), held),
            Shared::Slice(mutex) => add(&mut mutex.lock(), held),
            Shared::Heap => own.replace_blocks(),
            Shared::Output => own.print(),
        }
    }

    /// Returns the number of operations by what was protected; `None` where nothing counts.
    pub(crate) fn count(&self) -> Option<u64> {
        match self {
            Shared::Std(mutex) => Some(*mutex.lock().unwrap_or_else(PoisonError::into_inner)),
            Shared::ParkingLot(mutex) => Some(*mutex.lock()),
            Shared::Slice(mutex) => Some(*mutex.lock()),
            Shared::Heap | Shared::Output => None,
        }
    }
}

/// What each task has for itself.
pub(crate) struct Own {
    random: Random,
    blocks: Vec<Vec<u8>>,
    line: String,
}

impl Own {
    pub(crate) fn new(seed: u64) -> Own {
        Own {
            random: Random::new(seed),
            blocks: vec![Vec::new(); BLOCKS],
            line: String::new(),
        }
    }

    /// Draws a number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit)
    }

    fn replace_blocks(&mut self) {
        for _ in 0..REPLACED {
            let (at, size) = (self.below(BLOCKS), 1 + self.below(MAX_BLOCK));
            let mut block = Vec::with_capacity(size);
            block.push(at as u8);
            let old = std::mem::replace(&mut self.blocks[at], block);
            assert!(
                old.first().is_none_or(|&byte| byte == at as u8),
                "overwritten"
            );
        }
    }

    fn print(&mut self) {
        self.line.clear();
        let number = self.below(1_000_000);
        write!(self.line, "a line with the number {number}").expect("a string takes all");
        println!("{}", self.line);
    }
}
