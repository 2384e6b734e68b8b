//! What the bytes of a node must be, before anything reads or edits them.

use super::{
    CHILD_BYTES, HEADER, LENGTHS, LENGTHS_LONG, LONG, MAGIC, PREFIX_LENGTH, PREFIXED, Page, SLOT,
    UNIT, VERSION, VERSION_OF_PREFIX, VERSION_OLDEST, at, hint, is_short, tail_len, u16_at, u32_at,
};
use crate::btree::kind::{KeyOrder, TreeKind};
use crate::btree::{LEVELS_MAX, SUFFIX_BYTES};

/// What is wrong with a page, and at which byte of it.
pub(crate) type Flaw = (usize, &'static str);

/// Checks that `bytes` (a whole run) are a node of this tree and level. After that every read
/// through [`Page`] stays inside, and so does every edit.
pub(crate) fn validate(bytes: &[u8], kind: &TreeKind, level: u8) -> Result<(), Flaw> {
    if bytes.len() < UNIT || !bytes.len().is_multiple_of(UNIT) {
        return Err((0, "page run of no whole number of units"));
    }
    let page = Page(bytes);
    validate_header(page, kind, level)?;
    validate_prefix(page)?;
    let (count, heap) = (page.count(), page.heap());
    let end = bytes.len() - tail_len(page.prefix().len());
    if heap > end {
        return Err((at::HEAP, "heap outside of the page"));
    }
    let mut beginning = Beginning::of(page, kind);
    let mut live = 0usize;
    for i in 0..count {
        let slot = HEADER + SLOT * i;
        let offset = u32_at(bytes, slot) as usize;
        if offset < heap || offset + LENGTHS > end {
            return Err((slot, "slot outside of the heap"));
        }
        let long = u16_at(bytes, offset) == LONG;
        if long && offset + LENGTHS_LONG > end {
            return Err((offset, "cell reaches beyond the page"));
        }
        let (start, key, value) = page.cell_at(i);
        if start.saturating_add(key).saturating_add(value) > end {
            return Err((offset, "cell reaches beyond the page"));
        }
        // Editing relies on one form of lengths per content.
        if long == is_short(key, value) {
            return Err((offset, "cell with the wrong form of lengths"));
        }
        if level > 0 && value != CHILD_BYTES {
            return Err((offset, "branch entry of the wrong size"));
        }
        if level > 0 && i == 0 {
            if key != 0 {
                return Err((offset, "first branch entry with a bound"));
            }
        } else {
            let rest = &bytes[start..start + key];
            let checked = beginning.validate_key(rest, page.hint(i));
            checked.map_err(|what| (slot, what))?;
        }
        live += start - offset + key + value;
    }
    if live + page.dead() != end - heap {
        return Err((at::DEAD, "cells do not fill the heap"));
    }
    Ok(())
}

/// What the (user) keys of a page begin with, behind its prefix.
struct Beginning<'a> {
    order: KeyOrder,
    /// Length of the beginning.
    skip: usize,
    /// The beginning of the first key. `None` before that.
    bytes: Option<&'a [u8]>,
}

impl<'a> Beginning<'a> {
    fn of(page: Page<'a>, kind: &TreeKind) -> Beginning<'a> {
        Beginning {
            order: kind.order,
            skip: page.skip() - page.prefix().len(),
            bytes: None,
        }
    }

    /// Checks what the cell of an entry has of the key. Cells come in the order of their slots.
    fn validate_key(&mut self, rest: &'a [u8], hinted: u32) -> Result<(), &'static str> {
        if self.order == KeyOrder::KeyThenRevision && rest.len() < SUFFIX_BYTES {
            return Err("key without a revision");
        }
        let user = self.order.user_key(rest);
        let begins = match self.bytes {
            // Most pages leave out all that their keys begin with.
            Some(bytes) => bytes.is_empty() || user.starts_with(bytes),
            None => {
                self.bytes = user.get(..self.skip);
                self.bytes.is_some()
            }
        };
        if !begins {
            return Err("key that begins unlike others");
        }
        if hint(user, self.skip) != hinted {
            return Err("hint of another key");
        }
        Ok(())
    }
}

/// Checks that the prefix, if there is one, is inside the page.
fn validate_prefix(page: Page<'_>) -> Result<(), Flaw> {
    let bytes = page.0;
    if bytes[at::ORDER] & PREFIXED == 0 {
        return Ok(());
    }
    if bytes[at::VERSION] < VERSION_OF_PREFIX {
        return Err((at::ORDER, "prefix in a page of a version without"));
    }
    let end = bytes.len() - PREFIX_LENGTH;
    let prefix = u32_at(bytes, end) as usize;
    if prefix == 0 || prefix > end - HEADER || prefix > page.skip() {
        return Err((end, "prefix of an impossible length"));
    }
    Ok(())
}

fn validate_header(page: Page<'_>, kind: &TreeKind, level: u8) -> Result<(), Flaw> {
    let bytes = page.0;
    let checks = [
        (0, bytes[..4] == MAGIC, "not a tree page"),
        (
            at::VERSION,
            (VERSION_OLDEST..=VERSION).contains(&bytes[at::VERSION]),
            "unknown page format version",
        ),
        (at::TREE, page.tree() == kind.id, "page of another tree"),
        (
            at::ORDER,
            page.order() == kind.order,
            "page of another order of keys",
        ),
        (
            at::LEVEL,
            page.level() == level && level < LEVELS_MAX,
            "page of another level",
        ),
        (
            at::UNITS,
            page.units() as usize == bytes.len() / UNIT,
            "page of another length",
        ),
        (
            at::KEY_ID,
            bytes[at::KEY_ID..at::KEY_ID + 4] == [0; 4],
            "sealed page, and no key",
        ),
        (at::COUNT, page.count() > 0, "empty node"),
        (
            at::HEAP,
            page.heap() <= bytes.len(),
            "heap outside of the page",
        ),
        (
            at::COUNT,
            page.count().saturating_mul(SLOT).saturating_add(HEADER) <= page.heap(),
            "slots reach into the heap",
        ),
    ];
    match checks.into_iter().find(|(_, good, _)| !good) {
        Some((offset, _, what)) => Err((offset, what)),
        None => Ok(()),
    }
}
