//! The URLs in flags: listen URLs and advertised URLs.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
    Unix,
    Unixs,
}

/// A URL as etcd's flags accept it: scheme, host and port, no path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    text: String,
    scheme: Scheme,
    host: String,
    port: String,
}

impl Url {
    /// The errors have etcd's texts.
    pub fn parse(text: &str) -> Result<Url, String> {
        let text = text.trim();
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let scheme = match scheme {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            "unix" => Scheme::Unix,
            "unixs" => Scheme::Unixs,
            _ => {
                return Err(format!(
                    "URL scheme must be http, https, unix, or unixs: {text}"
                ));
            }
        };
        if matches!(scheme, Scheme::Unix | Scheme::Unixs) {
            return Ok(Url {
                text: text.into(),
                scheme,
                host: rest.into(),
                port: String::new(),
            });
        }
        let (address, path) = match rest.find(['/', '?', '#']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let bad_address = || format!("URL address does not have the form \"host:port\": {text}");
        let (host, port) = address.rsplit_once(':').ok_or_else(bad_address)?;
        let host = match host.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').ok_or_else(bad_address)?,
            None if host.contains(':') => return Err(bad_address()),
            None => host,
        };
        if port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad_address());
        }
        if !path.is_empty() {
            return Err(format!("URL must not contain a path: {text}"));
        }
        Ok(Url {
            text: text.into(),
            scheme,
            host: host.into(),
            port: port.into(),
        })
    }

    /// A comma-separated list without duplicates, sorted as in etcd, because member ids are
    /// computed from it.
    pub fn parse_list(text: &str) -> Result<Vec<Url>, String> {
        let mut urls: Vec<Url> = text.split(',').map(Url::parse).collect::<Result<_, _>>()?;
        urls.sort_by(|a, b| a.text.cmp(&b.text));
        urls.dedup();
        Ok(urls)
    }

    /// As they were written.
    pub(crate) fn texts(urls: &[Url]) -> Vec<String> {
        urls.iter().map(Url::to_string).collect()
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Host without brackets: a name, an address, or empty (all interfaces).
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> &str {
        &self.port
    }

    pub fn is_unix(&self) -> bool {
        matches!(self.scheme, Scheme::Unix | Scheme::Unixs)
    }

    /// True if the URL uses TLS.
    pub fn is_secure(&self) -> bool {
        matches!(self.scheme, Scheme::Https | Scheme::Unixs)
    }

    /// The path of a unix socket. The part that looks like a host is the start of a relative path.
    pub fn socket_path(&self) -> &str {
        &self.host
    }

    /// `host:port` for binding, or the path of a unix socket.
    pub fn address(&self) -> String {
        if self.is_unix() {
            return self.host.clone();
        }
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// `Ok` if two sorted lists of URLs have the same texts. The error is etcd's, which says "resolved"
/// even if no host was looked up.
pub(crate) fn compare_lists(a: &[String], b: &[String]) -> Result<(), String> {
    if a.len() != b.len() {
        return Err(format!("len({}) != len({})", quoted(a), quoted(b)));
    }
    match a.iter().zip(b).find(|(a, b)| a != b) {
        Some((a, b)) => Err(format!("resolved urls: {a:?} != {b:?}")),
        None => Ok(()),
    }
}

/// As Go prints a list of texts in quotes.
fn quoted(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", texts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let url = Url::parse("http://[::1]:2379").unwrap();
        assert_eq!(
            (url.host(), url.port(), url.address().as_str()),
            ("::1", "2379", "[::1]:2379")
        );
        let url = Url::parse(" http://localhost:2379 ").unwrap();
        assert_eq!(
            (url.as_str(), url.scheme()),
            ("http://localhost:2379", Scheme::Http)
        );
    }

    #[test]
    fn bad_urls_get_etcds_words() {
        let cases = [
            ("foo", "URL scheme must be http, https, unix, or unixs: foo"),
            (
                "http://a",
                "URL address does not have the form \"host:port\": http://a",
            ),
            (
                "http://a:b",
                "URL address does not have the form \"host:port\": http://a:b",
            ),
            ("http://a:1/x", "URL must not contain a path: http://a:1/x"),
        ];
        for (text, error) in cases {
            assert_eq!(Url::parse(text).unwrap_err(), error);
        }
    }

    #[test]
    fn lists_are_sorted() {
        let urls = Url::parse_list("http://b:2,http://a:1").unwrap();
        assert_eq!(
            urls.iter().map(Url::as_str).collect::<Vec<_>>(),
            ["http://a:1", "http://b:2"]
        );
    }
}
