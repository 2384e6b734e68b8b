//! Rules about the code itself: layers, lengths, licences. No server runs here.

pub(crate) mod layers;
pub(crate) mod licences;
pub(crate) mod tidy;
