//! The errors of an object, up to a bound: a body of a few megabytes can violate a rule a million
//! times, and the response would be hundreds of times its size.

use machinery::status::Cause;

/// Upper bound of the errors in one response.
const CAUSES_MAX: usize = 256;
/// No errors are added beyond this many bytes, because an error may show the whole input, or name a
/// field whose path is as long.
const CAUSES_BYTES_MAX: usize = 4 << 20;

/// Errors in the order of the fields.
#[derive(Debug, Default)]
pub(crate) struct Causes {
    all: Vec<Cause>,
    bytes: usize,
}

impl Causes {
    pub(crate) fn push(&mut self, cause: Cause) {
        if !self.is_full() {
            self.bytes += cause.field.len() + cause.message.len();
            self.all.push(cause);
        }
    }

    pub(crate) fn extend(&mut self, causes: impl IntoIterator<Item = Cause>) {
        let mut causes = causes.into_iter();
        while !self.is_full() {
            match causes.next() {
                Some(cause) => self.push(cause),
                None => break,
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Removes the errors that forbid a field for this reason.
    pub(crate) fn allow(&mut self, why: &str) {
        let text = Cause::forbidden("", why).message;
        self.all.retain(|cause| cause.message != text);
    }

    /// True if no more errors are added, so further checks are useless.
    pub(crate) fn is_full(&self) -> bool {
        self.all.len() == CAUSES_MAX || self.bytes > CAUSES_BYTES_MAX
    }
}

impl From<Cause> for Causes {
    fn from(cause: Cause) -> Causes {
        Causes::from_iter([cause])
    }
}

impl From<Causes> for Vec<Cause> {
    fn from(causes: Causes) -> Vec<Cause> {
        causes.all
    }
}

impl FromIterator<Cause> for Causes {
    fn from_iter<I: IntoIterator<Item = Cause>>(causes: I) -> Causes {
        let mut all = Causes::default();
        all.extend(causes);
        all
    }
}

impl IntoIterator for Causes {
    type Item = Cause;
    type IntoIter = std::vec::IntoIter<Cause>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.into_iter()
    }
}

#[test]
fn errors_are_added_up_to_a_bound_in_bytes() {
    let mut causes = Causes::default();
    let field = "f".repeat(1 << 20);
    causes.extend(std::iter::repeat_n(Cause::required(&field, ""), CAUSES_MAX));
    assert!(causes.is_full());
    assert_eq!(Vec::from(causes).len(), 4);
}
