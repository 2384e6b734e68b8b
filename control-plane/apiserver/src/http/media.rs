//! Media types: the encoding of a body, and of the response, and what clients accept.

pub(crate) mod pretty;
pub(crate) mod yaml;

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderName};
use machinery::protobuf;
use machinery::status::Status;

use crate::resources::catalogue::Resource;

/// An encoding of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

/// The part of objects that a response shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The whole object.
    Object,
    /// Rows and columns for people.
    Table,
    /// Only the metadata.
    Metadata,
}

/// What the client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accept {
    pub(crate) encoding: Encoding,
    pub(crate) form: Form,
    /// True for the metadata of a list.
    pub(crate) of_list: bool,
    /// True for the older version of tables and metadata, which has the same fields.
    pub(crate) beta: bool,
}

/// A media type, or something else that a client accepts, with its parameters.
struct MediaType<'a> {
    name: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

pub(crate) const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
/// Media types of objects.
const ALL: [&str; 3] = [JSON, YAML, protobuf::MEDIA_TYPE];
/// What custom resources are written in.
const TEXTS: [&str; 2] = [JSON, YAML];
/// Media types of watches.
const STREAMS: [&str; 2] = ["application/json;stream=watch", protobuf::WATCH_MEDIA_TYPE];

impl Encoding {
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Encoding::Json => JSON,
            Encoding::Yaml => YAML,
            Encoding::Protobuf => protobuf::MEDIA_TYPE,
        }
    }

    pub(crate) fn watch_media_type(self) -> &'static str {
        match self {
            Encoding::Json | Encoding::Yaml => JSON,
            Encoding::Protobuf => protobuf::WATCH_MEDIA_TYPE,
        }
    }
}

impl Accept {
    /// The form of errors and plain answers.
    pub(crate) const PLAIN: Accept = Accept {
        encoding: Encoding::Json,
        form: Form::Object,
        of_list: false,
        beta: false,
    };

    /// Chooses the preferred form that is possible. `tables` is true if tables and metadata are possible.
    pub(crate) fn negotiate(headers: &HeaderMap, tables: bool) -> Result<Accept, Status> {
        Accept::choose(headers, tables, false)
    }

    /// The same for objects of a resource: custom resources have no protobuf, except for their
    /// metadata.
    pub(crate) fn negotiate_for(
        resource: &Resource,
        headers: &HeaderMap,
    ) -> Result<Accept, Status> {
        Accept::choose(headers, true, resource.custom.is_some())
    }

    fn choose(headers: &HeaderMap, tables: bool, custom: bool) -> Result<Accept, Status> {
        let (mut any, mut known, mut only_text) = (false, false, false);
        for one in accepted(headers) {
            any = true;
            let Some(encoding) = one.encoding() else {
                continue;
            };
            known = true;
            let form = match one.parameter("as") {
                None => Form::Object,
                Some("Table") if one.is_meta() => Form::Table,
                Some("PartialObjectMetadata" | "PartialObjectMetadataList") if one.is_meta() => {
                    Form::Metadata
                }
                Some(_) => continue,
            };
            let possible = match form {
                Form::Object => !(custom && encoding == Encoding::Protobuf),
                Form::Metadata => tables,
                // Tables in protobuf would need cells as raw JSON; no client asks for them.
                Form::Table => tables && encoding == Encoding::Json,
            };
            if possible {
                let beta = form != Form::Object && one.parameter("v") == Some("v1beta1");
                let of_list = one.parameter("as") == Some("PartialObjectMetadataList");
                return Ok(Accept {
                    encoding,
                    form,
                    of_list,
                    beta,
                });
            }
            only_text |= form == Form::Object;
        }
        match (any, known) {
            (false, _) => Ok(Accept::PLAIN),
            (true, _) if only_text => Err(Status::not_acceptable(&TEXTS)),
            // No router before the handler of custom resources looks at media types.
            (true, _) if custom => Err(Status::not_acceptable(&ALL)),
            (true, true) => Err(Status::not_acceptable(&ALL)),
            (true, false) => Err(Status::none_acceptable(&ALL)),
        }
    }

    /// The same for a list. A refusal also names the media types of watches, which have the same path.
    pub(crate) fn negotiate_list(
        resource: &Resource,
        headers: &HeaderMap,
    ) -> Result<Accept, Status> {
        Accept::negotiate_for(resource, headers).map_err(|error| {
            if !error.details.shown {
                return error;
            }
            let both: Vec<&str> = ALL.into_iter().chain(STREAMS).collect();
            Status::none_acceptable(&both)
        })
    }

    /// The same for a watch, which cannot be YAML.
    pub(crate) fn negotiate_stream(
        resource: &Resource,
        headers: &HeaderMap,
    ) -> Result<Accept, Status> {
        match Accept::negotiate_list(resource, headers) {
            Ok(accept) if accept.encoding == Encoding::Yaml => {
                Err(Status::not_acceptable(&STREAMS))
            }
            other => other,
        }
    }
}

/// The names of the media types that the client accepts, what it prefers first.
pub(crate) fn accepted_names(headers: &HeaderMap) -> Vec<&str> {
    accepted(headers).into_iter().map(|one| one.name).collect()
}

