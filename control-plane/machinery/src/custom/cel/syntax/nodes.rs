//! Makes the nodes of a tree, each with a number of its own.

use super::ast::{Expr, ExprKind};
use crate::custom::cel::issue::Issue;

/// The most levels of nesting.
pub(super) const DEPTH_MAX: usize = 250;
/// The most nodes of a tree that has copies of its own parts: copies of copies double it.
const NODES_MAX: usize = 200_000;

#[derive(Default)]
pub(crate) struct Nodes {
    /// The number of the next one.
    next: usize,
}

impl Nodes {
    pub(crate) fn node(&mut self, at: usize, kind: ExprKind) -> Result<Expr, Issue> {
        self.next += 1;
        let expr = Expr::new(self.next - 1, at, kind);
        if expr.depth > DEPTH_MAX {
            return Err(too_deep());
        }
        Ok(expr)
    }

    pub(crate) fn call(
        &mut self,
        at: usize,
        function: &str,
        arguments: Vec<Expr>,
    ) -> Result<Expr, Issue> {
        let kind = ExprKind::Call {
            function: function.to_owned(),
            target: None,
            arguments,
        };
        self.node(at, kind)
    }

    /// The same tree with nodes of its own.
    pub(crate) fn copy(&mut self, expr: &Expr) -> Result<Expr, Issue> {
        let mut count = self.next;
        expr.walk(&mut |_| count += 1);
        if count > NODES_MAX {
            return Err(Issue {
                at: None,
                message: format!("expression node limit exceeded: {NODES_MAX}"),
            });
        }
        let mut copy = expr.clone();
        self.renumber(&mut copy);
        Ok(copy)
    }

    fn renumber(&mut self, expr: &mut Expr) {
        self.next += 1;
        expr.id = self.next - 1;
        match &mut expr.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Message { fields, .. } => {
                fields
                    .iter_mut()
                    .for_each(|one| self.renumber(&mut one.value));
            }
            ExprKind::Select { operand, .. } => self.renumber(operand),
            ExprKind::Call {
                target, arguments, ..
            } => {
                target.iter_mut().for_each(|target| self.renumber(target));
                arguments.iter_mut().for_each(|one| self.renumber(one));
            }
            ExprKind::List(items) => items.iter_mut().for_each(|(_, item)| self.renumber(item)),
            ExprKind::Map(entries) => entries.iter_mut().for_each(|entry| {
                self.renumber(&mut entry.key);
                self.renumber(&mut entry.value);
            }),
            ExprKind::Fold(fold) => {
                self.renumber(&mut fold.range);
                self.renumber(&mut fold.init);
                self.renumber(&mut fold.condition);
                self.renumber(&mut fold.step);
                self.renumber(&mut fold.result);
            }
        }
    }
}

pub(super) fn too_deep() -> Issue {
    Issue {
        at: None,
        message: format!("expression recursion limit exceeded: {DEPTH_MAX}"),
    }
}
