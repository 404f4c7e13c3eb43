//! x86-64: the site, its two forms, and what a translator of machine code has to be told.
//!
//! A site is the five bytes `E9 rel32`: a jump to the label block. Armed, the first byte is `A9`,
//! and the five bytes are `test eax, imm32`, which only changes the arithmetic flags. Both forms
//! have the same length and the same last four bytes, so a core that fetches while the first byte
//! is written executes one form or the other.
//!
//! Unsafe is allowed in this file: it contains the inline assembly.
#![allow(unsafe_code)]

use super::registry::resolve;

/// One record as the macro emits it: distances from each field's own address.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Record {
    /// To the site.
    pub(crate) code: i32,
    /// To the label block.
    pub(crate) target: i32,
    /// To the entry of the global offset table that has the key's address.
    key: i32,
    /// The value that falling through means, 0 or 1.
    pub(crate) fall_through: u32,
}

impl Record {
    /// Returns the address of the key.
    pub(crate) fn key_address(&self) -> usize {
        let entry = core::ptr::with_exposed_provenance::<usize>(resolve(&self.key));
        // SAFETY: the field is the distance to an aligned entry of the global offset table, which
        // is mapped readable as long as this shared object is.
        unsafe { *entry }
    }
}

/// The bytes of a site that ever change, starting at its first.
pub(crate) type Code = [u8; 1];

/// `jmp rel32`
const JUMP: u8 = 0xe9;
/// `test eax, imm32`
const FALL_THROUGH: u8 = 0xa9;

/// Returns what a site contains that jumps to its label block.
pub(crate) fn jump(_site: usize, _target: usize) -> Code {
    [JUMP]
}

/// Returns what a site contains that falls through.
pub(crate) fn fall_through() -> Code {
    [FALL_THROUGH]
}

/// Emits one branch site. Not for use outside of this crate's macros.
///
/// The record lies in a section that is linked to the site's own ("o"), so that a function that the
/// linker drops takes its records along. That needs a symbol with a unique name at the site; the
/// counter makes it, since it lives as long as the assembler's symbol table. `\@` would start anew
/// with each block.
#[doc(hidden)]
#[macro_export]
macro_rules! __static_branch {
    ($key:path, $fall_through:literal) => {
        '__static_branch: {
            // SAFETY: the code either falls through or jumps to the label, clobbers nothing but
            // the arithmetic flags, and touches no memory and no stack.
            unsafe {
                ::core::arch::asm!(
                    ".ifndef .Levk_count",
                    ".set .Levk_count, 0",
                    ".endif",
                    ".set .Levk_count, .Levk_count + 1",
                    ".altmacro",
                    ".macro evenkeel_site number",
                    ".Levk_site\\number:",
                    ".byte 0xe9",
                    ".long {target} - . - 4",
                    ".pushsection evenkeel_static_key_0_1, \"ao\", @progbits, .Levk_site\\number",
                    ".balign 4",
                    ".long .Levk_site\\number - .",
                    ".long {target} - .",
                    ".long {key}@GOTPCREL",
                    ".long {fall_through}",
                    ".popsection",
                    ".endm",
                    "evenkeel_site %.Levk_count",
                    ".purgem evenkeel_site",
                    ".noaltmacro",
                    key = sym $key,
                    fall_through = const $fall_through as u32,
                    target = label {
                        break '__static_branch $crate::StaticKey::is_enabled(&$key)
                    },
                    options(nomem, nostack),
                )
            }
            $fall_through
        }
    };
}

/// Returns the first record of this shared object, the end of its records, and the value of a
/// branch on the key [`PROBE`](super::probe::PROBE).
///
/// The linker defines the two symbols if there is at least one record; the branch makes sure of
/// that, being in the same function.
#[inline(never)]
pub(crate) fn records_and_probe() -> (*const Record, *const Record, bool) {
    let (start, stop): (*const Record, *const Record);
    // SAFETY: the code computes two addresses.
    unsafe {
        core::arch::asm!(
            ".hidden __start_evenkeel_static_key_0_1",
            ".hidden __stop_evenkeel_static_key_0_1",
            "lea {start}, [rip + __start_evenkeel_static_key_0_1]",
            "lea {stop}, [rip + __stop_evenkeel_static_key_0_1]",
            start = out(reg) start,
            stop = out(reg) stop,
            options(nomem, nostack, preserves_flags),
        );
    }
    let probe = crate::static_branch_unlikely!(super::probe::PROBE);
    (start, stop, probe)
}

/// Asks Valgrind, if this runs under it, to forget its translation of `length` bytes at `address`.
///
/// Outside of Valgrind the instructions have no effect. The request and its encoding are described
/// in `valgrind.h`.
pub(crate) fn discard_translation(address: usize, length: usize) {
    const DISCARD_TRANSLATIONS: usize = 0x1002;
    let request: [usize; 6] = [DISCARD_TRANSLATIONS, address, length, 0, 0, 0];
    // SAFETY: four rotations by 128 bits in all leave rdi as it was, and an exchange of rbx with
    // itself does nothing. Valgrind reads the request and writes rdx.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") request.as_ptr(),
            inout("rdx") 0usize => _,
            options(nostack),
        );
    }
}
