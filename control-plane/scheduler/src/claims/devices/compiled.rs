//! Selectors as they were compiled: most claims are made from a few templates, and have the same.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use machinery::cel::devices::{Selector, Unfit};

/// Upper bound of the selectors that are kept; when it is reached, all are dropped.
const KEPT_MAX: usize = 256;
/// The same of what their patterns take, in bytes.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// Compiled selectors by their texts.
#[derive(Debug, Default)]
pub(super) struct Compiled(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// Each with what its patterns take.
    selectors: HashMap<String, (Arc<Selector>, usize)>,
    /// What all of their patterns take.
    bytes: usize,
}

impl Compiled {
    /// A selector, compiled now or before. In both cases it takes the same of `left`, the bytes
    /// that patterns may take.
    pub(super) fn get(&self, source: &str, left: &mut usize) -> Result<Arc<Selector>, Unfit> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((selector, bytes)) = kept.selectors.get(source)
            && *bytes <= *left
        {
            *left -= *bytes;
            return Ok(Arc::clone(selector));
        }
        let before = *left;
        let selector = Arc::new(Selector::new(source, left)?);
        let bytes = before - *left;
        if kept.selectors.len() >= KEPT_MAX || kept.bytes + bytes > KEPT_BYTES_MAX {
            *kept = Kept::default();
        }
        kept.bytes += bytes;
        let one = (Arc::clone(&selector), bytes);
        kept.selectors.insert(source.to_owned(), one);
        Ok(selector)
    }
}
