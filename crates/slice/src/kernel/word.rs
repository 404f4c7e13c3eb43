//! The two ends of a section as the kernel's word sees them.
//!
//! Written against a trait, so that a test can play the kernel between any two accesses.
#![allow(dead_code, reason = "not used where there is no kernel to ask")]

/// The word by which a thread and the kernel talk, and the call that gives a grant back.
///
/// Each access is one machine instruction; an interrupt, in which the kernel changes the word, can
/// come between any two.
pub(crate) trait Word {
    /// Writes the request byte.
    fn set_request(&self, request: bool);
    /// Reads both bytes at once, and tells whether both are 0.
    fn is_clear(&self) -> bool;
    /// Reads the granted byte.
    fn is_granted(&self) -> bool;
    /// Calls `rseq_slice_yield`.
    fn slice_yield(&self);
}

/// Requests an extension, at the beginning of an outermost section.
///
/// The word is not clear if the section is in a signal handler that came while the interrupted code
/// was ending its own: its request or grant is still there. Then no new request is made: one grant
/// at a time is the kernel's rule, and a debugging kernel takes both bytes set for misuse. Once
/// both are clear, only the thread itself changes them.
#[inline]
pub(crate) fn begin(word: &impl Word) {
    if word.is_clear() {
        word.set_request(true);
    }
}

/// Withdraws the request at the end of an outermost section, and gives a grant back. Returns
/// whether there was one.
///
/// The request is cleared first: from then on the kernel grants nothing new, so what is read next
/// can only change from granted to revoked. Then a yield that comes too late is harmless: the
/// kernel has no grant to end, and returns at once.
#[inline]
pub(crate) fn end(word: &impl Word) -> bool {
    word.set_request(false);
    let granted = word.is_granted();
    if granted {
        word.slice_yield();
    }
    granted
}

#[cfg(test)]
#[path = "word_tests.rs"]
mod tests;
