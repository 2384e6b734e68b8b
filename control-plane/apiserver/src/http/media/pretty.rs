//! JSON for people: indented if the client asks for it, or is a tool for people.

use axum::body::{Body, to_bytes};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, Response};
use machinery::status::Status;

use crate::http::media::JSON;

const INDENT: &str = "  ";
/// Prefixes of the `User-Agent` of tools for people.
const TOOLS: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// True if the response is for people. `asked` is the parameter `pretty` of the request.
pub(crate) fn is_wanted(headers: &HeaderMap, asked: Option<&str>) -> bool {
    if let Some(asked) = asked {
        return ["1", "t", "T", "true", "TRUE", "True"].contains(&asked);
    }
    let agent = headers
        .get(USER_AGENT)
        .and_then(|agent| agent.to_str().ok());
    agent.is_some_and(|agent| TOOLS.iter().any(|tool| agent.starts_with(tool)))
}

/// Indents a response in JSON. Other encodings and streams stay as they are.
pub(crate) async fn indented(response: Response<Body>) -> Result<Response<Body>, Status> {
    let is_json = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|one| one == JSON);
    let whole = http_body::Body::size_hint(response.body())
        .exact()
        .is_some();
    if !is_json || !whole {
        return Ok(response);
    }
    let (mut parts, body) = response.into_parts();
    let text = to_bytes(body, usize::MAX)
        .await
        .map_err(|error| Status::internal(&error.to_string()))?;
    parts.headers.remove(CONTENT_LENGTH);
    Ok(Response::from_parts(parts, Body::from(indent(&text))))
}

/// Puts each value of a JSON text on its own line.
fn indent(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() * 2);
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    let mut letters = text.trim_ascii().iter().copied().peekable();
    let line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.extend(INDENT.repeat(depth).bytes());
    };
    while let Some(letter) = letters.next() {
        if quoted {
            out.push(letter);
            (quoted, escaped) = match letter {
                _ if escaped => (true, false),
                b'\\' => (true, true),
                b'"' => (false, false),
                _ => (true, false),
            };
            continue;
        }
        match letter {
            b'{' | b'[' => {
                out.push(letter);
                if let Some(end) = letters.next_if(|next| *next == letter + 2) {
                    out.push(end);
                    continue;
                }
                depth += 1;
                line(&mut out, depth);
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(letter);
            }
            b',' => {
                out.push(letter);
                line(&mut out, depth);
            }
            b':' => out.extend(b": "),
            b' ' | b'\n' | b'\t' | b'\r' => {}
            letter => {
                quoted = letter == b'"';
                out.push(letter);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_indented_says_the_same_in_the_same_order() {
        let text = r#"{"kind":"A","b":[],"c":{},"d":[1,{"x":"{\\\"[,:"}],"a":null}"#;
        let shown = String::from_utf8(indent(text.as_bytes())).unwrap();
        let lines: Vec<&str> = shown.lines().collect();
        let expected = [
            "{",
            r#"  "kind": "A","#,
            r#"  "b": [],"#,
            r#"  "c": {},"#,
            r#"  "d": ["#,
            "    1,",
            "    {",
            r#"      "x": "{\\\"[,:""#,
            "    }",
            "  ],",
            r#"  "a": null"#,
            "}",
        ];
        assert_eq!(lines, expected);
        let same = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(same(&shown), same(text));
        assert_eq!(same(text)["d"][0], json!(1));
    }

    #[test]
    fn people_are_known_by_what_they_ask_and_by_their_tools() {
        let mut headers = HeaderMap::new();
        assert!(is_wanted(&headers, Some("true")));
        assert!(!is_wanted(&headers, None));
        headers.insert(USER_AGENT, "curl/8.0".parse().unwrap());
        assert!(is_wanted(&headers, None));
        assert!(!is_wanted(&headers, Some("false")));
        headers.insert(USER_AGENT, "kubectl/v1.36".parse().unwrap());
        assert!(!is_wanted(&headers, None));
    }
}
