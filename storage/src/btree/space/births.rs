//! When each run of the file was allocated.

use std::fmt;

/// Places in a piece of [`Births`]: 16 KiB of memory for each 16 MiB of file written to.
const BIRTHS_PER_PIECE: usize = 1 << 12;

/// The generation in which the run that begins at a unit was allocated; 0: before all views.
#[derive(Default)]
pub(super) struct Births {
    /// Generation of runs allocated now.
    pub(super) now: u32,
    pieces: Vec<Option<Box<[u32]>>>,
}

impl fmt::Debug for Births {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Births(now {})", self.now)
    }
}

impl Births {
    fn place(unit: u64) -> (usize, usize) {
        let unit = unit as usize;
        (unit / BIRTHS_PER_PIECE, unit % BIRTHS_PER_PIECE)
    }

    pub(super) fn note(&mut self, unit: u64) {
        let (piece, at) = Births::place(unit);
        if piece >= self.pieces.len() {
            self.pieces.resize_with(piece + 1, || None);
        }
        let piece = self.pieces[piece].get_or_insert_with(|| vec![0; BIRTHS_PER_PIECE].into());
        piece[at] = self.now;
    }

    pub(super) fn of(&self, unit: u64) -> u64 {
        let (piece, at) = Births::place(unit);
        let piece = self.pieces.get(piece).and_then(Option::as_ref);
        piece.map_or(0, |piece| u64::from(piece[at]))
    }
}
