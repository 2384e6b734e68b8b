//! What slow readers cost. A reader's view keeps pages from reuse that no newer state needs.

/// Views hold back much from one part in this many of the file on, and from so many bytes on.
const MUCH_PART: u64 = 16;
const MUCH_BYTES: u64 = 16 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBack {
    Little,
    /// The file is longer because of it.
    Much,
    /// The disk is full, or nearly.
    Needed,
}

impl HeldBack {
    /// Views hold back `held_bytes` of a file of `file_bytes`. `is_short`: the disk is.
    pub fn of(held_bytes: u64, file_bytes: u64, is_short: bool) -> HeldBack {
        if held_bytes > 0 && is_short {
            HeldBack::Needed
        } else if held_bytes >= (file_bytes / MUCH_PART).max(MUCH_BYTES) {
            HeldBack::Much
        } else {
            HeldBack::Little
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_measured_by_the_file_and_by_the_need() {
        const MIB: u64 = 1 << 20;
        let of = |held, file, short| HeldBack::of(held * MIB, file * MIB, short);
        assert_eq!(of(49, 800, false), HeldBack::Little);
        assert_eq!(of(50, 800, false), HeldBack::Much);
        assert_eq!(of(15, 20, false), HeldBack::Little);
        assert_eq!(of(16, 20, false), HeldBack::Much);
        assert_eq!(of(1, 800, true), HeldBack::Needed);
        assert_eq!(of(0, 800, true), HeldBack::Little);
    }
}
