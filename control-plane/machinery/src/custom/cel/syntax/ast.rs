//! Expressions as trees.

/// A node of an expression.
#[derive(Debug, Clone)]
pub(crate) struct Expr {
    /// Unique within the expression.
    pub(crate) id: usize,
    /// Where it is in the source, in characters.
    pub(crate) at: usize,
    /// How many nodes the longest way to a leaf has.
    pub(crate) depth: usize,
    pub(crate) kind: ExprKind,
}

#[derive(Debug, Clone)]
pub(crate) enum ExprKind {
    Literal(Literal),
    Ident(String),
    /// A field; with `test`, whether there is one.
    Select {
        operand: Box<Expr>,
        field: String,
        test: bool,
    },
    Call {
        function: String,
        target: Option<Box<Expr>>,
        arguments: Vec<Expr>,
    },
    /// Items; one that is marked as optional is left out if it has no value.
    List(Vec<(bool, Expr)>),
    Map(Vec<Entry>),
    /// A message of a named type. Only expressions that make patches have such types.
    Message {
        name: String,
        fields: Vec<MessageField>,
    },
    Fold(Box<Fold>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

/// A field of a message; one that is marked as optional is left out if it has no value.
#[derive(Debug, Clone)]
pub(crate) struct MessageField {
    /// Where its colon is in the source, in characters.
    pub(crate) at: usize,
    pub(crate) optional: bool,
    pub(crate) name: String,
    pub(crate) value: Expr,
}

/// An entry of a map.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) optional: bool,
    pub(crate) key: Expr,
    pub(crate) value: Expr,
}

/// A loop over the items of a list or the keys of a map, which macros expand to.
#[derive(Debug, Clone)]
pub(crate) struct Fold {
    pub(crate) range: Expr,
    /// The variable of the item or key; with a second variable, of the index or key.
    pub(crate) var: String,
    /// The variable of the value.
    pub(crate) var2: Option<String>,
    /// The variable of what is accumulated.
    pub(crate) accu: String,
    pub(crate) init: Expr,
    /// The loop ends when it is false.
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

impl Expr {
    pub(crate) fn new(id: usize, at: usize, kind: ExprKind) -> Expr {
        let mut depth = 0;
        kind.each(&mut |inner| depth = depth.max(inner.depth));
        Expr {
            id,
            at,
            depth: depth + 1,
            kind,
        }
    }

    /// The name that a chain of fields spells, such as `a.b.c`.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            ExprKind::Ident(name) => Some(name.clone()),
            ExprKind::Select {
                operand,
                field,
                test: false,
            } => {
                let operand = operand.qualified_name()?;
                Some(format!("{operand}.{field}"))
            }
            _ => None,
        }
    }

    /// Whether it only gives a value a name: a loop without rounds.
    pub(crate) fn is_binding(fold: &Fold) -> bool {
        let is_empty = matches!(&fold.range.kind, ExprKind::List(items) if items.is_empty());
        let never = ExprKind::is_literal(&fold.condition.kind, &Literal::Bool(false));
        is_empty && never
    }

    /// Calls `visit` for this node and all below it, a node before its children.
    pub(crate) fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        visit(self);
        self.kind.each(&mut |inner| inner.walk(visit));
    }
}

impl ExprKind {
    pub(crate) fn is_literal(&self, literal: &Literal) -> bool {
        matches!(self, ExprKind::Literal(one) if one == literal)
    }

    /// Calls `visit` for each child.
    pub(crate) fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        match self {
            ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Message { fields, .. } => fields.iter().for_each(|one| visit(&one.value)),
            ExprKind::Select { operand, .. } => visit(operand),
            ExprKind::Call {
                target, arguments, ..
            } => {
                target.iter().for_each(|target| visit(target));
                arguments.iter().for_each(visit);
            }
            ExprKind::List(items) => items.iter().for_each(|(_, item)| visit(item)),
            ExprKind::Map(entries) => entries.iter().for_each(|entry| {
                visit(&entry.key);
                visit(&entry.value);
            }),
            ExprKind::Fold(fold) => {
                let parts = [
                    &fold.range,
                    &fold.init,
                    &fold.condition,
                    &fold.step,
                    &fold.result,
                ];
                parts.into_iter().for_each(visit);
            }
        }
    }
}
