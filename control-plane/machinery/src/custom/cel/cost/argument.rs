//! What is known of the argument of a call before it has a value.

use super::range::Range;
use crate::custom::cel::syntax::ast::Expr;
use crate::custom::cel::types::Type;
use crate::custom::cel::types::shape::Shape;

/// What an estimate knows of an argument.
pub(crate) struct Argument<'a> {
    pub(crate) expr: Option<&'a Expr>,
    pub(crate) found: &'a Type,
    pub(crate) path: Vec<String>,
    pub(crate) size: Option<Range>,
}

/// The size of what a path leads to: its first step is a variable.
pub(crate) fn size_at(root: Option<&Shape>, path: &[String]) -> Option<Range> {
    let place = root?.at(path.get(1..)?)?;
    Some(Range {
        min: 0,
        max: place.elements_max(),
    })
}
