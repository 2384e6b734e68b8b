//! From text to a tree: tokens, expressions, macros. Knows neither types nor values.

pub(super) mod ast;
pub(super) mod lex;
pub(super) mod macros;
mod nodes;
pub(super) mod parse;
