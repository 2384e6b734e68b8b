//! Converts a request's headers to metadata of the call.

use std::time::Duration;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::HeaderMap;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, TE};
use tonic::Status;

/// Headers with this prefix become metadata under the rest of their name.
const PREFIX: &str = "grpc-metadata-";

const BINARY: &str = "-bin";

const TRAILERS: &[u8] = b"trailers";

/// Names reserved for gRPC itself.
const RESERVED: [&str; 8] = [
    "content-type",
    "user-agent",
    "grpc-message-type",
    "grpc-encoding",
    "grpc-message",
    "grpc-status",
    "grpc-timeout",
    "te",
];

/// The metadata of the call.
pub(super) fn metadata(headers: &HeaderMap) -> Result<HeaderMap, Status> {
    let mut metadata = HeaderMap::new();
    let grpc = HeaderValue::from_static("application/grpc");
    metadata.insert(CONTENT_TYPE, grpc);
    for (name, value) in headers {
        if name == AUTHORIZATION {
            metadata.append(AUTHORIZATION, value.clone());
            continue;
        }
        let Some(key) = name.as_str().strip_prefix(PREFIX) else {
            continue;
        };
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let Ok(key) = HeaderName::from_bytes(key.as_bytes()) else {
            continue;
        };
        if RESERVED.contains(&key.as_str()) || !key.as_str().bytes().all(allowed) {
            continue;
        }
        if key.as_str().ends_with(BINARY) {
            metadata.append(key, binary(name, value)?);
        } else if value
            .as_bytes()
            .iter()
            .all(|byte| (b' '..=b'~').contains(byte))
        {
            metadata.append(key, value.clone());
        }
    }
    Ok(metadata)
}

/// A binary value as gRPC sends it: base64 without padding.
fn binary(name: &HeaderName, value: &HeaderValue) -> Result<HeaderValue, Status> {
    let padding = match value.len() % 4 {
        0 => DecodePaddingMode::RequireCanonical,
        _ => DecodePaddingMode::RequireNone,
    };
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(padding);
    let decoded = GeneralPurpose::new(&STANDARD, config).decode(value.as_bytes());
    let bytes = decoded.map_err(|error| {
        let place = match error {
            base64::DecodeError::InvalidByte(place, _)
            | base64::DecodeError::InvalidLastSymbol(place, _) => place,
            base64::DecodeError::InvalidLength(length) => length.saturating_sub(1),
            base64::DecodeError::InvalidPadding => value.len(),
        };
        Status::invalid_argument(format!(
            "invalid binary header {}: illegal base64 data at input byte {place}",
            title_case(name.as_str())
        ))
    })?;
    let text = STANDARD_NO_PAD.encode(bytes);
    HeaderValue::from_str(&text).map_err(|_| Status::internal("base64 is no header"))
}

/// `grpc-metadata-x` as Go writes it: `Grpc-Metadata-X`.
fn title_case(name: &str) -> String {
    let mut start = true;
    let cased = name.chars().map(|c| {
        let cased = if start { c.to_ascii_uppercase() } else { c };
        start = c == '-';
        cased
    });
    cased.collect()
}

/// True if the client accepts trailers.
pub(super) fn wants_trailers(headers: &HeaderMap) -> bool {
    let te = headers.get(TE).map(HeaderValue::as_bytes);
    let te = te.unwrap_or_default().to_ascii_lowercase();
    te.windows(TRAILERS.len()).any(|word| word == TRAILERS)
}

/// The client's timeout, from the gateway's own header.
pub(super) fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Status> {
    let Some(value) = headers.get("grpc-timeout") else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(value.as_bytes());
    if text.is_empty() {
        return Ok(None);
    }
    let invalid = || Status::invalid_argument(format!("invalid grpc-timeout: {text}"));
    let unit: i64 = match text.as_bytes() {
        [_, .., b'H'] => 3_600_000_000_000,
        [_, .., b'M'] => 60_000_000_000,
        [_, .., b'S'] => 1_000_000_000,
        [_, .., b'm'] => 1_000_000,
        [_, .., b'u'] => 1000,
        [_, .., b'n'] => 1,
        _ => return Err(invalid()),
    };
    let count: i64 = text[..text.len() - 1].parse().map_err(|_| invalid())?;
    // Multiplies as Go does. A negative timeout has already expired.
    Ok(match count.wrapping_mul(unit) {
        0 => None,
        nanos => Some(Duration::from_nanos(nanos.try_into().unwrap_or(0))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        pairs.collect()
    }

    #[test]
    fn metadata_is_what_is_named_so() {
        let metadata = metadata(&headers(&[
            ("authorization", "Bearer x"),
            ("grpc-metadata-token", "t"),
            ("grpc-metadata-hasleader", "true"),
            ("grpc-metadata-grpc-timeout", "1S"),
            ("grpc-metadata-content-type", "text/plain"),
            ("grpc-metadata-k-bin", "QUI="),
            ("cookie", "c"),
        ]));
        let want = headers(&[
            ("content-type", "application/grpc"),
            ("authorization", "Bearer x"),
            ("token", "t"),
            ("hasleader", "true"),
            ("k-bin", "QUI"),
        ]);
        assert_eq!(metadata.unwrap(), want);
    }

    #[test]
    fn a_timeout_has_a_unit() {
        let read = |text: &'static str| timeout(&headers(&[("grpc-timeout", text)]));
        assert_eq!(read("").unwrap(), None);
        assert_eq!(read("0S").unwrap(), None);
        assert_eq!(read("-1S").unwrap(), Some(Duration::ZERO));
        assert_eq!(read("15m").unwrap(), Some(Duration::from_millis(15)));
        assert_eq!(read("2H").unwrap(), Some(Duration::from_secs(7200)));
        for text in ["S", "1", "x", "1s", "1.5S", "1 S"] {
            let status = read(text).unwrap_err();
            assert_eq!(status.message(), format!("invalid grpc-timeout: {text}"));
        }
    }
}
