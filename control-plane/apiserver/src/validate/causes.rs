//! What is wrong with an object, told up to a bound: a body of a few megabytes can break a rule a
//! million times, and the answer would be hundreds of times as large as what was sent.

use machinery::status::Cause;

/// The most causes of one answer.
const CAUSES_MAX: usize = 256;

/// What is wrong, in the order of the fields.
#[derive(Debug, Default)]
pub(crate) struct Causes(Vec<Cause>);

impl Causes {
    pub(crate) fn push(&mut self, cause: Cause) {
        if !self.is_full() {
            self.0.push(cause);
        }
    }

    pub(crate) fn extend(&mut self, causes: impl IntoIterator<Item = Cause>) {
        let room = CAUSES_MAX - self.0.len();
        self.0.extend(causes.into_iter().take(room));
    }

    /// Leaves out what is forbidden for this reason alone.
    pub(crate) fn allow(&mut self, why: &str) {
        let text = Cause::forbidden("", why).message;
        self.0.retain(|cause| cause.message != text);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether nothing more will be told, so that looking for more is vain.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() == CAUSES_MAX
    }
}

impl From<Cause> for Causes {
    fn from(cause: Cause) -> Causes {
        Causes(vec![cause])
    }
}

impl From<Causes> for Vec<Cause> {
    fn from(causes: Causes) -> Vec<Cause> {
        causes.0
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
        self.0.into_iter()
    }
}
