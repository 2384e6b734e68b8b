//! JSON for people: indented if the client asks for it, or is a tool for people.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, to_bytes};
use bytes::{Buf as _, Bytes};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, Response};
use http_body::Frame;
use machinery::status::Status;

use crate::http::media::JSON;

/// Spaces before a value for each list or object that it is in.
const INDENT: usize = 2;
/// Upper bound of an answer that is indented as a whole, in bytes. Only such a one tells its length.
const WHOLE_BYTES_MAX: usize = 64 << 10;
/// Where a piece of a larger answer ends, in bytes.
const PIECE_BYTES: usize = 64 << 10;
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

/// Indents a response in JSON. Other encodings, compressed texts and streams stay as they are.
pub(crate) async fn indented(response: Response<Body>) -> Result<Response<Body>, Status> {
    let headers = response.headers();
    let is_json = headers.get(CONTENT_TYPE).is_some_and(|one| one == JSON);
    let size = http_body::Body::size_hint(response.body()).exact();
    let Some(size) = size.filter(|_| is_json && !headers.contains_key(CONTENT_ENCODING)) else {
        return Ok(response);
    };
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    if size > WHOLE_BYTES_MAX as u64 {
        let body = Body::new(Indented::of(body));
        return Ok(Response::from_parts(parts, body));
    }
    let text = to_bytes(body, WHOLE_BYTES_MAX)
        .await
        .map_err(|error| Status::internal(&error.to_string()))?;
    let body = match indented_whole(&text) {
        Some(whole) => whole.into(),
        None => Body::new(Indented::of(text.into())),
    };
    Ok(Response::from_parts(parts, body))
}

/// A small text indented; `None` if it is not small then.
fn indented_whole(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 2);
    let mut indenter = Indenter::default();
    for letter in text {
        indenter.push(*letter, &mut out);
        if out.len() > WHOLE_BYTES_MAX {
            return None;
        }
    }
    Some(out)
}

/// A text that is indented piece by piece while it is sent: lists within lists grow to a hundred
/// times their size.
struct Indented {
    body: Body,
    /// Taken from the body, and not indented yet.
    taken: Bytes,
    indenter: Indenter,
}

impl Indented {
    fn of(body: Body) -> Indented {
        Indented {
            body,
            taken: Bytes::new(),
            indenter: Indenter::default(),
        }
    }

    /// Indents as much as one piece has.
    fn piece(&mut self) -> Bytes {
        let mut piece = Vec::new();
        let mut used = 0;
        for letter in &self.taken {
            if piece.len() >= PIECE_BYTES {
                break;
            }
            self.indenter.push(*letter, &mut piece);
            used += 1;
        }
        self.taken.advance(used);
        piece.into()
    }
}

impl http_body::Body for Indented {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        loop {
            let piece = self.piece();
            if !piece.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(context)) else {
                return Poll::Ready(None);
            };
            self.taken = frame?.into_data().unwrap_or_default();
        }
    }
}

/// Puts each value of a JSON text on its own line.
#[derive(Default)]
struct Indenter {
    depth: usize,
    quoted: bool,
    escaped: bool,
    /// A list or an object has begun, and may be empty.
    opened: bool,
}

impl Indenter {
    /// Takes the next letter of the text.
    fn push(&mut self, letter: u8, out: &mut Vec<u8>) {
        if self.quoted {
            out.push(letter);
            (self.quoted, self.escaped) = match letter {
                _ if self.escaped => (true, false),
                b'\\' => (true, true),
                b'"' => (false, false),
                _ => (true, false),
            };
            return;
        }
        if letter.is_ascii_whitespace() {
            return;
        }
        let is_end = matches!(letter, b'}' | b']');
        if is_end {
            self.depth = self.depth.saturating_sub(1);
        }
        // A value begins a line after a beginning, and an end does after a value.
        if std::mem::take(&mut self.opened) != is_end {
            self.line(out);
        }
        out.push(letter);
        match letter {
            b'{' | b'[' => {
                self.depth += 1;
                self.opened = true;
            }
            b',' => self.line(out),
            b':' => out.push(b' '),
            letter => self.quoted = letter == b'"',
        }
    }

    fn line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + self.depth * INDENT, b' ');
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http_body_util::BodyExt as _;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_indented_says_the_same_in_the_same_order() {
        let text = r#"{"kind":"A","b":[],"c":{},"d":[1, {"x":"{\\\"[,:"}],"a":null}"#;
        let shown = String::from_utf8(indented_whole(text.as_bytes()).unwrap()).unwrap();
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

    fn answer(media_type: &'static str, text: impl Into<Bytes>) -> Response<Body> {
        let text: Bytes = text.into();
        let mut response = Response::new(Body::from(text));
        let media_type = HeaderValue::from_static(media_type);
        response.headers_mut().insert(CONTENT_TYPE, media_type);
        response
    }

    #[tokio::test]
    async fn what_grows_is_sent_in_pieces_and_is_never_there_as_a_whole() {
        let (begin, end) = ("[".repeat(100), "]".repeat(100));
        let text = format!("{begin}1{}{end}", ",1".repeat(100_000));
        for text in [text.clone(), text[..20_000].to_owned()] {
            let response = indented(answer(JSON, text.clone())).await.unwrap();
            let mut body = response.into_body();
            let mut shown = Vec::new();
            while let Some(frame) = body.frame().await {
                let piece = frame.unwrap().into_data().unwrap();
                assert!(piece.len() <= PIECE_BYTES + 300, "{} bytes", piece.len());
                shown.extend_from_slice(&piece);
            }
            assert!(shown.len() > text.len() * 50);
            shown.retain(|letter| !letter.is_ascii_whitespace());
            assert!(shown == text.as_bytes());
        }
    }

    #[tokio::test]
    async fn a_compressed_text_stays_as_it_is() {
        let zipped: &[u8] = b"\x1f\x8b \n,{[";
        let mut response = answer(JSON, zipped);
        let gzip = HeaderValue::from_static("gzip");
        response.headers_mut().insert(CONTENT_ENCODING, gzip);
        let response = indented(response).await.unwrap();
        let body = to_bytes(response.into_body(), 100).await.unwrap();
        assert_eq!(body, zipped);
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
