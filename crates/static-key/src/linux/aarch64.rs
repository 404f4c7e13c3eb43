//! AArch64: the site and its two forms. **Reviewed and assembled, but never run on hardware.**
//!
//! A site is one aligned word, `B label`; armed it is `NOP`. Both are in the architecture's list of
//! instructions that may be exchanged while other cores execute them (Arm ARM, B2.2.5). The kernel
//! maintains the caches when the word is written through `/proc/self/mem`.
//!
//! Unsafe is allowed in this file: it contains the inline assembly.
#![allow(unsafe_code)]

/// One record as the macro emits it. The key's address is absolute: the distance to an entry of the
/// global offset table, as on x86-64, needs a relocation that few linkers know here.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Record {
    /// Distance from this field to the site.
    pub(crate) code: i32,
    /// Distance from this field to the label block.
    pub(crate) target: i32,
    /// The key.
    key: *const crate::StaticKey,
    /// The value that falling through means, 0 or 1.
    pub(crate) fall_through: u32,
}

impl Record {
    /// Returns the address of the key.
    pub(crate) fn key_address(&self) -> usize {
        self.key.expose_provenance()
    }
}

/// The bytes of a site that ever change, starting at its first.
pub(crate) type Code = [u8; 4];

/// `b #0`; the low 26 bits are the distance in words.
const BRANCH: u32 = 0x1400_0000;
/// The bits of a `b` that hold the distance.
const DISTANCE: usize = (1 << 26) - 1;
/// `nop`
const NOP: u32 = 0xd503_201f;

/// Returns what a site contains that jumps to its label block.
pub(crate) fn jump(site: usize, target: usize) -> Code {
    let words = (target.wrapping_sub(site) >> 2) & DISTANCE;
    (BRANCH | words as u32).to_le_bytes()
}

/// Returns what a site contains that falls through.
pub(crate) fn fall_through() -> Code {
    NOP.to_le_bytes()
}

/// Emits one branch site. Not for use outside of this crate's macros.
///
/// The record lies in a section that is linked to the site's own ("o"), so that a function that the
/// linker drops takes its records along. That needs a symbol with a unique name at the site; the
/// counter makes it, since it lives as long as the assembler's symbol table. `\@` would start anew
/// with each block. The section is writable for the relocation of the key's address.
#[doc(hidden)]
#[macro_export]
macro_rules! __static_branch {
    ($key:path, $fall_through:literal) => {
        '__static_branch: {
            // SAFETY: the code either falls through or jumps to the label, and touches no register,
            // no memory and no stack.
            unsafe {
                ::core::arch::asm!(
                    ".ifndef .Levk_count",
                    ".set .Levk_count, 0",
                    ".endif",
                    ".set .Levk_count, .Levk_count + 1",
                    ".altmacro",
                    ".macro evenkeel_site number",
                    ".Levk_site\\number:",
                    "b {target}",
                    ".pushsection evenkeel_static_key_0_1, \"awo\", @progbits, .Levk_site\\number",
                    ".balign 8",
                    ".long .Levk_site\\number - .",
                    ".long {target} - .",
                    ".xword {key}",
                    ".xword {fall_through}",
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
            "adrp {start}, __start_evenkeel_static_key_0_1",
            "add {start}, {start}, :lo12:__start_evenkeel_static_key_0_1",
            "adrp {stop}, __stop_evenkeel_static_key_0_1",
            "add {stop}, {stop}, :lo12:__stop_evenkeel_static_key_0_1",
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
    // SAFETY: rotations by 128 bits in all leave x12 as it was, and x10 is combined with itself.
    // Valgrind reads the request and writes x3.
    unsafe {
        core::arch::asm!(
            "ror x12, x12, #3",
            "ror x12, x12, #13",
            "ror x12, x12, #51",
            "ror x12, x12, #61",
            "orr x10, x10, x10",
            in("x4") request.as_ptr(),
            inout("x3") 0usize => _,
            options(nostack, preserves_flags),
        );
    }
}
