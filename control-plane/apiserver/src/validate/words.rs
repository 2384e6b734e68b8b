//! The pieces that the rules of several kinds are made of: fields, names, numbers, addresses,
//! expressions. No kind has a rule here.

pub(crate) mod address;
pub(crate) mod causes;
pub(crate) mod conditions;
pub(crate) mod domain;
pub(crate) mod embedded;
pub(crate) mod expressions;
pub(crate) mod field;
pub(crate) mod maps;
pub(crate) mod old_labels;
pub(crate) mod port;
pub(crate) mod quantity;
pub(crate) mod selector;
pub(crate) mod shown;
pub(crate) mod status;
pub(crate) mod zone;
