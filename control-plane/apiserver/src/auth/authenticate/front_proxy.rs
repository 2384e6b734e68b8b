//! Proxies that authenticate users and name them in headers. Such a proxy shows a client
//! certificate of an authority of its own.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use http::HeaderMap;
use percent_encoding::percent_decode_str;
use serde_json::json;

use crate::auth::User;

/// Which proxies are believed, and how they name users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The authorities of the proxies' certificates, a file in PEM.
    pub authority: PathBuf,
    /// The common names that a proxy may have; any if there is none.
    pub allowed_names: Vec<String>,
    /// Headers with the name of the user; the first that is there counts.
    pub user_headers: Vec<String>,
    /// Headers with the uid of the user; the first that is there counts.
    pub uid_headers: Vec<String>,
    /// Headers with groups of the user; all count.
    pub group_headers: Vec<String>,
    /// Beginnings of headers with further attributes of the user.
    pub extra_prefixes: Vec<String>,
}

/// Believes proxies.
#[derive(Clone, Debug)]
pub struct FrontProxy {
    options: Options,
    /// The authorities at the start, in PEM.
    authority: String,
}

impl FrontProxy {
    /// `authority` is the content of the file in the options.
    pub fn new(options: Options, authority: String) -> FrontProxy {
        FrontProxy { options, authority }
    }

    /// The authorities of the proxies' certificates at the start, in PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The file of these authorities.
    pub(crate) fn file(&self) -> &Path {
        &self.options.authority
    }

    /// True if a proxy may have this common name.
    pub(crate) fn allows(&self, name: &str) -> bool {
        let names = &self.options.allowed_names;
        self.allows_every_name() || names.iter().any(|one| one == name)
    }

    /// True if a proxy may have any common name.
    pub(crate) fn allows_every_name(&self) -> bool {
        self.options.allowed_names.is_empty()
    }

    /// True if a header, by its name in lower case, says something about users.
    pub(crate) fn reads(&self, header: &str) -> bool {
        let Options {
            user_headers,
            uid_headers,
            group_headers,
            extra_prefixes,
            ..
        } = &self.options;
        let names = [user_headers, uid_headers, group_headers];
        let mut names = names.into_iter().flatten();
        let begins = |prefix: &String| {
            let prefix = prefix.trim().to_ascii_lowercase();
            !prefix.is_empty() && header.starts_with(&prefix)
        };
        names.any(|name| name.trim().eq_ignore_ascii_case(header))
            || extra_prefixes.iter().any(begins)
    }

    /// The user that the headers name, if they name one.
    pub(crate) fn user(&self, headers: &HeaderMap) -> Option<User> {
        let all = |names: &[String]| -> Vec<String> {
            let values = names
                .iter()
                .flat_map(|name| headers.get_all(name.trim()).iter());
            let values = values.filter(|value| !value.is_empty());
            values
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
                .collect()
        };
        let first = |names: &[String]| {
            let firsts = names.iter().filter_map(|name| headers.get(name.trim()));
            let mut firsts = firsts.filter(|value| !value.is_empty());
            let value = firsts.next()?;
            Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        Some(User {
            name: first(&self.options.user_headers)?,
            uid: first(&self.options.uid_headers).unwrap_or_default(),
            groups: all(&self.options.group_headers),
            extra: self.extra(headers),
        })
    }

    fn extra(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.options.extra_prefixes {
            let prefix = prefix.trim().to_ascii_lowercase();
            for name in headers.keys() {
                let Some(key) = name.as_str().strip_prefix(&prefix) else {
                    continue;
                };
                let key = percent_decode_str(key).decode_utf8().unwrap_or(key.into());
                let values = headers.get_all(name).iter();
                let values =
                    values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
                extra.entry(key.into_owned()).or_default().extend(values);
            }
        }
        extra
    }

    /// What servers behind this one have to know of the proxies, by its keys in the config map
    /// `extension-apiserver-authentication`. `authority` is that of their certificates now.
    pub(crate) fn published(&self, authority: &str) -> Vec<(&'static str, String)> {
        let Options {
            allowed_names,
            user_headers,
            uid_headers,
            group_headers,
            extra_prefixes,
            ..
        } = &self.options;
        let list = |texts: &[String]| json!(texts).to_string();
        let mut all = vec![
            ("requestheader-client-ca-file", authority.to_owned()),
            ("requestheader-allowed-names", list(allowed_names)),
            ("requestheader-username-headers", list(user_headers)),
            ("requestheader-group-headers", list(group_headers)),
            ("requestheader-extra-headers-prefix", list(extra_prefixes)),
        ];
        if !uid_headers.is_empty() {
            all.push(("requestheader-uid-headers", list(uid_headers)));
        }
        all
    }
}
