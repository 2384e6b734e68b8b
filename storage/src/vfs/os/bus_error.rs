//! Handles a disk that cannot be read through a memory map: there is no error to return, the thread
//! gets SIGBUS. The handler here reports the file and the byte, and lets the signal end the
//! process, with a core dump if enabled. Knows nothing of the stored content.
//!
//! A handler may interrupt anything, even the allocator or the holder of a lock. So it only loads
//! atomics, formats into arrays on its stack, and makes four kinds of system call that POSIX allows
//! it.

use std::ffi::c_void;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

/// The system reads whole pages, so the place is not known more exactly than this.
const PAGE_BYTES: usize = 4096;
/// Digits of the largest `u64`.
const DIGITS: usize = 20;
/// Where the system shows the names of open files, by their descriptors.
const OPEN_FILES: &[u8] = b"/proc/self/fd/";
/// Most bytes of a file's name now: the stack of a handler is small. One that is longer is reported
/// as it was when the file was opened.
const NAME_BYTES_MAX: usize = 512;

/// Registers a map with the handler for as long as it lives. Dropped before the map.
#[derive(Debug)]
pub(super) struct Watched {
    region: &'static Region,
    /// What the region points to.
    _path: Arc<Path>,
    /// Open as long as the region has its descriptor.
    _file: Arc<fs::File>,
}

/// A registered map, or a free place for the next one. Regions are never freed, because a handler
/// may be looking at any of them.
#[derive(Debug)]
struct Region {
    /// Address of the first byte; 0 if the other fields mean nothing.
    start: AtomicUsize,
    len: AtomicUsize,
    /// The path that the file was opened with. It may have been renamed since.
    path: AtomicPtr<u8>,
    path_len: AtomicUsize,
    /// Its descriptor.
    fd: AtomicI32,
    next: OnceLock<&'static Region>,
}

static FIRST: Region = Region::new();

/// Held while regions change. The handler does not take it.
static CHANGES: Mutex<()> = Mutex::new(());

/// The former action for the signal.
static FORMER: OnceLock<libc::sigaction> = OnceLock::new();

impl Watched {
    /// `start` and `len` describe a map of `file`, which was opened at `path`.
    pub(super) fn new(
        start: *const u8,
        len: usize,
        path: &Arc<Path>,
        file: &Arc<fs::File>,
    ) -> Watched {
        FORMER.get_or_init(install);
        let _changes = CHANGES.lock();
        let region = Region::vacant();
        let bytes = path.as_os_str().as_bytes();
        region.len.store(len, Ordering::Relaxed);
        let first = bytes.as_ptr().cast_mut();
        region.path.store(first, Ordering::Relaxed);
        region.path_len.store(bytes.len(), Ordering::Relaxed);
        region.fd.store(file.as_raw_fd(), Ordering::Relaxed);
        // Stored last: a reader that sees it sees the other fields, too.
        region.start.store(start as usize, Ordering::Release);
        Watched {
            region,
            _path: path.clone(),
            _file: file.clone(),
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
            fd: AtomicI32::new(0),
            next: OnceLock::new(),
        }
    }

