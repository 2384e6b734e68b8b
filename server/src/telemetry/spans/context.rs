//! The trace context that a client sends with a call: W3C's `traceparent` and `tracestate`.

use http::HeaderMap;

pub(super) const TRACE_ID_BYTES: usize = 16;
pub(super) const SPAN_ID_BYTES: usize = 8;

/// A longer `tracestate` is dropped, as the standard allows.
const STATE_BYTES_MAX: usize = 512;

/// The client's span.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) trace_id: [u8; TRACE_ID_BYTES],
    pub(super) span_id: [u8; SPAN_ID_BYTES],
    pub(super) sampled: bool,
    pub(super) state: String,
}

impl Parent {
    /// `None` if the header is missing or invalid.
    pub(super) fn of(headers: &HeaderMap) -> Option<Parent> {
        let text = headers.get("traceparent")?.to_str().ok()?;
        let mut parts = text.split('-');
        let version: [u8; 1] = hex(parts.next()?)?;
        let (trace_id, span_id) = (hex(parts.next()?)?, hex(parts.next()?)?);
        let flags: [u8; 1] = hex(parts.next()?)?;
        // Later versions may have more parts.
        let is_known = match version {
            [0] => parts.next().is_none() && flags[0] <= 3,
            [version] => version != u8::MAX,
        };
        let is_valid =
            is_known && trace_id.iter().any(|b| *b != 0) && span_id.iter().any(|b| *b != 0);
        is_valid.then(|| Parent {
            trace_id,
            span_id,
            sampled: flags[0] & 1 == 1,
            state: state(headers),
        })
    }
}

fn state(headers: &HeaderMap) -> String {
    let lists = headers.get_all("tracestate").iter();
    let lists: Vec<&str> = lists.filter_map(|list| list.to_str().ok()).collect();
    let state = lists.join(",");
    if state.len() <= STATE_BYTES_MAX {
        state
    } else {
        String::new()
    }
}

/// Lower case only, as the standard requires.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let mut bytes = [0; N];
    if pairs.len() != N {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

/// A new id. If there is no randomness it is zero, which collectors refuse.
pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut id = [0; N];
    let _ = aws_lc_rs::rand::fill(&mut id);
    id
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn parent(text: &str) -> Option<Parent> {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", HeaderValue::from_str(text).unwrap());
        headers.append("tracestate", HeaderValue::from_static("a=b"));
        headers.append("tracestate", HeaderValue::from_static("c=d"));
        Parent::of(&headers)
    }

    #[test]
    fn a_parent_is_read_as_the_standard_has_it() {
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        let found = parent(&format!("00-{trace}-{span}-01")).unwrap();
        assert_eq!(found.trace_id[..3], [0x0a, 0xf7, 0x65]);
        assert_eq!(found.span_id[7], 0x31);
        assert!(found.sampled && found.state == "a=b,c=d");
        assert!(!parent(&format!("00-{trace}-{span}-00")).unwrap().sampled);
        assert!(
            parent(&format!("cc-{trace}-{span}-01-more"))
                .unwrap()
                .sampled
        );
        for bad in [
            "",
            "00",
            &format!("00-{trace}-{span}"),
            &format!("00-{trace}-{span}-01-more"),
            &format!("ff-{trace}-{span}-01"),
            &format!("00-{}-{span}-01", "0".repeat(32)),
            &format!("00-{trace}-{}-01", "0".repeat(16)),
            &format!("00-{}-{span}-01", trace.to_uppercase()),
            &format!("00-{}-{span}-01", &trace[2..]),
            &format!("00-{}-{span}-1", &trace),
        ] {
            assert_eq!(parent(bad), None, "{bad}");
        }
    }
}
