//! The bodies of fuzz targets. They panic on an error.

mod stranger;

use machinery::{protobuf, strict};
use serde_json::Value;

use crate::http::question::body::{self, Expected};
use crate::registry::lifecycle;
use crate::registry::options::Validation;
use crate::registry::strategy;
use crate::resources::catalogue::{Resource, Storage};
use crate::resources::convert;
use crate::resources::defaults;
use crate::storage::decoded;
use crate::validate;

pub use stranger::stranger;

/// Decodes bytes as a body: the first byte selects the encoding, the second one the kind. Sets
/// defaults, validates, and checks that both encodings of the result decode to the same object.
pub fn decode_default_validate(data: &[u8]) {
    let [encoding, kind, body @ ..] = data else {
        return;
    };
    let all = strategy::builtin();
    let resource = &all[usize::from(*kind) % all.len()];
    let media_type = match encoding % 2 {
        0 => "application/json",
        _ => protobuf::MEDIA_TYPE,
    };
    let expected = Expected {
        group: resource.kind.group(),
        version: resource.kind.version(),
        kind: resource.kind.kind(),
        message: resource.kind.message(),
    };
    let read = body::decode(body, media_type, &expected, Validation::Warn);
    if let (Ok(read), Some(storage)) = (read, &resource.storage) {
        stored(resource, storage, read.object);
    }
}

fn stored(resource: &Resource, storage: &Storage, mut object: Value) {
    if defaults::set_defaults(resource, &mut object).is_err() {
        return;
    }
    lifecycle::created(resource, &mut object);
    let rules = &strategy::of(resource).rules;
    let causes: Vec<_> = rules
        .create(resource, &object, validate::Policy::default())
        .into();
    drop(causes);
    lifecycle::forget_empty(resource, &mut object);
    drop(rules.update(
        resource,
        "",
        (&object, &object),
        validate::Policy::default(),
    ));
    let stored = convert::to_stored(resource, object);
    let written = decoded::encode(storage, &stored).expect("what was read can be written");
    let read = decoded::DecodedObject::decode(storage, "", &written, 0);
    let again = read.expect("what was written reads").object;
    let twice = decoded::encode(storage, &again.object).expect("what was read can be written");
    assert_eq!(written, twice, "the second time it is written as the first");
    if !convert::is_same(resource) {
        // A converted object takes the form of its new version only when it is decoded.
        return;
    }
    let text = decoded::to_json(&stored);
    let read = strict::decode(&text, storage.kind.message()).expect("JSON reads again");
    assert!(read.problems.is_empty(), "{:?}", read.problems);
    assert_eq!(
        decoded::to_json(&read.object),
        text,
        "JSON reads the same again"
    );
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::*;

    /// The fuzz input for a body: the encoding, the index of the object's kind, then the body.
    fn framed(encoding: u8, object: &Value, body: &[u8]) -> Option<Vec<u8>> {
        let (version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
        let (group, version) = machinery::schema::split_api_version(version);
        let is = |one: &std::sync::Arc<Resource>| {
            (one.kind.group(), one.kind.version(), one.kind.kind()) == (group, version, kind)
        };
        let at = u8::try_from(strategy::builtin().iter().position(is)?).ok()?;
        Some([&[encoding, at], body].concat())
    }

    #[test]
    fn every_kind_reads_the_same_again_whole_and_damaged() {
        let mut count = 0;
        for line in include_str!("../../machinery/testdata/objects.jsonl").lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let text = line["json"].to_string();
            let wire = line["protobuf"].as_str().unwrap();
            let wire = base64::engine::general_purpose::STANDARD
                .decode(wire)
                .unwrap();
            let forms = [(0, text.as_bytes()), (1, wire.as_slice())];
            for (encoding, body) in forms {
                let Some(whole) = framed(encoding, &line["json"], body) else {
                    continue;
                };
                decode_default_validate(&whole);
                count += 1;
                for at in (2..whole.len()).step_by(whole.len() / 8 + 1) {
                    let mut damaged = whole.clone();
                    damaged[at] ^= 1 << (at % 8);
                    decode_default_validate(&damaged);
                }
            }
        }
        assert!(count > 50, "{count}");
    }
}