    /// A free region, or a new one. There are as many as there were ever maps at one time.
    fn vacant() -> &'static Region {
        let mut region = &FIRST;
        while region.start.load(Ordering::Relaxed) != 0 {
            region = region
                .next
                .get_or_init(|| Box::leak(Box::new(Region::new())));
        }
        region
    }

    /// The file that the address belongs to.
    fn find(address: usize) -> Option<Found> {
        let mut next = Some(&FIRST);
        while let Some(region) = next {
            let start = region.start.load(Ordering::Acquire);
            let len = region.len.load(Ordering::Acquire);
            let (path, path_len) = (
                region.path.load(Ordering::Acquire),
                region.path_len.load(Ordering::Acquire),
            );
            let fd = region.fd.load(Ordering::Acquire);
            // `start` is unchanged: the fields loaded in between belong together.
            let is_one = start != 0 && region.start.load(Ordering::Acquire) == start;
            if is_one && (start..start.saturating_add(len)).contains(&address) {
                // SAFETY: `Watched::new` set `start` after the path, and keeps the path alive until
                // the region is vacant. It is not vacant: this thread was just reading the address,
                // so the map lives, and so does its `Watched`, which is dropped before the map. The
                // bytes are immutable. The slice is used only until the process ends, soon after.
                let path = unsafe { slice::from_raw_parts(path, path_len) };
                return Some(Found {
                    path,
                    fd,
                    offset: address - start,
                });
            }
            next = region.next.get().copied();
        }
        None
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Found {
    /// The path that the file was opened with.
    path: &'static [u8],
    fd: libc::c_int,
    /// Of the address in the file.
    offset: usize,
}

/// Installs the handler; returns the former action.
fn install() -> libc::sigaction {
    let mut former = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: all zeros are a `sigaction`: the default action, an empty mask, no flags.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = on_bus_error as *const () as usize;
    // Runs on the stack that Rust's runtime reserves for handlers, if the thread has one.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both point to a `sigaction` of this function, and the handler has the signature that
    // `SA_SIGINFO` requires.
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
    let Some(Found { path, fd, offset }) = Region::find(address) else {
        // Someone else's map. After this returns the instruction runs again, and the former action
        // handles the signal.
        if let Some(former) = FORMER.get() {
            // SAFETY: `former` came from the system; null means that no old action is returned.
            unsafe { libc::sigaction(libc::SIGBUS, former, ptr::null_mut()) };
        }
        return;
    };
    let mut digits = [0; DIGITS];
    let mut name = [0; NAME_BYTES_MAX];
    say(b"fatal: bus error under the memory map of ");
    say(name_now(fd, &mut name).unwrap_or(path));
    say(b" at byte ");
    say(decimal(
        (offset / PAGE_BYTES * PAGE_BYTES) as u64,
        &mut digits,
    ));
    say(b": the disk could not be read there, or the file was cut by someone else\n");
    // SAFETY: the default action is a constant of the system, for a signal that there is.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
    // Not left to the instruction, which may succeed the second time. Delivered on return.
    // SAFETY: takes no pointer, and may be called in a handler.
    unsafe { libc::raise(libc::SIGBUS) };
}

/// The file's name now; `None` if the system does not tell it, or it is too long.
fn name_now(fd: libc::c_int, name: &mut [u8; NAME_BYTES_MAX]) -> Option<&[u8]> {
    // The last byte stays zero.
    let mut link = [0u8; OPEN_FILES.len() + DIGITS + 1];
    let (dir, number) = link.split_at_mut(OPEN_FILES.len());
    dir.copy_from_slice(OPEN_FILES);
    let mut digits = [0; DIGITS];
    let digits = decimal(u64::try_from(fd).ok()?, &mut digits);
    number[..digits.len()].copy_from_slice(digits);
    // SAFETY: `link` is a text that ends with a zero, and `name` has room for as many bytes as the
    // call is told. It may be made in a handler.
    let len = unsafe { libc::readlink(link.as_ptr().cast(), name.as_mut_ptr().cast(), name.len()) };
    // A longer name would be cut.
    let len = usize::try_from(len).ok().filter(|len| *len < name.len())?;
    Some(&name[..len])
}

fn say(bytes: &[u8]) {
    // SAFETY: pointer and length belong to one slice. A failed write is ignored.
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
        let file = Arc::new(tempfile::tempfile().unwrap());
        let watched = Watched::new(bytes.as_ptr(), bytes.len(), &path, &file);
        let found = Found {
            path: b"some/file",
            fd: file.as_raw_fd(),
            offset: 5000,
        };
        assert_eq!(Region::find(at + 5000), Some(found));
        assert_eq!(Region::find(at + bytes.len()), None);
        drop(watched);
        assert_eq!(Region::find(at + 5000), None);
    }
}
