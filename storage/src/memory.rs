//! What the process itself has in memory, beside what it allocated.

#![expect(
    unsafe_code,
    reason = "the system is told about addresses; see the SAFETY note"
)]

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

/// Where the system says what is mapped, a line each: addresses, rights, offset, device, inode, path.
const MAPS: &str = "/proc/self/maps";
/// The rights of code: it is read and executed, never written, and not shared.
const CODE: &str = "r-xp";

/// Gives the pages of the program's own code back. The system keeps them in its cache, maps those that
/// run on again, and needs no reading for that. A start runs code all over the program once, and for
/// each place the system maps sixteen pages: for a program that then waits they are the larger part
/// of what it holds.
///
/// Returns how many bytes of code the process may have given back. Breakpoints that a debugger set in
/// them before are gone, too.
///
/// # Errors
///
/// Fails if the system does not say what is mapped; then nothing is given back.
pub fn unmap_code() -> io::Result<usize> {
    let program = fs::read_link("/proc/self/exe")?;
    let maps = fs::read_to_string(MAPS)?;
    let mut bytes = 0;
    for range in maps.lines().filter_map(|line| code_of(line, &program)) {
        // SAFETY: the range was mapped from the program's file, without the right to write, and stays
        // mapped until the process ends: it is what runs. Its pages are as they are in the file,
        // which the system lets nobody write while it runs, so what is read of them afterwards is
        // what was there before. The system itself takes such pages back whenever it needs memory.
        let done = unsafe {
            let start = std::ptr::with_exposed_provenance_mut(range.start);
            libc::madvise(start, range.len(), libc::MADV_DONTNEED)
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        bytes += range.len();
    }
    Ok(bytes)
}

/// The addresses of a line of the maps, if it is about code of this program.
fn code_of(line: &str, program: &Path) -> Option<Range<usize>> {
    let (addresses, rest) = line.split_once(' ')?;
    let mut fields = rest.splitn(5, ' ');
    let is_code = fields.next() == Some(CODE);
    // Blanks before the path make a column of it.
    let path = fields.nth(3)?.trim_start();
    let (start, end) = addresses.split_once('-')?;
    let address = |digits| usize::from_str_radix(digits, 16).ok();
    (is_code && Path::new(path) == program).then_some(address(start)?..address(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_what_the_program_may_execute_and_nobody_may_write() {
        let program = Path::new("/usr/bin/a b");
        let line = |rights: &str, path: &str| {
            format!("5610a000-5610c000 {rights} 00001000 fe:00 131                        {path}")
        };
        let is_code = |rights, path| code_of(&line(rights, path), program);
        assert_eq!(
            is_code("r-xp", "/usr/bin/a b"),
            Some(0x5610_a000..0x5610_c000)
        );
        // Constants, with the table of addresses that were set when it was loaded; data; a library.
        assert_eq!(is_code("r--p", "/usr/bin/a b"), None);
        assert_eq!(is_code("rw-p", "/usr/bin/a b"), None);
        assert_eq!(is_code("r-xp", "/usr/lib/libc.so.6"), None);
        assert_eq!(
            code_of("7ffd1000-7ffd3000 r-xp 00000000 00:00 0", program),
            None
        );
        assert_eq!(code_of("", program), None);
    }

    #[test]
    fn a_program_runs_on_without_the_pages_of_its_code() {
        let resident = || {
            let maps = fs::read_to_string("/proc/self/smaps").unwrap();
            let program = fs::read_link("/proc/self/exe").unwrap();
            let mut lines = maps.lines();
            lines
                .find(|line| code_of(line, &program).is_some())
                .unwrap();
            let line = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
            let kilobytes = line.trim().strip_suffix(" kB").unwrap();
            kilobytes.parse::<usize>().unwrap()
        };
        let before = resident();
        assert!(unmap_code().unwrap() >= before << 10);
        assert!(resident() <= before);
    }
}
