//! The real registration on whatever kernel this is, and sections on memory that plays the kernel.
//!
//! A thread's registration is changed only on threads of the test's own.

use std::thread;

use super::area::Area;
use super::{LEGACY_LEN, Options, REQUEST_OFFSET, Status, sys};
use crate::kernel::abi::{
    AT_RSEQ_ALIGN, AT_RSEQ_FEATURE_SIZE, CPU_ID_OFFSET, ENOTSUPP, EXTENDED_LEN, GRANTED_OFFSET,
    PR_RSEQ_SLICE_EXTENSION, RSEQ_CS_OFFSET, SYS_RSEQ_SLICE_YIELD,
};
use crate::{enter, enter_lock, state};

fn on_own_thread(body: impl FnOnce() + Send + 'static) {
    thread::spawn(body).join().expect("the test passes");
}

/// `struct rseq` as the kernel's header declares it.
#[repr(C)]
struct Rseq {
    cpu_id_start: u32,
    cpu_id: u32,
    rseq_cs: u64,
    flags: u32,
    node_id: u32,
    mm_cid: u32,
    request: u8,
    granted: u8,
    slice_reserved: u16,
    reserved: u8,
    end: [u8; 0],
}

#[test]
fn offsets_and_numbers_are_the_kernels() {
    use std::mem::offset_of;
    assert_eq!(offset_of!(Rseq, cpu_id), CPU_ID_OFFSET);
    assert_eq!(offset_of!(Rseq, rseq_cs), RSEQ_CS_OFFSET);
    assert_eq!((offset_of!(Rseq, request), REQUEST_OFFSET), (28, 28));
    assert_eq!((offset_of!(Rseq, granted), GRANTED_OFFSET), (29, 29));
    assert_eq!((offset_of!(Rseq, end), EXTENDED_LEN), (33, 33));
    assert_eq!((AT_RSEQ_FEATURE_SIZE, AT_RSEQ_ALIGN), (27, 28));
    assert_eq!((PR_RSEQ_SLICE_EXTENSION, SYS_RSEQ_SLICE_YIELD), (79, 471));
    assert_eq!((LEGACY_LEN, ENOTSUPP), (32, 524));
}

#[test]
fn looking_gives_an_answer_with_a_reason_and_leaves_the_registration() {
    on_own_thread(|| {
        let before = Area::of_libc().map(|(area, len)| (area.as_ptr() as usize, len));
        let (enabled, status) = state::with(|state| {
            let options = Options::new().replace_registration(true);
            let enabled = state.kernel().look(options);
            (enabled, state.kernel().status())
        });
        println!("{status}");
        assert_eq!(enabled, status.is_enabled());
        assert!(status != Status::NotAsked && status != Status::Unsupported);
        let after = Area::of_libc().map(|(area, len)| (area.as_ptr() as usize, len));
        assert!(
            enabled || before == after,
            "{status}: {before:?}, {after:?}"
        );
    });
}

#[test]
fn an_own_area_takes_the_place_of_the_legacy_one_and_gives_it_back() {
    on_own_thread(|| {
        let Some((libc_area, LEGACY_LEN)) = Area::of_libc() else {
            println!("skipped: the C library has no registration of 32 bytes here");
            return;
        };
        assert_eq!(sys::unregister(libc_area.as_ptr(), LEGACY_LEN), Ok(()));
        assert!(!libc_area.is_registered() && Area::of_libc().is_none());
        state::with(|state| {
            let own = &state.kernel().own;
            assert!(!own.area().is_registered());
            assert_eq!(own.register(), Ok(()));
            assert!(own.area().is_registered(), "the kernel fills the area");
            assert!(own.register().is_err(), "there can be one");
            own.unregister();
            assert!(!own.area().is_registered());
        });
        assert_eq!(sys::register(libc_area.as_ptr(), LEGACY_LEN), Ok(()));
        assert!(libc_area.is_registered());
    });
}

#[test]
fn an_area_in_use_stays_registered_until_the_thread_ends() {
    on_own_thread(|| {
        let Some((libc_area, LEGACY_LEN)) = Area::of_libc() else {
            println!("skipped: the C library has no registration of 32 bytes here");
            return;
        };
        assert_eq!(sys::unregister(libc_area.as_ptr(), LEGACY_LEN), Ok(()));
        let registered = state::with(|state| state.kernel().own.register());
        assert_eq!(registered, Ok(()));
        // Ending with it: the kernel must not write to the memory once it is used anew.
    });
    for _ in 0..10 {
        on_own_thread(|| assert!(vec![0_u8; 1 << 16].iter().all(|&byte| byte == 0)));
    }
}

#[repr(C, align(64))]
struct FakeArea([u8; 64]);

#[test]
fn the_outermost_section_requests_and_gives_back() {
    on_own_thread(|| {
        let mut memory = FakeArea([0; 64]);
        let area = memory.0.as_mut_ptr();
        let read = |offset| area.wrapping_add(offset);
        #[allow(unsafe_code)]
        // SAFETY: inside the memory above, which outlives the closures.
        let request = || unsafe { read(REQUEST_OFFSET).read_volatile() };
        #[allow(unsafe_code)]
        // SAFETY: as above.
        let grant = |granted| unsafe {
            read(REQUEST_OFFSET).write_volatile(0);
            read(GRANTED_OFFSET).write_volatile(granted);
        };
        state::with(|state| state.use_fake_kernel(area));
        let grants = || crate::kernel::grants();
        {
            let outer = enter();
            assert_eq!(request(), 1);
            let inner = enter_lock();
            drop(inner);
            assert_eq!(request(), 1, "an inner section's end is not the end");
            drop(outer);
            assert_eq!((request(), grants()), (0, 0));
        }
        {
            let outer = enter();
            grant(1);
            drop(enter());
            assert_eq!((request(), grants()), (0, 0), "no new request inside");
            drop(outer);
            assert_eq!(grants(), 1);
            grant(0);
        }
        {
            let outer = enter();
            grant(1);
            grant(0);
            drop(outer);
            assert_eq!(grants(), 1, "a revoked grant is not given back");
        }
    });
}
