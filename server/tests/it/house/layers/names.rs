//! What a source file names, read from its tokens.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::Layers;

/// What a file names, its tests left out.
pub(super) struct Names {
    groups: BTreeSet<&'static str>,
    /// What follows `crate::`, or as many `super::` as lead to the root; below a group, the group
    /// too.
    pub(super) modules: BTreeSet<String>,
    /// The first words of all other paths: among them are the crates.
    pub(super) crates: BTreeSet<String>,
}

impl Names {
    pub(super) fn below(layers: &Layers) -> Names {
        Names {
            groups: layers.groups(),
            modules: BTreeSet::new(),
            crates: BTreeSet::new(),
        }
    }

    pub(super) fn collect(&mut self, tokens: TokenStream, place: &[String]) {
        let tokens = without_tests(tokens);
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at..] {
                [
                    TokenTree::Ident(word),
                    TokenTree::Ident(name),
                    TokenTree::Group(body),
                    ..,
                ] if word == "mod" => {
                    let inner = [place, &[name.to_string()]].concat();
                    self.collect(body.stream(), &inner);
                    at += 2;
                }
                [TokenTree::Ident(word), rest @ ..] if word == "crate" => {
                    self.first_names(None, rest);
                }
                [TokenTree::Ident(word), ..] if word == "super" => {
                    let mut ups = 1;
                    while is_path(&tokens[at + 1..]) && is_word(tokens.get(at + 3), "super") {
                        ups += 1;
                        at += 3;
                    }
                    match &place[..place.len().saturating_sub(ups)] {
                        [] => self.first_names(None, &tokens[at + 1..]),
                        [group] if self.groups.contains(group.as_str()) => {
                            self.first_names(Some(group), &tokens[at + 1..]);
                        }
                        _ => {}
                    }
                }
                [TokenTree::Ident(word), rest @ ..] => {
                    let continues = at >= 2 && is_path(&tokens[at - 2..]);
                    if is_path(rest) && !continues {
                        self.crates.insert(word.to_string());
                    }
                }
                [TokenTree::Group(group), ..] => self.collect(group.stream(), place),
                _ => {}
            }
            at += 1;
        }
    }

    /// The first names behind `::`: one, or one for each path in braces.
    fn first_names(&mut self, group: Option<&str>, tokens: &[TokenTree]) {
        if !is_path(tokens) {
            return;
        }
        match &tokens[2..] {
            [TokenTree::Ident(name), rest @ ..] => self.module(group, &name.to_string(), rest),
            [TokenTree::Group(paths), ..] => {
                let inner: Vec<TokenTree> = paths.stream().into_iter().collect();
                let comma = |token: &TokenTree| matches!(token, TokenTree::Punct(one) if one.as_char() == ',');
                for path in inner.split(comma) {
                    if let [TokenTree::Ident(name), rest @ ..] = path {
                        self.module(group, &name.to_string(), rest);
                    }
                }
            }
            _ => {}
        }
    }

    /// Notes a module, or the modules behind a group. A crate's root gives its error type out,
    /// wherever that is.
    fn module(&mut self, group: Option<&str>, name: &str, rest: &[TokenTree]) {
        match (group, name) {
            (Some(group), name) => {
                self.modules.insert(format!("{group}::{name}"));
            }
            (None, name) if self.groups.contains(name) => self.first_names(Some(name), rest),
            (None, "Error" | "Result") => {
                self.modules.insert("error".to_owned());
            }
            (None, name) => {
                self.modules.insert(name.to_owned());
            }
        }
    }
}

pub(super) fn is_path(tokens: &[TokenTree]) -> bool {
    let colon = |at| matches!(tokens.get(at), Some(TokenTree::Punct(one)) if one.as_char() == ':');
    colon(0) && colon(1)
}

pub(super) fn is_word(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(one)) if one == word)
}

/// The tokens without the items that are only for tests.
pub(super) fn without_tests(tokens: TokenStream) -> Vec<TokenTree> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if is_test_attribute(&tokens[at..]) {
            while at < tokens.len() && !ends_item(&tokens[at]) {
                at += 1;
            }
        } else {
            kept.push(tokens[at].clone());
        }
        at += 1;
    }
    kept
}

/// Whether this is `#[cfg(test)]`.
fn is_test_attribute(tokens: &[TokenTree]) -> bool {
    let [TokenTree::Punct(hash), TokenTree::Group(group), ..] = tokens else {
        return false;
    };
    let text: String = group.stream().to_string().split_whitespace().collect();
    hash.as_char() == '#' && text == "cfg(test)"
}

fn ends_item(token: &TokenTree) -> bool {
    match token {
        TokenTree::Punct(one) => one.as_char() == ';',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    }
}
