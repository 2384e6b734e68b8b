//! Names such as `acme.io/foo`: a domain, and a path in it.

use machinery::name;
use machinery::status::Cause;

/// The letters of a path.
const PATH: &str = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";

/// The errors of a path that must have a domain before it.
pub(crate) fn causes(field: &str, text: &str) -> Vec<Cause> {
    if text.is_empty() {
        return vec![Cause::required(field, "")];
    }
    let parts = text.split_once('/');
    let Some((domain, path)) =
        parts.filter(|(domain, path)| !domain.is_empty() && !path.is_empty())
    else {
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return vec![Cause::invalid(field, &text.into(), why)];
    };
    let wrong = name::dns1123_subdomain(domain);
    let wrong = wrong
        .iter()
        .map(|why| Cause::invalid(field, &domain.into(), why));
    let mut causes: Vec<Cause> = wrong.collect();
    let is_letter =
        |letter: char| letter.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(letter);
    if !path.chars().all(is_letter) {
        let why = format!("Invalid path (regex used for validation is '{PATH}')");
        causes.push(Cause::invalid(field, &path.into(), &why));
    }
    causes
}

#[cfg(test)]
mod tests {
    use machinery::status::told_together;

    use super::*;

    fn told(text: &str) -> String {
        told_together(&causes("key", text))
    }

    #[test]
    fn a_path_has_a_domain() {
        for good in ["acme.io/foo", "a/b/c", "acme.io/a%2Fb"] {
            assert_eq!(causes("key", good), [], "{good}");
        }
        assert_eq!(told(""), "key: Required value");
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        for bad in ["foo", "/foo", "acme.io/"] {
            assert_eq!(told(bad), format!("key: Invalid value: {bad:?}: {why}"));
        }
        assert!(told("Acme/foo").contains("a lowercase RFC 1123 subdomain"));
        assert!(told("a/b c").contains("Invalid path (regex"));
    }
}
