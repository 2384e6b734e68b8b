//! Texts that are kept compressed, and sent so to clients that take it.

use std::io::{Read as _, Write as _};

use axum::body::Body;
use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use crate::http::answer::reply;
use crate::http::media;

/// A compressed text.
pub(crate) struct Zipped(Bytes);

impl Zipped {
    pub(super) fn new(text: &[u8]) -> Zipped {
        let mut zip = GzEncoder::new(Vec::new(), Compression::default());
        // Writing into memory does not fail.
        let _ = zip.write_all(text);
        let mut zipped = zip.finish().unwrap_or_default();
        zipped.shrink_to_fit();
        Zipped(zipped.into())
    }

    /// The text itself.
    pub(super) fn text(&self) -> Bytes {
        let mut text = Vec::new();
        // What was compressed here can be read.
        let _ = GzDecoder::new(&self.0[..]).read_to_end(&mut text);
        text.into()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The response with this text, compressed if the client takes that.
    pub(crate) fn answer(&self, asked: &HeaderMap, media_type: &'static str) -> Response<Body> {
        if !media::takes_coding(asked, "gzip") {
            return reply::verbatim(StatusCode::OK, media_type, self.text());
        }
        let mut response = reply::verbatim(StatusCode::OK, media_type, self.0.clone());
        let gzip = HeaderValue::from_static("gzip");
        response.headers_mut().insert(CONTENT_ENCODING, gzip);
        response
    }
}
