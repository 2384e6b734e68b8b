//! The tokens that are still to be read.

use super::Parser;
use crate::custom::cel::issue::Issue;
use crate::custom::cel::syntax::lex::{Token, TokenKind};

impl Parser {
    pub(super) fn peek(&self) -> &Token {
        // The end is never taken.
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    pub(super) fn is(&self, mark: &str) -> bool {
        let token = self.peek();
        token.kind == TokenKind::Mark && token.text == mark
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self.peek().kind, TokenKind::Int | TokenKind::Float)
    }

    pub(super) fn is_number_after(&self) -> bool {
        let after = self.tokens.get(self.next + 1);
        after.is_some_and(|token| matches!(token.kind, TokenKind::Int | TokenKind::Float))
    }

    /// Takes the mark if it is next, and returns its place.
    pub(super) fn take(&mut self, mark: &str) -> Option<usize> {
        let at = self.is(mark).then(|| self.peek().at)?;
        self.next += 1;
        Some(at)
    }

    pub(super) fn take_any(&mut self, marks: &[&'static str]) -> Option<(&'static str, usize)> {
        let found = marks.iter().find(|mark| self.is(mark))?;
        Some((found, self.take(found)?))
    }

    pub(super) fn expect(&mut self, mark: &str) -> Result<usize, Issue> {
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

pub(super) fn mismatch(token: &Token, expected: &str) -> Issue {
    let message = format!(
        "Syntax error: mismatched input '{}' expecting {expected}",
        token.text
    );
    Issue::at(token.at, message)
}
