//! When each run of the file was allocated.

use std::fmt;

/// Places in a piece of [`Births`]: 16 KiB of memory for each 16 MiB of file written to since the
/// oldest view.
const BIRTHS_PER_PIECE: usize = 1 << 12;

/// The generation in which the run that begins at a unit was allocated; 0: before all views.
#[derive(Default)]
pub(super) struct Births {
    /// Generation of runs allocated now.
    pub(super) now: u32,
    pieces: Vec<Option<Piece>>,
}

struct Piece {
    births: Box<[u32]>,
    newest: u32,
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
        let piece = self.pieces[piece].get_or_insert_with(|| Piece {
            births: vec![0; BIRTHS_PER_PIECE].into(),
            newest: 0,
        });
        piece.births[at] = self.now;
        piece.newest = piece.newest.max(self.now);
    }

    pub(super) fn of(&self, unit: u64) -> u64 {
        let (piece, at) = Births::place(unit);
        let piece = self.pieces.get(piece).and_then(Option::as_ref);
        piece.map_or(0, |piece| u64::from(piece.births[at]))
    }

    /// No view is left from before generation `oldest`: what was allocated by then may count as
    /// allocated before all views.
    pub(super) fn forget_through(&mut self, oldest: u64) {
        let is_old = |piece: &Piece| u64::from(piece.newest) <= oldest;
        for piece in &mut self.pieces {
            if piece.as_ref().is_some_and(is_old) {
                *piece = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_all_views_takes_no_memory() {
        const FAR: u64 = 2 * BIRTHS_PER_PIECE as u64;
        let mut births = Births::default();
        for (now, unit) in [(3, 7), (3, FAR), (5, 8)] {
            births.now = now;
            births.note(unit);
        }
        let mut left_after = |oldest| {
            births.forget_through(oldest);
            let pieces = births.pieces.iter().flatten().count();
            (pieces, [7, 8, FAR].map(|unit| births.of(unit)))
        };
        assert_eq!(left_after(2), (2, [3, 5, 3]));
        assert_eq!(left_after(3), (1, [3, 5, 0]));
        assert_eq!(left_after(5), (0, [0, 0, 0]));
        births.note(8);
        assert_eq!(births.of(8), 5);
    }
}
