//! Reads an expression.
//!
//! Each level of nesting costs stack, here and in every pass over the tree, so [`DEPTH_MAX`]
//! bounds the depth of the tree and of the parser.

mod primary;
mod tokens;

use super::ast::{Expr, ExprKind, Literal};
use super::lex::{self, Token, TokenKind};
use super::macros;
use super::nodes::{DEPTH_MAX, Nodes, too_deep};
use crate::custom::cel::issue::Issue;
use tokens::mismatch;

/// The longest expression, in characters.
const SOURCE_MAX: usize = 100_000;
/// What an expression may begin with, as errors list it.
const BEGINNINGS: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, \
                          NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
/// Words that are no names of variables.
pub(crate) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];
const RELATIONS: [&str; 7] = ["<", "<=", ">=", ">", "==", "!=", "in"];

/// Reads an expression and expands its macros.
pub(crate) fn parse(source: &str) -> Result<Expr, Issue> {
    let length = source.chars().count();
    if length > SOURCE_MAX {
        let message =
            format!("expression code point size exceeds limit: size: {length}, limit {SOURCE_MAX}");
        return Err(Issue { at: None, message });
    }
    let mut parser = Parser {
        tokens: lex::tokens(source)?,
        next: 0,
        depth: 0,
        nodes: Nodes::default(),
    };
    let expr = parser.expr()?;
    let token = parser.peek();
    if token.kind == TokenKind::End {
        return Ok(expr);
    }
    let is_last = parser.tokens.len() == parser.next + 2;
    let what = if is_last { "extraneous" } else { "mismatched" };
    let message = format!(
        "Syntax error: {what} input '{}' expecting <EOF>",
        token.text
    );
    Err(Issue::at(token.at, message))
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
    nodes: Nodes,
}

impl Parser {
    fn expr(&mut self) -> Result<Expr, Issue> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_deep());
        }
        let condition = self.logic("||")?;
        let expr = match self.take("?") {
            None => condition,
            Some(at) => {
                let yes = self.logic("||")?;
                self.expect(":")?;
                let no = self.expr()?;
                self.nodes.call(at, "_?_:_", vec![condition, yes, no])?
            }
        };
        self.depth -= 1;
        Ok(expr)
    }

    /// Terms between `||`, or between `&&` within them, as a balanced tree.
    fn logic(&mut self, operator: &str) -> Result<Expr, Issue> {
        let mut terms = Vec::new();
        let mut places = Vec::new();
        loop {
            terms.push(if operator == "||" {
                self.logic("&&")?
            } else {
                self.relation()?
            });
            let Some(at) = self.take(operator) else { break };
            places.push(at);
        }
        let function = format!("_{operator}_");
        self.balanced(&function, &mut terms.into_iter(), &places)
    }

    fn balanced(
        &mut self,
        function: &str,
        terms: &mut impl Iterator<Item = Expr>,
        places: &[usize],
    ) -> Result<Expr, Issue> {
        if places.is_empty() {
            return terms.next().ok_or_else(too_deep);
        }
        let middle = places.len() / 2;
        let left = self.balanced(function, terms, &places[..middle])?;
        let right = self.balanced(function, terms, &places[middle + 1..])?;
        self.nodes.call(places[middle], function, vec![left, right])
    }

    fn relation(&mut self) -> Result<Expr, Issue> {
        let mut left = self.sum()?;
        while let Some((mark, at)) = self.take_any(&RELATIONS) {
            let right = self.sum()?;
            let function = if mark == "in" {
                "@in".to_owned()
            } else {
                format!("_{mark}_")
            };
            left = self.nodes.call(at, &function, vec![left, right])?;
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Expr, Issue> {
        let mut left = self.product()?;
        while let Some((mark, at)) = self.take_any(&["+", "-"]) {
            let right = self.product()?;
            left = self
                .nodes
                .call(at, &format!("_{mark}_"), vec![left, right])?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expr, Issue> {
        let mut left = self.unary()?;
        while let Some((mark, at)) = self.take_any(&["*", "/", "%"]) {
            let right = self.unary()?;
            left = self
                .nodes
                .call(at, &format!("_{mark}_"), vec![left, right])?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, Issue> {
        let first = self.peek().at;
        for (mark, function) in [("!", "!_"), ("-", "-_")] {
            let mut count = 0;
            // The sign of a number is part of it.
            while self.is(mark) && !(mark == "-" && self.is_number_after()) {
                self.next += 1;
                count += 1;
            }
            if count > 0 {
                let operand = self.member()?;
                return if count % 2 == 0 {
                    Ok(operand)
                } else {
                    self.nodes.call(first, function, vec![operand])
                };
            }
        }
        self.member()
    }

    fn member(&mut self) -> Result<Expr, Issue> {
        let mut operand = self.primary()?;
        loop {
            if let Some(at) = self.take(".") {
                operand = self.field(operand, at)?;
            } else if let Some(at) = self.take("[") {
                let optional = self.take("?").is_some();
                if self.peek().kind == TokenKind::End && !optional {
                    let beginnings = BEGINNINGS.replace("'!', ", "'!', '?', ");
                    return Err(mismatch(self.peek(), &beginnings));
                }
                let index = self.expr()?;
                self.expect("]")?;
                let function = if optional { "_[?_]" } else { "_[_]" };
                operand = self.nodes.call(at, function, vec![operand, index])?;
            } else {
                return Ok(operand);
            }
        }
    }

    /// What follows the dot: a field, an optional field, a call or the rest of a message's name.
    fn field(&mut self, operand: Expr, at: usize) -> Result<Expr, Issue> {
        let optional = self.take("?").is_some();
        let token = self.peek().clone();
        if !matches!(token.kind, TokenKind::Ident | TokenKind::Quoted) {
            let text = match token.kind {
                TokenKind::End => "",
                _ => token.text.as_str(),
            };
            let message = format!("Syntax error: no viable alternative at input '.{text}'");
            return Err(Issue::at(token.at, message));
        }
        self.next += 1;
        if token.kind == TokenKind::Quoted {
            return Err(Issue::at(token.at, "unsupported syntax: '`'"));
        }
        if optional {
            let kind = ExprKind::Literal(Literal::String(token.text));
            let field = self.nodes.node(token.at, kind)?;
            return self.nodes.call(at, "_?._", vec![operand, field]);
        }
        if let Some(open) = self.take("(") {
            let arguments = self.arguments(")")?;
            return macros::member(&mut self.nodes, open, &token.text, operand, arguments);
        }
        if self.is("{")
            && let Some(name) = operand.qualified_name()
        {
            return self.message(format!("{name}.{}", token.text));
        }
        let kind = ExprKind::Select {
            operand: Box::new(operand),
            field: token.text,
            test: false,
        };
        self.nodes.node(at, kind)
    }
}
