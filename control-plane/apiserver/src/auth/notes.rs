//! What authentication has to say besides the user: for the audit log, and to the client.

use parking_lot::Mutex;

/// What was noted for one request.
#[derive(Debug, Default)]
pub struct Notes(Mutex<Noted>);

/// Annotations of the audit log by their keys, and warnings.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// Keys and values.
    pub annotations: Vec<(&'static str, String)>,
    /// Texts for the client.
    pub warnings: Vec<String>,
}

impl Notes {
    pub(crate) fn annotate(&self, key: &'static str, value: String) {
        self.0.lock().annotations.push((key, value));
    }

    pub(crate) fn warn(&self, text: &str) {
        self.0.lock().warnings.push(text.to_owned());
    }

    /// Takes everything out.
    pub fn take(&self) -> Noted {
        std::mem::take(&mut self.0.lock())
    }
}
