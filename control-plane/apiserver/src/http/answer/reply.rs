//! Responses: objects, lists and errors in the form that the client accepts.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use machinery::status::Status;
use machinery::{object, protobuf, strict};
use serde::Serialize;
use serde_json::{Value, json};

use crate::basics::clock;
use crate::http::answer::shown::{ListMeta, Shown, only_metadata};
use crate::http::answer::spliced;
use crate::http::answer::table::{self, Room};
use crate::http::media::yaml;
use crate::http::media::{Encoding, Form, JSON};
use crate::resources::convert;
use crate::storage::decoded::to_json;
use crate::storage::stored::Stored;

/// Upper bound of all warnings of a response, in characters. Beyond it each is cut.
const WARNINGS_CHARS_MAX: usize = 4096;
/// Upper bound of one warning that is cut, in characters.
const WARNING_CHARS_MAX: usize = 256;

impl Shown {
    /// A stored object.
    pub(crate) fn stored(&self, stored: &Stored) -> Result<Bytes, Status> {
        match spliced::object(self, stored) {
            Some(bytes) => bytes,
            None => self.object(&self.decoded(stored)?),
        }
    }

    /// Decodes a stored object, in the served version. The rows of tables of built-in kinds are
    /// made of what is stored, whatever version is served: not all versions have all that they
    /// show. A column of a custom resource may show the version itself.
    pub(crate) fn decoded(&self, stored: &Stored) -> Result<Arc<Value>, Status> {
        let object = Arc::new(stored.decode()?);
        if self.accept.form == Form::Table && self.resource.custom.is_none() {
            return Ok(object);
        }
        Ok(convert::to_served(&self.resource, &object))
    }

    /// An object in the served version; a table has the row of one in any version.
    pub(crate) fn object(&self, object: &Arc<Value>) -> Result<Bytes, Status> {
        match self.accept.form {
            Form::Object if self.accept.encoding == Encoding::Yaml => {
                encode(&self.with_nulls(object), Encoding::Yaml)
            }
            Form::Object => encode(object, self.accept.encoding),
            Form::Metadata => self.written(only_metadata(&self.resource, object)),
            Form::Table => {
                let version = object::resource_version(object);
                let meta = json!({"resourceVersion": version});
                let (now, room) = (clock::now(), &mut Room::default());
                let row = table::row(&self.resource, object, self.include, now, room);
                self.written(table::of(&self.resource, vec![row], meta))
            }
        }
    }

    /// The scale of an object as a table.
    pub(crate) fn table_of_scale(&self, scale: &Value) -> Result<Bytes, Status> {
        let table = table::of_scale(&self.resource, scale, self.include, clock::now());
        self.written(table)
    }

    /// An object as Go writes it, with the nulls that JSON goes without. YAML is for people.
    fn with_nulls(&self, object: &Value) -> Value {
        let mut object = object.clone();
        if self.resource.custom.is_none() {
            strict::show_nulls(&mut object, self.resource.kind.message());
        }
        object
    }

    /// Encodes a table, a list or metadata in the accepted version.
    fn written(&self, mut value: Value) -> Result<Bytes, Status> {
        if self.accept.beta {
            into_beta(&mut value);
        }
        encode(&value, self.accept.encoding)
    }

    /// A response with a list of stored objects.
    pub(crate) fn list(
        &self,
        all: &[Arc<Stored>],
        meta: &ListMeta,
    ) -> Result<Response<Body>, Status> {
        let media_type = self.accept.encoding.media_type();
        if let Some(pieces) = spliced::list(self, all, meta) {
            let media_type = HeaderValue::from_static(media_type);
            return Ok(with_body(StatusCode::OK, media_type, pieces?.into()));
        }
        let list = match (self.accept.encoding, self.accept.form) {
            (Encoding::Yaml, Form::Object) => self.yaml_list(all, meta)?,
            _ => self.list_of(all.iter().map(|stored| self.decoded(stored)), meta)?,
        };
        Ok(bytes(StatusCode::OK, media_type, list))
    }

    /// A list in YAML. Its objects are decoded one by one: all of them would take many times the
    /// text.
    fn yaml_list(&self, all: &[Arc<Stored>], meta: &ListMeta) -> Result<Bytes, Status> {
        let kind = &self.resource.kind;
        let mut list = yaml::write(&json!({"apiVersion": kind.api_version()}));
        list.push_str(match all {
            [] => "items: []\n",
            _ => "items:\n",
        });
        for stored in all {
            let object = self.decoded(stored)?;
            yaml::write_item(&mut list, &self.item(object));
        }
        let metadata = meta.of_list(&self.resource);
        let end = json!({"kind": kind.list_kind(), "metadata": metadata});
        list.push_str(&yaml::write(&end));
        Ok(list.into())
    }

