//! What operators and dots work on: literals, names, calls, lists, maps, messages and what is in
//! parentheses.

use super::tokens::mismatch;
use super::{BEGINNINGS, Parser, RESERVED};
use crate::custom::cel::issue::Issue;
use crate::custom::cel::syntax::ast::{Entry, Expr, ExprKind, Literal, MessageField};
use crate::custom::cel::syntax::lex::{self, Token, TokenKind};
use crate::custom::cel::syntax::macros;

impl Parser {
    pub(super) fn primary(&mut self) -> Result<Expr, Issue> {
        let token = self.peek().clone();
        self.next += 1;
        match (token.kind, token.text.as_str()) {
            (TokenKind::Mark, "(") => {
                let expr = self.expr()?;
                self.expect(")")?;
                Ok(expr)
            }
            (TokenKind::Mark, "[") => self.list(token.at),
            (TokenKind::Mark, "{") => self.map(token.at),
            (TokenKind::Mark, "-") if self.is_number() => {
                let number = self.peek().clone();
                self.next += 1;
                self.number(token.at, &number, "-")
            }
            (TokenKind::Mark, ".") if self.peek().kind == TokenKind::Ident => {
                let name = self.peek().clone();
                self.next += 1;
                self.ident(&name)
            }
            (TokenKind::Mark, "true" | "false") => {
                let kind = ExprKind::Literal(Literal::Bool(token.text == "true"));
                self.nodes.node(token.at, kind)
            }
            (TokenKind::Mark, "null") => {
                self.nodes.node(token.at, ExprKind::Literal(Literal::Null))
            }
            (TokenKind::Int | TokenKind::Uint | TokenKind::Float, _) => {
                self.number(token.at, &token, "")
            }
            (TokenKind::String | TokenKind::Bytes, _) => self.text(&token),
            (TokenKind::Ident, _) => self.ident(&token),
            _ => {
                self.next -= 1;
                Err(mismatch(&token, BEGINNINGS))
            }
        }
    }

    fn ident(&mut self, token: &Token) -> Result<Expr, Issue> {
        let name = token.text.as_str();
        let reserved = || Issue::at(token.at, format!("reserved identifier: {name}"));
        if let Some(open) = self.take("(") {
            let arguments = self.arguments(")")?;
            if RESERVED.contains(&name) {
                return Err(reserved());
            }
            return macros::global(&mut self.nodes, open, name, arguments);
        }
        if self.is("{") {
            return self.message(name.to_owned());
        }
        if RESERVED.contains(&name) {
            return Err(reserved());
        }
        self.nodes.node(token.at, ExprKind::Ident(name.to_owned()))
    }

    pub(super) fn message(&mut self, name: String) -> Result<Expr, Issue> {
        let at = self.expect("{")?;
        let mut fields = Vec::new();
        while !self.is("}") {
            let optional = self.take("?").is_some();
            let token = self.peek().clone();
            if token.kind != TokenKind::Ident {
                return Err(mismatch(
                    &token,
                    "{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}",
                ));
            }
            self.next += 1;
            let at = self.expect(":")?;
            fields.push(MessageField {
                at,
                optional,
                name: token.text,
                value: self.expr()?,
            });
            if self.take(",").is_none() {
                break;
            }
        }
        self.expect("}")?;
        self.nodes.node(at, ExprKind::Message { name, fields })
    }

    fn list(&mut self, at: usize) -> Result<Expr, Issue> {
        let mut items = Vec::new();
        while !self.is("]") {
            let optional = self.take("?").is_some();
            items.push((optional, self.expr()?));
            if self.take(",").is_none() {
                break;
            }
        }
        self.expect("]")?;
        self.nodes.node(at, ExprKind::List(items))
    }

    fn map(&mut self, at: usize) -> Result<Expr, Issue> {
        let mut entries = Vec::new();
        while !self.is("}") {
            let optional = self.take("?").is_some();
            let key = self.expr()?;
            self.expect(":")?;
            let value = self.expr()?;
            entries.push(Entry {
                optional,
                key,
                value,
            });
            if self.take(",").is_none() {
                break;
            }
        }
        self.expect("}")?;
        self.nodes.node(at, ExprKind::Map(entries))
    }

    pub(super) fn arguments(&mut self, end: &str) -> Result<Vec<Expr>, Issue> {
        let mut arguments = Vec::new();
        if self.take(end).is_some() {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expr()?);
            if self.take(",").is_none() {
                break;
            }
        }
        self.expect(end)?;
        Ok(arguments)
    }

    fn number(&mut self, at: usize, token: &Token, sign: &str) -> Result<Expr, Issue> {
        let text = token.text.trim_end_matches(['u', 'U']);
        let (digits, base) = match text.strip_prefix("0x") {
            Some(digits) => (digits, 16),
            None => (text, 10),
        };
        let invalid = |what: &str| Issue::at(at, format!("invalid {what} literal"));
        let literal = match token.kind {
            TokenKind::Int => {
                let number = i64::from_str_radix(&format!("{sign}{digits}"), base);
                Literal::Int(number.map_err(|_| invalid("int"))?)
            }
            TokenKind::Uint => {
                let number = u64::from_str_radix(digits, base);
                Literal::Uint(number.map_err(|_| invalid("uint"))?)
            }
            _ => {
                let number = format!("{sign}{}", token.text).parse::<f64>().ok();
                let number = number.filter(|number| number.is_finite());
                Literal::Double(number.ok_or_else(|| invalid("double"))?)
            }
        };
        self.nodes.node(at, ExprKind::Literal(literal))
    }

    fn text(&mut self, token: &Token) -> Result<Expr, Issue> {
        let bytes = lex::unquote(token).map_err(|why| Issue::at(token.at, why))?;
        let literal = match token.kind {
            TokenKind::Bytes => Literal::Bytes(bytes),
            _ => {
                let text = String::from_utf8(bytes);
                Literal::String(text.map_err(|why| Issue::at(token.at, why.to_string()))?)
            }
        };
        self.nodes.node(token.at, ExprKind::Literal(literal))
    }
}
