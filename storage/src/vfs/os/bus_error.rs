//! What happens when the disk cannot be read under a memory map: there is no error to return, the thread
//! gets SIGBUS. The handler here tells which file and which byte it was, and lets the signal end the
//! process, with its core if there is to be one. Knows nothing of what is stored.
//!
//! A handler may interrupt anything, a holder of a lock and the allocator included. So it only loads
//! atomics, formats into an array on its stack, and makes three kinds of system call that POSIX allows it.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

/// What the system reads as a whole, so that no more is known of the place than that.
const PAGE_BYTES: usize = 4096;
/// Digits of the largest number there is.
const DIGITS: usize = 20;

/// Tells the handler of a map for as long as it lives. Dropped before the map is.
#[derive(Debug)]
pub(super) struct Watched {
    region: &'static Region,
    /// What the region points to.
    _path: Arc<Path>,
}

/// A map, or a place for the next one to be told of: they are never taken away, because a handler may
/// be looking at any of them.
#[derive(Debug)]
struct Region {
    /// Address of the first byte; 0: the rest means nothing.
    start: AtomicUsize,
    len: AtomicUsize,
    path: AtomicPtr<u8>,
    path_len: AtomicUsize,
    next: OnceLock<&'static Region>,
}

static FIRST: Region = Region::new();

/// Held by who changes regions. The handler does not take it.
static CHANGES: Mutex<()> = Mutex::new(());

/// What was done about the signal before.
static FORMER: OnceLock<libc::sigaction> = OnceLock::new();

impl Watched {
    /// `start` and `len` are of a map of the file at `path`.
    pub(super) fn new(start: *const u8, len: usize, path: &Arc<Path>) -> Watched {
        FORMER.get_or_init(install);
        let _changes = CHANGES.lock();
        let region = Region::vacant();
        let bytes = path.as_os_str().as_bytes();
        region.len.store(len, Ordering::Relaxed);
        let first = bytes.as_ptr().cast_mut();
        region.path.store(first, Ordering::Relaxed);
        region.path_len.store(bytes.len(), Ordering::Relaxed);
        // Last: who sees it sees the rest.
        region.start.store(start as usize, Ordering::Release);
        Watched {
            region,
            _path: path.clone(),
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _changes = CHANGES.lock();
        self.region.start.store(0, Ordering::Release);
    }
}

impl Region {
    const fn new() -> Region {
        Region {
            start: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            path: AtomicPtr::new(ptr::null_mut()),
            path_len: AtomicUsize::new(0),
            next: OnceLock::new(),
        }
    }

    /// One that no map has; a new one if need be. There are as many as there were ever maps at one time.
    fn vacant() -> &'static Region {
        let mut region = &FIRST;
        while region.start.load(Ordering::Relaxed) != 0 {
            region = region
                .next
                .get_or_init(|| Box::leak(Box::new(Region::new())));
        }
        region
    }

    /// The path of the file that the address belongs to, and the offset in it.
    fn find(address: usize) -> Option<(&'static [u8], usize)> {
        let mut next = Some(&FIRST);
        while let Some(region) = next {
            let start = region.start.load(Ordering::Acquire);
            let len = region.len.load(Ordering::Acquire);
            let (path, path_len) = (
                region.path.load(Ordering::Acquire),
                region.path_len.load(Ordering::Acquire),
            );
            // The same again: what was loaded in between belongs together.
            let is_one = start != 0 && region.start.load(Ordering::Acquire) == start;
            if is_one && (start..start.saturating_add(len)).contains(&address) {
                // SAFETY: `start` was set after the path, by `Watched::new`, which keeps the path alive
                // until the region is vacant. It is not: the address is one that this thread was just
                // reading, so the map lives, and with it the `Watched` that is dropped before it. The
                // bytes are immutable. The lifetime ends with the process, some lines below.
                let path = unsafe { slice::from_raw_parts(path, path_len) };
                return Some((path, address - start));
            }
            next = region.next.get().copied();
        }
        None
    }
}

/// Puts the handler in its place; returns what was there.
fn install() -> libc::sigaction {
    let mut former = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: all zeros are a `sigaction`: the default action, an empty mask, no flags.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = on_bus_error as *const () as usize;
    // On the stack that Rust's runtime sets aside for handlers, if the thread has one.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both point to a `sigaction` of this function's, and the handler has the signature that
    // `SA_SIGINFO` asks for.
    let done = unsafe { libc::sigaction(libc::SIGBUS, &action, former.as_mut_ptr()) };
    assert_eq!(done, 0, "SIGBUS can be handled");
    // SAFETY: the call succeeded, and fills it.
    unsafe { former.assume_init() }
}

extern "C" fn on_bus_error(
    _signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut c_void,
) {
    // SAFETY: the system gives a handler with `SA_SIGINFO` a valid one.
    let info = unsafe { &*info };
    // SAFETY: the field is there for SIGBUS, which is the only signal that this is installed for.
    let address = unsafe { info.si_addr() } as usize;
    let Some((path, offset)) = Region::find(address) else {
        // Somebody else's map. The instruction runs again when this returns, and who was there before
        // gets the signal.
        if let Some(former) = FORMER.get() {
            // SAFETY: as the system gave it; a null pointer asks for nothing back.
            unsafe { libc::sigaction(libc::SIGBUS, former, ptr::null_mut()) };
        }
        return;
    };
    let mut digits = [0; DIGITS];
    say(b"fatal: bus error under the memory map of ");
    say(path);
    say(b" at byte ");
    say(decimal(
        (offset / PAGE_BYTES * PAGE_BYTES) as u64,
        &mut digits,
    ));
    say(b": the disk could not be read there, or the file was cut by someone else\n");
    // SAFETY: the default action is a constant of the system, for a signal that there is.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
    // Not left to the instruction, which may succeed the second time. Delivered as this returns.
    // SAFETY: takes no pointer, and may be called in a handler.
    unsafe { libc::raise(libc::SIGBUS) };
}

fn say(bytes: &[u8]) {
    // SAFETY: the pointer and the length are of one slice. What cannot be said is not said.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
}

fn decimal(mut number: u64, digits: &mut [u8; DIGITS]) -> &[u8] {
    let mut at = DIGITS;
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_whole() {
        for number in [0, 9, 10, 4096, u64::MAX] {
            let mut digits = [0; DIGITS];
            assert_eq!(decimal(number, &mut digits), number.to_string().as_bytes());
        }
    }

    #[test]
    fn regions_are_found_while_they_are_watched_and_used_again() {
        let path: Arc<Path> = Path::new("some/file").into();
        let bytes = [0u8; 3 * PAGE_BYTES];
        let at = bytes.as_ptr() as usize;
        let watched = Watched::new(bytes.as_ptr(), bytes.len(), &path);
        assert_eq!(Region::find(at + 5000), Some((&b"some/file"[..], 5000)));
        assert_eq!(Region::find(at + bytes.len()), None);
        drop(watched);
        assert_eq!(Region::find(at + 5000), None);
    }
}
