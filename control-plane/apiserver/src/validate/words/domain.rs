//! Paths that begin with a domain, which keeps the names of different authors apart.

use machinery::name;
use machinery::status::Cause;

use crate::validate::words::field::FieldValue;
use crate::validate::{Causes, named};

impl Causes {
    /// A domain and a path, such as `example.com/controller`.
    pub(crate) fn domain_prefixed(&mut self, at: &FieldValue, key: &str) {
        if !self.required(at, key) {
            return;
        }
        let field = at.path_of(key);
        let parts = at.text(key).split_once('/');
        let Some((domain, path)) = parts.filter(|(a, b)| !(a.is_empty() || b.is_empty())) else {
            let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            return self.wrong(at, key, why);
        };
        self.extend(named(&field, domain, name::dns1123_subdomain(domain)));
        if !is_path(path) {
            let regex = "^[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+$";
            let why = format!("Invalid path (regex used for validation is '{regex}')");
            self.push(Cause::invalid(&field, &path.into(), &why));
        }
    }
}

fn is_path(text: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
    text.chars().all(known)
}
