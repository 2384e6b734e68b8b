//! What an estimate knows of expressions: where their values are in an object, and how large they
//! are.

use super::{Coster, Entries, Local};
use crate::custom::cel::cost::argument::{Argument, size_at};
use crate::custom::cel::cost::range::Range;
use crate::custom::cel::syntax::ast::{Expr, ExprKind, Literal};
use crate::custom::cel::syntax::macros::ACCU;
use crate::custom::cel::types::Type;

impl<'a> Coster<'a> {
    /// Notes the sizes that the items of a result have, if both arguments' are known.
    pub(super) fn join_entries(&mut self, expr: &Expr, arguments: &[Argument]) {
        let mut both = arguments
            .iter()
            .map(|one| one.expr.and_then(|expr| self.entries_of(expr)));
        if let (Some(Some(one)), Some(Some(other))) = (both.next(), both.next()) {
            let entries = Entries {
                is_list: one.is_list,
                key: one.key.union(other.key),
                value: one.value.union(other.value),
            };
            self.entries.insert(expr.id, entries);
        }
    }

    pub(super) fn bound(&mut self, name: &str, value: &Expr) -> Local {
        Local {
            name: name.to_owned(),
            path: self.path(value),
            size: self.size(value),
            entries: self.entries_of(value),
        }
    }

    pub(super) fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    pub(super) fn found(&self, expr: &Expr) -> &'a Type {
        &self.checked.types[expr.id]
    }

    pub(super) fn path(&self, expr: &Expr) -> Vec<String> {
        if let ExprKind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    pub(super) fn argument(&mut self, expr: &'a Expr) -> Argument<'a> {
        let mut path = self.path(expr);
        if path.first().is_some_and(|first| first == ACCU) {
            path.clear();
        }
        Argument {
            expr: Some(expr),
            found: self.found(expr),
            path,
            size: self.size(expr),
        }
    }

    pub(super) fn size_or_unknown(&mut self, expr: &Expr) -> Range {
        self.size(expr).unwrap_or(Range::UNKNOWN)
    }

    pub(super) fn size(&mut self, expr: &Expr) -> Option<Range> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        let length = |count: usize| Some(Range::of(count as u64));
        match &expr.kind {
            ExprKind::Literal(Literal::String(text)) => return length(text.chars().count()),
            ExprKind::Literal(Literal::Bytes(bytes)) => return length(bytes.len()),
            ExprKind::Literal(_) => return length(1),
            ExprKind::List(items) => return length(items.len()),
            ExprKind::Map(entries) => return length(entries.len()),
            _ => {}
        }
        if let Some(size) = size_at(self.root, &self.path(expr)) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(self.found(expr)) {
            return Some(Range::of(1));
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    pub(super) fn entries_of(&self, expr: &Expr) -> Option<Entries> {
        if let Some(entries) = self.entries.get(&expr.id) {
            return Some(*entries);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.entries,
            _ => None,
        }
    }

    pub(super) fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to.id, size);
        }
        if let Some(entries) = self.entries_of(from) {
            self.entries.insert(to.id, entries);
        }
    }
}

fn is_scalar(found: &Type) -> bool {
    matches!(
        found,
        Type::Bool | Type::Int | Type::Uint | Type::Double | Type::Duration | Type::Timestamp
    )
}
