//! Reads an expression.
//!
//! Each level of nesting costs stack, here and in every pass over the tree, so [`DEPTH_MAX`]
//! bounds the depth of the tree and of the parser.

use super::ast::{Entry, Expr, ExprKind, Literal, MessageField};
use super::lex::{self, Token, TokenKind};
use super::macros;
use super::nodes::{DEPTH_MAX, Nodes, too_deep};
use crate::cel::issue::Issue;

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

    fn is_number_after(&self) -> bool {
        let after = self.tokens.get(self.next + 1);
        after.is_some_and(|token| matches!(token.kind, TokenKind::Int | TokenKind::Float))
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

    fn primary(&mut self) -> Result<Expr, Issue> {
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

    fn message(&mut self, name: String) -> Result<Expr, Issue> {
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

    fn arguments(&mut self, end: &str) -> Result<Vec<Expr>, Issue> {
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

    fn peek(&self) -> &Token {
        // The end is never taken.
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn is(&self, mark: &str) -> bool {
        let token = self.peek();
        token.kind == TokenKind::Mark && token.text == mark
    }

    fn is_number(&self) -> bool {
        matches!(self.peek().kind, TokenKind::Int | TokenKind::Float)
    }

    /// Takes the mark if it is next, and returns its place.
    fn take(&mut self, mark: &str) -> Option<usize> {
        let at = self.is(mark).then(|| self.peek().at)?;
        self.next += 1;
        Some(at)
    }

    fn take_any(&mut self, marks: &[&'static str]) -> Option<(&'static str, usize)> {
        let found = marks.iter().find(|mark| self.is(mark))?;
        Some((found, self.take(found)?))
    }

    fn expect(&mut self, mark: &str) -> Result<usize, Issue> {
        match self.take(mark) {
            Some(at) => Ok(at),
            None if self.peek().kind == TokenKind::End => {
                let message = format!("Syntax error: missing '{mark}' at '<EOF>'");
                Err(Issue::at(self.peek().at, message))
            }
            None => Err(mismatch(self.peek(), &format!("'{mark}'"))),
        }
    }
}

fn mismatch(token: &Token, expected: &str) -> Issue {
    let message = format!(
        "Syntax error: mismatched input '{}' expecting {expected}",
        token.text
    );
    Issue::at(token.at, message)
}
