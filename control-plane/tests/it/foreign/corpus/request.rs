//! A request of the corpus, and how it is sent.

use serde_json::Value;

use super::bases::VERSION;
use crate::requests::http::{Answer, Call};

pub(super) const JSON: &str = "application/json";
pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
pub(super) const APPLY: &str = "application/apply-patch+yaml";

/// One request.
#[derive(Clone)]
pub(super) struct Request {
    /// What is special about it; golden files name it by this, and no two of a kind have the same.
    pub(super) name: String,
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Option<(String, Vec<u8>)>,
    /// The valid object that the response is compared with.
    pub(super) like: Like,
    /// A watch: what comes until the initial events end.
    pub(super) watch: bool,
}

/// The object that the one in a response is compared with.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Like {
    /// The stored one.
    Base,
    /// What the request to create this valid object was answered.
    Made(String),
}

impl Request {
    pub(super) fn new(name: impl Into<String>, method: &'static str, path: &str) -> Request {
        Request {
            name: name.into(),
            method,
            path: path.to_owned(),
            headers: Vec::new(),
            body: None,
            like: Like::Base,
            watch: false,
        }
    }

    pub(super) fn header(mut self, name: &'static str, value: &str) -> Request {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(super) fn accept(self, media_type: &str) -> Request {
        self.header("Accept", media_type)
    }

    pub(super) fn body(mut self, media_type: &str, body: impl Into<Vec<u8>>) -> Request {
        self.body = Some((media_type.to_owned(), body.into()));
        self
    }

    pub(super) fn json(self, object: &Value) -> Request {
        self.body(JSON, object.to_string())
    }

    pub(super) fn like(mut self, like: Like) -> Request {
        self.like = like;
        self
    }

    pub(super) fn watched(mut self) -> Request {
        self.watch = true;
        self
    }

    /// Sends the request; bodies name the version of the stored object.
    pub(super) fn send(&self, address: &str, version: &str) -> Answer {
        let mut call = Call::new(address, self.method, &self.path);
        for (name, value) in &self.headers {
            call = call.header(name, value);
        }
        if let Some((media_type, body)) = &self.body {
            call = call.body(media_type, with_version(body, version));
        }
        if self.watch {
            return call.watch_until(|event| event["type"] == "BOOKMARK");
        }
        call.send()
    }
}

/// Puts the version into a body in text.
fn with_version(body: &[u8], version: &str) -> Vec<u8> {
    match std::str::from_utf8(body) {
        Ok(text) => {
            let quoted = |text: &str| format!("\"{text}\"");
            text.replace(&quoted(VERSION), &quoted(version))
                .into_bytes()
        }
        Err(_) => body.to_vec(),
    }
}
