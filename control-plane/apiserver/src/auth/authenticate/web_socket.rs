//! Tokens among the protocols that a client names for a WebSocket: a script in a browser cannot set
//! the header `Authorization`.

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_PROTOCOL, UPGRADE};

/// What the name of a protocol begins with that is a token.
const TOKEN: &str = "base64url.bearer.authorization.k8s.io.";

/// True if a request with these headers asks for a WebSocket.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    holds(headers, CONNECTION, "upgrade") && holds(headers, UPGRADE, "websocket")
}

/// The names of the protocols without tokens: those are for this server alone, and never chosen.
/// `None` if there are no others.
pub(crate) fn protocols(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut names = words(headers, SEC_WEBSOCKET_PROTOCOL);
    names.retain(|name| !name.starts_with(TOKEN));
    let names = HeaderValue::from_str(&names.join(", ")).ok();
    names.filter(|names| !names.is_empty())
}

/// The token of a request for a WebSocket, if it has one. The error says what is wrong with it.
pub(super) fn token(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    if !is_wanted(headers) {
        return Ok(None);
    }
    let names = words(headers, SEC_WEBSOCKET_PROTOCOL);
    let mut tokens = names.iter().filter_map(|name| name.strip_prefix(TOKEN));
    let Some(token) = tokens.next() else {
        return Ok(None);
    };
    if tokens.next().is_some() {
        return Err("multiple base64.bearer.authorization tokens specified");
    }
    let token = URL_SAFE_NO_PAD
        .decode(token)
        .map_err(|_| "invalid base64.bearer.authorization token encoding")?;
    let token =
        String::from_utf8(token).map_err(|_| "invalid base64.bearer.authorization token")?;
    if token.is_empty() {
        return Ok(None);
    }
    // The answer names one of the protocols, and must not name the token.
    if names.len() == 1 {
        return Err("missing additional subprotocol");
    }
    Ok(Some(token))
}

/// True if `word` is among the comma-separated values of the header.
fn holds(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    let mut all = words(headers, name).into_iter();
    all.any(|found| found.eq_ignore_ascii_case(word))
}

/// The comma-separated values of all lines of a header.
fn words(headers: &HeaderMap, name: HeaderName) -> Vec<String> {
    let lines = headers.get_all(name).into_iter();
    let lines = lines.map(|line| String::from_utf8_lossy(line.as_bytes()).into_owned());
    lines
        .flat_map(|line| {
            let words = line.split(',').map(|word| word.trim().to_owned());
            words.collect::<Vec<_>>()
        })
        .collect()
}
