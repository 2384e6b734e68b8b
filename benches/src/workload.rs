//! The data for the benches of all layers: 32 B keys and 256 B values from a seed, so that two runs
//! do the same work and show it with the same checksum.

use testkit::Rng;

pub const KEY_BYTES: usize = 32;
pub const VALUE_BYTES: usize = 256;
/// The last bytes of a key are its number.
const NUMBER_BYTES: usize = 8;

/// The amount of work: all with `--bench`, which `cargo bench` passes; a little in tests.
pub fn scaled(full: u64) -> u64 {
    const SMALL: u64 = 500;
    if std::env::args().any(|arg| arg == "--bench") && !std::env::args().any(|arg| arg == "--test")
    {
        full
    } else {
        full.min(SMALL)
    }
}

/// An endless stream of random keys from a fixed space.
#[derive(Clone, Debug)]
pub struct Keys {
    random: Rng,
    space: u64,
}

impl Keys {
    pub fn new(seed: u64, space: u64) -> Keys {
        Keys {
            random: Rng::new(seed),
            space,
        }
    }

    pub fn next_key(&mut self) -> [u8; KEY_BYTES] {
        let number = self.next_number();
        key(number)
    }

    /// A random number below the size of the space.
    pub fn next_number(&mut self) -> u64 {
        self.random.below(self.space)
    }
}

/// The key with this number; keys sort like their numbers.
pub fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = *b"/registry/things/0000/\0\0\0\0\0\0\0\0\0\0";
    key[KEY_BYTES - NUMBER_BYTES..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The same in `bytes` bytes, at least [`KEY_BYTES`]: what all keys begin with is longer.
pub fn long_key(number: u64, bytes: usize) -> Vec<u8> {
    let short = key(number);
    let (prefix, number) = short.split_at(KEY_BYTES - NUMBER_BYTES);
    let mut long = Vec::with_capacity(bytes);
    long.extend_from_slice(prefix);
    long.resize(bytes - NUMBER_BYTES, 0);
    long.extend_from_slice(number);
    long
}

pub fn value(number: u64) -> [u8; VALUE_BYTES] {
    let mut value = [b'v'; VALUE_BYTES];
    value[..8].copy_from_slice(&number.to_be_bytes());
    value
}

/// Combines results into one number (FNV-1a), so that the compiler cannot remove the work.
#[derive(Clone, Copy, Debug)]
pub struct Checksum(u64);

impl Default for Checksum {
    fn default() -> Checksum {
        Checksum(0xcbf2_9ce4_8422_2325)
    }
}

impl Checksum {
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub fn number(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_the_same_keys_again() {
        let draw = |seed| -> Vec<_> {
            let mut keys = Keys::new(seed, 1000);
            (0..5).map(|_| keys.next_key()).collect()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn keys_sort_as_their_numbers_do() {
        assert!(key(255) < key(256) && key(0) < key(u64::MAX));
    }

    #[test]
    fn keys_of_any_length_sort_as_their_numbers_do_and_differ_at_their_end() {
        for bytes in [KEY_BYTES, KEY_BYTES + 1, 500, 1024] {
            let keys = [0, 1, 255, 256, u64::MAX].map(|number| long_key(number, bytes));
            assert!(keys.iter().all(|key| key.len() == bytes));
            assert!(keys.is_sorted_by(|one, next| one < next));
            let prefix = &keys[0][..bytes - NUMBER_BYTES];
            assert!(keys.iter().all(|key| key.starts_with(prefix)));
        }
        assert_eq!(long_key(7, KEY_BYTES), key(7));
    }
}