    /// A list of objects in the served version. Of each only what is shown is kept: all of them
    /// may take many times the answer.
    pub(crate) fn list_of(
        &self,
        objects: impl Iterator<Item = Result<Arc<Value>, Status>>,
        meta: &ListMeta,
    ) -> Result<Bytes, Status> {
        let kind = &self.resource.kind;
        let (now, mut room) = (clock::now(), Room::default());
        let mut part = |object: Arc<Value>| match self.accept.form {
            Form::Table => table::row(&self.resource, &object, self.include, now, &mut room),
            Form::Metadata => only_metadata(&self.resource, &object),
            Form::Object => self.item(object),
        };
        let parts = objects.map(|object| object.map(&mut part));
        let parts = parts.collect::<Result<Vec<Value>, Status>>()?;
        let list = match self.accept.form {
            Form::Table => table::of(&self.resource, parts, meta.to_value()),
            Form::Metadata => json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": meta.to_value(), "items": parts,
            }),
            Form::Object => json!({
                "kind": kind.list_kind(), "apiVersion": kind.api_version(),
                "metadata": meta.of_list(&self.resource), "items": parts,
            }),
        };
        self.written(list)
    }

    /// An item of a list. Like Kubernetes, it leaves out the kind, which the list has. Only JSON
    /// keeps it, because there objects and items share their text.
    fn item(&self, object: Arc<Value>) -> Value {
        if self.accept.encoding != Encoding::Yaml {
            return Arc::unwrap_or_clone(object);
        }
        let mut item = self.with_nulls(&object);
        object::remove(&mut item, &["apiVersion"]);
        object::remove(&mut item, &["kind"]);
        item
    }
}

/// Encodes a value.
pub(crate) fn encode(value: &Value, encoding: Encoding) -> Result<Bytes, Status> {
    match encoding {
        Encoding::Json => Ok(to_json(value)),
        Encoding::Yaml => Ok(yaml::write(value).into()),
        Encoding::Protobuf => protobuf::encode(value)
            .map(Bytes::from)
            .map_err(|error| Status::internal(&error.to_string())),
    }
}

/// Sets the older version on a table, a list or metadata.
fn into_beta(value: &mut Value) {
    const BETA: &str = "meta.k8s.io/v1beta1";
    object::set(value, &["apiVersion"], BETA.into());
    for list in ["rows", "items"] {
        let items = value.get_mut(list).and_then(Value::as_array_mut);
        for item in items.into_iter().flatten() {
            let object = match list {
                "rows" => &mut item["object"],
                _ => item,
            };
            if object::kind(object) == "PartialObjectMetadata" {
                object::set(object, &["apiVersion"], BETA.into());
            }
        }
    }
}

/// A response of bytes. JSON ends with a newline, as in Go.
pub(crate) fn bytes(code: StatusCode, media_type: &'static str, body: Bytes) -> Response<Body> {
    if media_type != JSON {
        return verbatim(code, media_type, body);
    }
    // Copies only if the bytes are shared.
    let mut line = body
        .try_into_mut()
        .unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    line.put_u8(b'\n');
    verbatim(code, media_type, line.freeze())
}

/// A response of unchanged bytes.
pub(crate) fn verbatim(code: StatusCode, media_type: &'static str, body: Bytes) -> Response<Body> {
    with_body(code, HeaderValue::from_static(media_type), Body::from(body))
}

/// A response with these headers.
pub(crate) fn with_body(code: StatusCode, media_type: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, media_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// A response of a value in JSON.
pub(crate) fn value(code: StatusCode, value: &Value) -> Response<Body> {
    bytes(code, JSON, to_json(value))
}

/// A response in JSON for people, whoever asks.
pub(crate) fn indented(value: &impl Serialize) -> Result<Response<Body>, Status> {
    let text = serde_json::to_vec_pretty(value);
    let text = text.map_err(|error| Status::internal(&error.to_string()))?;
    Ok(verbatim(StatusCode::OK, JSON, text.into()))
}

/// A response of plain text.
pub(crate) fn text(code: StatusCode, text: impl Into<String>) -> Response<Body> {
    let text: String = text.into();
    bytes(code, "text/plain; charset=utf-8", text.into())
}

/// A response with an error, in the encoding that the client accepts.
pub(crate) fn error(status: &Status, encoding: Encoding) -> Response<Body> {
    let object = status.to_object();
    let body = encode(&object, encoding).unwrap_or_else(|_| to_json(&object));
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = bytes(code, encoding.media_type(), body);
    if status.details.retry_after_seconds > 0 {
        let seconds = HeaderValue::from(status.details.retry_after_seconds);
        response.headers_mut().insert("Retry-After", seconds);
    }
    response
}

/// Adds warnings, which kubectl prints after `Warning:`, as many as fit.
pub(crate) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    let all: usize = warnings.iter().map(|one| one.chars().count()).sum();
    let each = if all > WARNINGS_CHARS_MAX {
        WARNING_CHARS_MAX
    } else {
        WARNINGS_CHARS_MAX
    };
    let mut written = 0;
    for warning in warnings.iter().filter(|warning| !warning.is_empty()) {
        if written >= WARNINGS_CHARS_MAX {
            break;
        }
        written += warning.chars().count().min(each);
        let plain = warning.chars().take(each).filter(|c| !c.is_control());
        let quoted: String = plain
            .flat_map(|c| match c {
                '"' | '\\' => vec!['\\', c],
                c => vec![c],
            })
            .collect();
        // Go's servers and clients take UTF-8 in headers.
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            response.headers_mut().append("Warning", value);
        }
    }
}
