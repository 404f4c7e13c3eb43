//! Hundreds of sites of two keys, at every offset in a cache line and across page boundaries.
//!
//! Unsafe is allowed in this file: assembly moves the code that follows to where it is wanted.

use std::arch::asm;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use evenkeel_static_key::{StaticKey, static_branch_likely, static_branch_unlikely};

/// The first key.
pub(crate) static A: StaticKey = StaticKey::new_false("A");
/// The second key.
pub(crate) static B: StaticKey = StaticKey::new_false("B");

/// Moves what follows to `skip` bytes after a multiple of two to the power of `align`.
macro_rules! place {
    ($align:literal, $skip:expr) => {
        // SAFETY: a jump over bytes that are not executed.
        unsafe {
            asm!(
                "jmp 2f",
                concat!(".p2align ", $align),
                ".skip {skip}, 0xcc",
                "2:",
                skip = const $skip,
                options(nomem, nostack, preserves_flags),
            )
        }
    };
}

/// Two branches on each key, the first of them `OFFSET` bytes into a cache line.
#[inline(never)]
fn in_line<const OFFSET: usize>() -> [[bool; 2]; 2] {
    place!("6", OFFSET);
    let a = static_branch_unlikely!(A);
    let b = static_branch_likely!(B);
    [
        [a, static_branch_likely!(A)],
        [b, static_branch_unlikely!(B)],
    ]
}

/// Two branches on each key, the first of them `OFFSET` bytes into a page.
#[inline(never)]
fn in_page<const OFFSET: usize>() -> [[bool; 2]; 2] {
    place!("12", OFFSET);
    let b = static_branch_unlikely!(B);
    let a = static_branch_likely!(A);
    [
        [a, static_branch_unlikely!(A)],
        [b, static_branch_likely!(B)],
    ]
}

/// Gives what two branches on each key gave, by key.
pub(crate) type Function = fn() -> [[bool; 2]; 2];

macro_rules! table {
    ($($name:ident: $($offset:literal)*;)*) => { &[$($($name::<$offset>),*),*] };
}

/// All functions that contain sites.
#[rustfmt::skip]
pub(crate) static FUNCTIONS: &[Function] = table! {
    in_line:
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62
        63;
    in_page:
        4052 4053 4054 4055 4056 4057 4058 4059 4060 4061 4062 4063 4064 4065 4066 4067 4068 4069
        4070 4071 4072 4073 4074 4075 4076 4077 4078 4079 4080 4081 4082 4083 4084 4085 4086 4087
        4088 4089 4090 4091 4092 4093 4094 4095;
};

/// Changes sites as one must not do it, between the jump and a five-byte no-op, in two pieces, for
/// as long as `go_on` says.
pub(crate) fn torn_writes(go_on: impl Fn() -> bool) {
    const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];
    const FIRST_PIECE: usize = 2;
    let memory = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/proc/self/mem");
    let memory = memory.expect("the memory file opens");
    let write = |address: usize, code: [u8; 5]| {
        for (offset, piece) in [
            (0, &code[..FIRST_PIECE]),
            (FIRST_PIECE, &code[FIRST_PIECE..]),
        ] {
            let place = (address + offset) as u64;
            memory
                .write_all_at(piece, place)
                .expect("code can be written");
        }
    };
    while go_on() {
        for site in A.sites() {
            let mut jump = [0; 5];
            memory
                .read_exact_at(&mut jump, site.address as u64)
                .expect("code is readable");
            write(site.address, NOP);
            write(site.address, jump);
        }
    }
}
