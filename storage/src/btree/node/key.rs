//! Keys of a page: how they compare, and their two parts.

use std::cmp::Ordering;

use crate::btree::SUFFIX_BYTES;
use crate::btree::kind::KeyOrder;

/// A key of a page: the bytes with which all (user) keys of the page begin, and the rest. Without a
/// prefix the rest is the key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Key<'a> {
    pub(super) prefix: &'a [u8],
    pub(super) rest: &'a [u8],
}

impl<'a> From<&'a [u8]> for Key<'a> {
    fn from(key: &'a [u8]) -> Key<'a> {
        Key {
            prefix: &[],
            rest: key,
        }
    }
}

impl<'a> Key<'a> {
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.prefix.len() + self.rest.len()
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.len() == 0
    }

    pub(crate) fn to_vec(self) -> Vec<u8> {
        [self.prefix, self.rest].concat()
    }

    /// The key without so many of its first bytes.
    #[inline]
    pub(super) fn after(self, at: usize) -> Key<'a> {
        let of_prefix = at.min(self.prefix.len());
        Key {
            prefix: &self.prefix[of_prefix..],
            rest: &self.rest[at - of_prefix..],
        }
    }

    /// So many of the key's first bytes.
    pub(super) fn up_to(self, at: usize) -> Key<'a> {
        let of_prefix = at.min(self.prefix.len());
        Key {
            prefix: &self.prefix[..of_prefix],
            rest: &self.rest[..at - of_prefix],
        }
    }

    /// The key's last `N` bytes and those before; `None` if it is shorter, or if the prefix reaches
    /// into them.
    #[inline]
    pub(crate) fn split_last_chunk<const N: usize>(self) -> Option<(Key<'a>, &'a [u8; N])> {
        let (rest, last) = self.rest.split_last_chunk()?;
        let prefix = self.prefix;
        Some((Key { prefix, rest }, last))
    }

    fn bytes(self) -> impl Iterator<Item = &'a u8> {
        self.prefix.iter().chain(self.rest)
    }

    /// The key, if it is in one piece.
    #[inline]
    pub(crate) fn as_slice(self) -> Option<&'a [u8]> {
        self.prefix.is_empty().then_some(self.rest)
    }

    #[inline]
    pub(crate) fn join_into(self, buffer: &mut Vec<u8>) {
        buffer.clear();
        buffer.extend_from_slice(self.prefix);
        buffer.extend_from_slice(self.rest);
    }

    /// How it compares with another key, both as bytes.
    #[inline]
    fn cmp_bytes(self, other: &[u8]) -> Ordering {
        let (head, tail) = other.split_at(self.prefix.len().min(other.len()));
        self.prefix.cmp(head).then_with(|| self.rest.cmp(tail))
    }
}

impl PartialEq<[u8]> for Key<'_> {
    #[inline]
    fn eq(&self, other: &[u8]) -> bool {
        self.len() == other.len() && self.cmp_bytes(other).is_eq()
    }
}

impl KeyOrder {
    #[inline]
    pub(crate) fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            KeyOrder::Bytes => a.cmp(b),
            KeyOrder::KeyThenRevision => {
                let (a_key, a_suffix) = a.split_at(a.len() - SUFFIX_BYTES);
                let (b_key, b_suffix) = b.split_at(b.len() - SUFFIX_BYTES);
                a_key.cmp(b_key).then_with(|| a_suffix.cmp(b_suffix))
            }
        }
    }

    /// The same for a key of a page.
    #[inline]
    pub(crate) fn compare_key(self, a: Key<'_>, b: &[u8]) -> Ordering {
        match self {
            KeyOrder::Bytes => a.cmp_bytes(b),
            KeyOrder::KeyThenRevision => {
                let (a_rest, a_suffix) = a.rest.split_at(a.rest.len() - SUFFIX_BYTES);
                let (b_key, b_suffix) = b.split_at(b.len() - SUFFIX_BYTES);
                let a_key = Key { rest: a_rest, ..a };
                a_key.cmp_bytes(b_key).then_with(|| a_suffix.cmp(b_suffix))
            }
        }
    }

    /// The part of a key, or of its rest, from which hints are made.
    #[inline]
    pub(crate) fn user_key(self, key: &[u8]) -> &[u8] {
        &key[..key.len() - self.suffix_bytes()]
    }

    /// Its number in page headers.
    pub(crate) fn code(self) -> u8 {
        match self {
            KeyOrder::Bytes => 0,
            KeyOrder::KeyThenRevision => 1,
        }
    }

    /// A short key with `left < key <= right`, for a branch.
    pub(crate) fn separator(self, left: &[u8], right: &[u8]) -> Vec<u8> {
        match self {
            KeyOrder::Bytes => right[..shared(left, right) + 1].to_vec(),
            KeyOrder::KeyThenRevision => {
                let left = &left[..left.len() - SUFFIX_BYTES];
                let (key, suffix) = right.split_at(right.len() - SUFFIX_BYTES);
                if left == key {
                    return [key, suffix].concat();
                }
                // The smallest suffix makes the shortened key the first one with that user key.
                [&key[..shared(left, key) + 1], &[0; SUFFIX_BYTES]].concat()
            }
        }
    }

    /// Bytes with which the (user) keys of both begin.
    pub(super) fn shared(self, a: Key<'_>, b: Key<'_>) -> usize {
        let bytes = |key: Key<'_>| key.len() - self.suffix_bytes();
        let most = bytes(a).min(bytes(b));
        let same = if a.prefix == b.prefix {
            a.prefix.len() + shared(a.rest, b.rest)
        } else {
            let pairs = a.bytes().zip(b.bytes());
            pairs.take_while(|(x, y)| x == y).count()
        };
        same.min(most)
    }

    fn suffix_bytes(self) -> usize {
        match self {
            KeyOrder::Bytes => 0,
            KeyOrder::KeyThenRevision => SUFFIX_BYTES,
        }
    }
}

/// Length of the common prefix, in bytes.
pub(crate) fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// The hint of a key; `user` is the part before any suffix.
#[inline]
pub(crate) fn hint(user: &[u8], skip: usize) -> u32 {
    // Without a copy of so many bytes into an array: to read that as a word at once, the processor
    // would wait until the copy is done.
    match *user.get(skip..).unwrap_or(&[]) {
        [a, b, c, d, ..] => u32::from_be_bytes([a, b, c, d]),
        [a, b, c] => u32::from_be_bytes([a, b, c, 0]),
        [a, b] => u32::from_be_bytes([a, b, 0, 0]),
        [a] => u32::from_be_bytes([a, 0, 0, 0]),
        [] => 0,
    }
}
