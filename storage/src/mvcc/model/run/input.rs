//! A program as bytes: numbers, keys and ranges are taken from the front.

/// Keys in all the ways two keys can be near each other. One looks like another key with a revision
/// appended.
const KEYS: [&[u8]; 16] = [
    b"\0",
    b"a",
    b"a\0",
    b"a\0\0\0\0\0\0\0\0\0\0\0\0",
    b"a\xff\xff\xff\xff\xff\xff\xff\xfd\xff\xff\xff\xff",
    b"a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    b"aa",
    b"ab",
    b"b",
    b"ba",
    b"registry/pods/default/one",
    b"registry/pods/default/two",
    b"registry/pods/default/two-and-a-half",
    b"registry/services",
    b"\xff",
    b"\xff\xff",
];

/// Bytes taken one by one; zeros after the end.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl Input<'_> {
    pub(super) fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        byte
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        let number = usize::from(self.byte()) << 8 | usize::from(self.byte());
        number % n
    }

    pub(super) fn key(&mut self) -> Vec<u8> {
        match self.below(4) {
            0 => format!("k{:03}", self.below(400)).into_bytes(),
            1 => format!("k{:03}", self.below(20)).into_bytes(),
            _ => KEYS[self.below(KEYS.len())].to_vec(),
        }
    }

    pub(super) fn value(&mut self) -> Vec<u8> {
        let len = match self.byte() {
            0 => 20_000,
            1..8 => 3_000,
            small => usize::from(small / 2),
        };
        vec![self.byte(); len]
    }

    /// A key and a range end, in wire form.
    pub(super) fn range(&mut self) -> (Vec<u8>, Vec<u8>) {
        let key = self.key();
        match self.below(4) {
            0 => (key, Vec::new()),
            1 => (key, vec![0]),
            2 => (Vec::new(), vec![0]),
            _ => {
                let other = self.key();
                // Sometimes the wrong way round: an empty range.
                if self.byte() < 16 {
                    (other, key)
                } else {
                    (key.clone().min(other.clone()), key.max(other))
                }
            }
        }
    }
}