/// An error unless the client accepts the media type of a path that has only this one. Parameters
/// do not count, nor do patterns other than `*/*`.
pub(crate) fn check_only(headers: &HeaderMap, there_is: &'static str) -> Result<(), Status> {
    let names = accepted_names(headers);
    let is_accepted = |name: &&str| [there_is, "*/*"].contains(name);
    if names.is_empty() || names.iter().any(is_accepted) {
        return Ok(());
    }
    Err(Status::none_acceptable(&[there_is]))
}

/// The encoding in which the client wants aggregated discovery; `None` if it does not want it.
pub(crate) fn aggregated(headers: &HeaderMap) -> Option<Encoding> {
    accepted(headers).into_iter().find_map(|one| {
        let wanted = one.parameter("as") == Some("APIGroupDiscoveryList")
            && one.parameter("g") == Some("apidiscovery.k8s.io")
            && one.parameter("v") == Some("v2");
        if wanted { one.encoding() } else { None }
    })
}

/// True if the client takes answers in a coding such as `gzip`.
pub(crate) fn takes_coding(headers: &HeaderMap, coding: &str) -> bool {
    listed(headers, ACCEPT_ENCODING).any(|one| one.name == coding && one.quality() > 0.0)
}

/// The media type of a body, without parameters and in lower case; empty if there is none.
pub(crate) fn content_type(headers: &HeaderMap) -> String {
    let header = headers.get(http::header::CONTENT_TYPE);
    let text = header
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let name = text.split(';').next().unwrap_or_default();
    name.trim().to_ascii_lowercase()
}

/// The same for an object of a resource: custom resources have no protobuf.
pub(crate) fn object_encoding(resource: &Resource, media_type: &str) -> Result<Encoding, Status> {
    match body_encoding(media_type) {
        Ok(Encoding::Protobuf) | Err(_) if resource.custom.is_some() => {
            Err(Status::unsupported_media_type(&TEXTS))
        }
        other => other,
    }
}

/// The encoding of a body. Like Kubernetes, it treats a missing media type as JSON.
pub(crate) fn body_encoding(media_type: &str) -> Result<Encoding, Status> {
    match media_type {
        "" | JSON => Ok(Encoding::Json),
        YAML => Ok(Encoding::Yaml),
        protobuf::MEDIA_TYPE => Ok(Encoding::Protobuf),
        _ => Err(Status::unsupported_media_type(&ALL)),
    }
}

/// What the client accepts, what it prefers first. As in Kubernetes, patterns come last among equals;
/// otherwise the order of the header counts.
fn accepted(headers: &HeaderMap) -> Vec<MediaType<'_>> {
    let mut all: Vec<MediaType<'_>> = listed(headers, ACCEPT).collect();
    all.sort_by(|a, b| {
        let by_quality = b.quality().total_cmp(&a.quality());
        by_quality.then_with(|| a.stars().cmp(&b.stars()))
    });
    all
}

/// What a header lists, in its order.
fn listed(headers: &HeaderMap, header: HeaderName) -> impl Iterator<Item = MediaType<'_>> {
    let values = headers.get_all(header).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let parts = texts.flat_map(|text| text.split(','));
    parts.filter_map(|part| {
        let mut words = part.split(';').map(str::trim);
        let name = words.next().filter(|name| !name.is_empty())?;
        let parameters = words.filter_map(|word| word.split_once('=')).collect();
        Some(MediaType { name, parameters })
    })
}

impl MediaType<'_> {
    fn encoding(&self) -> Option<Encoding> {
        match self.name {
            JSON | "*/*" | "application/*" => Some(Encoding::Json),
            YAML => Some(Encoding::Yaml),
            protobuf::MEDIA_TYPE => Some(Encoding::Protobuf),
            _ => None,
        }
    }

    /// How much the client prefers it; 1 if it does not say.
    fn quality(&self) -> f32 {
        let quality = self.parameter("q");
        quality.map_or(1.0, |text| text.parse().unwrap_or(0.0))
    }

    /// How many of its two parts stand for anything.
    fn stars(&self) -> usize {
        self.name.matches('*').count()
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        let mut all = self.parameters.iter();
        all.find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    fn is_meta(&self) -> bool {
        self.parameter("g") == Some("meta.k8s.io")
            && matches!(self.parameter("v"), Some("v1" | "v1beta1"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_prefers_comes_first() {
        for (header, preferred) in [
            ("application/json, application/yaml", Encoding::Json),
            ("application/json;q=0.5, application/yaml", Encoding::Yaml),
            ("*/*, application/yaml", Encoding::Yaml),
            ("application/*, application/yaml;q=0.9", Encoding::Json),
            (
                "application/yaml;q=nonsense, application/json;q=0.1",
                Encoding::Json,
            ),
            ("text/html, */*;q=0.1", Encoding::Json),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, header.parse().unwrap())]);
            let accept = Accept::negotiate(&headers, false).unwrap();
            assert_eq!(accept.encoding, preferred, "{header}");
        }
    }

    #[test]
    fn a_coding_is_taken_unless_its_quality_is_none() {
        for (header, takes) in [
            ("gzip", true),
            ("deflate, gzip;q=0.5", true),
            ("gzip; q=1.0, br", true),
            ("gzip;q=0", false),
            ("gzip;q=0.000", false),
            ("gzip;q=nonsense", false),
            ("br", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, header.parse().unwrap())]);
            assert_eq!(takes_coding(&headers, "gzip"), takes, "{header}");
        }
    }
}
