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
/// The rights of constants, and where in the file they are. Constants that were changed when the
/// program was loaded have the same rights, but are never at the beginning of the file.
const CONSTANTS: (&str, &str) = ("r--p", "00000000");

/// Gives the pages of the program's own code and constants back. The system keeps them in its cache.
/// If a page is used again, it is mapped from there, and not read. A start runs code all over the
/// program once, and for each place the system maps sixteen pages. If the program then waits, they
/// are the larger part of what it holds.
///
/// Returns how many bytes the process may have given back. Breakpoints that a debugger set in them
/// before are gone, too.
///
/// # Errors
///
/// Fails if the system does not say what is mapped; then nothing is given back.
pub fn unmap_program() -> io::Result<usize> {
    let program = fs::read_link("/proc/self/exe")?;
    let maps = fs::read_to_string(MAPS)?;
    let mut bytes = 0;
    for range in maps.lines().filter_map(|line| unchanged(line, &program)) {
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

/// The addresses of a line of the maps, if it is about what this program's file has there.
fn unchanged(line: &str, program: &Path) -> Option<Range<usize>> {
    let mut fields = line.splitn(6, ' ');
    let (addresses, rights, offset) = (fields.next()?, fields.next()?, fields.next()?);
    // Blanks before the path make a column of it.
    let path = fields.nth(2)?.trim_start();
    let (start, end) = addresses.split_once('-')?;
    let address = |digits| usize::from_str_radix(digits, 16).ok();
    let is_unchanged = rights == CODE || (rights, offset) == CONSTANTS;
    (is_unchanged && Path::new(path) == program).then_some(address(start)?..address(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_as_in_the_file() {
        let program = Path::new("/usr/bin/a b");
        let given_back = |rest: &str| {
            let line = format!("5610a000-5610c000 {rest}");
            unchanged(&line, program).map(|range| (range.start, range.end))
        };
        let both = Some((0x5610_a000, 0x5610_c000));
        let column = " ".repeat(25);
        let code = format!("r-xp 00001000 fe:00 131 {column}/usr/bin/a b");
        assert_eq!(given_back(&code), both);
        let constants = format!("r--p 00000000 fe:00 131 {column}/usr/bin/a b");
        assert_eq!(given_back(&constants), both);
        for other in [
            "r--p 00001000 fe:00 131 /usr/bin/a b",
            "rw-p 00001000 fe:00 131 /usr/bin/a b",
            "r-xp 00001000 fe:00 131 /usr/lib/libc.so.6",
            "r-xp 00000000 00:00 0 [vdso]",
            "r-xp 00000000 00:00 0",
            "",
        ] {
            assert_eq!(given_back(other), None, "{other}");
        }
    }

    #[test]
    fn a_program_runs_on_without_its_pages() {
        let resident = || {
            let maps = fs::read_to_string("/proc/self/smaps").unwrap();
            let program = fs::read_link("/proc/self/exe").unwrap();
            let (mut all, mut is_counted) = (0, false);
            for line in maps.lines() {
                if let Some(kilobytes) = line.strip_prefix("Rss:") {
                    let kilobytes = kilobytes.trim().strip_suffix(" kB").unwrap();
                    all += usize::from(is_counted) * kilobytes.parse::<usize>().unwrap();
                } else if !line.split(' ').next().unwrap().ends_with(':') {
                    is_counted = unchanged(line, &program).is_some();
                }
            }
            all << 10
        };
        let before = resident();
        assert!(before > 0);
        assert!(unmap_program().unwrap() >= before);
        assert!(resident() <= before);
    }
}
