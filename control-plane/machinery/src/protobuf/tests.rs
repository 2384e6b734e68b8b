use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;

/// Go's output for every kind: empty, with few fields, and with all fields.
fn golden() -> impl Iterator<Item = (Value, Vec<u8>)> {
    include_str!("../../testdata/objects.jsonl")
        .lines()
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            let bytes = BASE64.decode(line["protobuf"].as_str().unwrap()).unwrap();
            (without_nulls(line["json"].take()), bytes)
        })
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        Value::Array(list) => list.into_iter().map(without_nulls).collect(),
        value => value,
    }
}

#[test]
fn every_kind_is_read_as_go_reads_it() {
    let mut count = 0;
    for (object, bytes) in golden() {
        let read = decode(&bytes).unwrap_or_else(|error| panic!("{error}: {object}"));
        assert_eq!(read, object);
        count += 1;
    }
    assert!(count > 250, "{count}");
}

#[test]
fn every_kind_is_written_byte_for_byte_as_go_writes_it() {
    for (object, bytes) in golden() {
        let written = encode(&object).unwrap_or_else(|error| panic!("{error}: {object}"));
        assert!(written == bytes, "{object}\n{written:?}\n{bytes:?}");
    }
}

#[test]
fn cut_bytes_never_panic() {
    let (_, bytes) = golden()
        .find(|(object, _)| object["kind"] == "Pod")
        .unwrap();
    for end in 0..bytes.len() {
        let _ = decode(&bytes[..end]);
    }
    assert!(decode(b"").is_err() && decode(b"{}").is_err());
}

#[test]
fn deep_and_wide_messages_are_refused() {
    let mut schema = Vec::new();
    for _ in 0..5000 {
        let mut outer = Vec::new();
        let not = schema::message("apiextensions/v1.JSONSchemaProps").unwrap();
        wire::put_bytes(&mut outer, not.field("not").unwrap().number, &schema);
        schema = outer;
    }
    let of = schema::message("apiextensions/v1.JSONSchemaProps").unwrap();
    assert!(decode_message(&schema, of).is_err());
    let of = schema::message("core/v1.PodSpec").unwrap();
    let wide = [0x12, 0].repeat(1_000_000);
    assert!(decode_message(&wide, of).is_err());
}

#[test]
fn a_watch_frame_has_its_length_in_front() {
    let frame = watch_frame("ADDED", b"k8s\0x");
    assert_eq!(frame[..4], 16_u32.to_be_bytes());
    assert_eq!(&frame[4..], b"\x0a\x05ADDED\x12\x07\x0a\x05k8s\0x");
}

/// The objects of the golden file that have metadata, with their bytes.
fn stored() -> impl Iterator<Item = (Value, Vec<u8>, &'static Message)> {
    golden().filter_map(|(object, bytes)| {
        let (group, version) = schema::split_api_version(object::api_version(&object));
        let kind = schema::kind(group, version, object::kind(&object))?;
        object::metadata(&object)?;
        let message = kind.message();
        let metadata = message.own("metadata")?.message()?;
        (metadata.name == "meta/v1.ObjectMeta").then_some((object, bytes, message))
    })
}

/// What `with_version` must give, if it gives anything: the long way round.
fn rewritten(bytes: &[u8], message: &'static Message, version: &str) -> Option<Vec<u8>> {
    let mut object = decode_as(bytes, message).ok()?;
    object::metadata_mut(&mut object).insert("resourceVersion".into(), version.into());
    encode(&object).ok()
}

#[test]
fn splicing_a_version_is_decoding_and_encoding() {
    let (mut count, mut refused) = (0, Vec::new());
    for (object, bytes, message) in stored() {
        let named = (object::api_version(&object), object::kind(&object));
        let Some(spliced) = splice::Canonical::with_version(&bytes, named, message, "12345") else {
            refused.push(named.1.to_owned());
            continue;
        };
        assert_eq!(Some(&spliced), rewritten(&bytes, message, "12345").as_ref());
        let again = splice::Canonical::trusted(&spliced).unwrap();
        let back = again.at("7").unwrap();
        assert_eq!(Some(back), rewritten(&bytes, message, "7"));
        count += 1;
    }
    refused.dedup();
    // Schemas are not told apart, and lists that are messages neither.
    assert!(count > 150, "{count}, refused: {refused:?}");
}

#[test]
fn damaged_bytes_are_spliced_as_they_would_be_rewritten_or_refused() {
    // Bytes become others, one at a time; much of what comes of it is still read by the decoder.
    let (mut taken, mut read) = (0, 0);
    for (seed, (object, bytes, message)) in stored().enumerate() {
        let named = (object::api_version(&object), object::kind(&object));
        for at in (seed % 499..bytes.len()).step_by(499) {
            for flip in [1, 0x80, 0x0f] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let spliced = splice::Canonical::with_version(&damaged, named, message, "5");
                let rewritten = rewritten(&damaged, message, "5");
                read += usize::from(rewritten.is_some());
                if spliced.is_some() {
                    taken += 1;
                    assert_eq!(spliced, rewritten, "{at} of {object}");
                }
            }
        }
    }
    assert!(taken > 50 && read > taken, "{taken} of {read}");
}

#[test]
fn fields_are_read_in_place_as_the_decoded_object_has_them() {
    let mut count = 0;
    for (object, bytes, message) in stored() {
        let view = splice::Canonical::trusted(&bytes).unwrap();
        let metadata = |key: &str| view.value(message, &["metadata", key]);
        for key in [
            "name",
            "namespace",
            "uid",
            "generation",
            "creationTimestamp",
        ] {
            let shown = object::at(&object, &["metadata", key]).cloned();
            assert_eq!(metadata(key), shown, "{key} of {object}");
        }
        for (key, value) in object::labels(&object).into_iter().flatten() {
            assert_eq!(view.label(key), value.as_str());
        }
        assert_eq!(view.label("no such label"), None);
        for part in ["spec", "status"] {
            let fields = object.get(part).and_then(Value::as_object);
            for (key, value) in fields.into_iter().flatten() {
                let plain = value.is_string() || value.is_number() || value.is_boolean();
                let own = message
                    .own(part)
                    .and_then(|field| field.message()?.own(key));
                if plain && own.is_some() {
                    assert_eq!(view.value(message, &[part, key]).as_ref(), Some(value));
                    count += 1;
                }
            }
        }
    }
    assert!(count > 200, "{count}");
}

#[test]
fn a_spliced_list_is_what_the_encoder_writes() {
    let mut count = 0;
    for (object, bytes, message) in stored() {
        let (version, kind) = (object::api_version(&object), object::kind(&object));
        let (group, of_group) = schema::split_api_version(version);
        let kind = format!("{kind}List");
        if schema::body(group, of_group, &kind).is_none() {
            continue;
        }
        let metadata =
            serde_json::json!({"resourceVersion": "8", "continue": "x", "remainingItemCount": 3});
        let list = serde_json::json!({
            "kind": kind, "apiVersion": version, "metadata": metadata, "items": [object, object],
        });
        let raw = splice::Canonical::trusted(&bytes).unwrap().raw();
        let lengths = [raw.len(); 2].into_iter();
        let (mut spliced, end) = splice::list((version, &kind), &metadata, lengths).unwrap();
        for item in [raw, raw] {
            let before = spliced.len();
            splice::put_item(&mut spliced, item);
            assert_eq!(spliced.len() - before, splice::item_length(item.len()));
        }
        spliced.extend_from_slice(end);
        assert_eq!(spliced, encode(&list).unwrap(), "{kind}");
        let (_, _) = (message, count += 1);
    }
    assert!(count > 100, "{count}");
}

#[test]
fn whole_floats_are_read_without_a_fraction() {
    let maximum = |maximum: Value| {
        let schema = serde_json::json!({"type": "integer", "maximum": maximum});
        let definition = serde_json::json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]},
        });
        let read = decode(&encode(&definition).unwrap()).unwrap();
        read["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["maximum"].to_string()
    };
    assert_eq!(maximum(65535.into()), "65535");
    assert_eq!(maximum(0.into()), "0");
    assert_eq!(maximum(0.5.into()), "0.5");
}

#[test]
fn what_is_written_can_be_read_however_deep_it_is() {
    let mut nested = json!({});
    for depth in 1..200 {
        let data = std::mem::take(&mut nested);
        let revision = json!({
            "kind": "ControllerRevision", "apiVersion": "apps/v1",
            "metadata": {"managedFields": [{"manager": "m", "fieldsV1": {"f:data": data}}]},
            "data": data, "revision": 1,
        });
        match encode(&revision) {
            Ok(bytes) => assert_eq!(decode(&bytes).map(drop), Ok(()), "{depth}"),
            Err(error) => {
                assert!(depth > 120, "{depth}");
                assert_eq!(error.to_string(), "the object nests too deeply");
            }
        }
        nested = json!({"f:a": data});
    }
}

/// A config map whose managers own what these bodies say.
fn within(bodies: &[&[u8]]) -> Vec<u8> {
    let field = |number, bytes: &[u8]| {
        let mut out = Vec::new();
        wire::put_bytes(&mut out, number, bytes);
        out
    };
    let entries = bodies
        .iter()
        .map(|body| field(17, &field(7, &field(1, body))));
    let metadata: Vec<u8> = entries.flatten().collect();
    splice::envelope("v1", "ConfigMap", &field(1, &metadata))
}

#[test]
fn bodies_within_bodies_have_the_bounds_of_one() {
    let mut body = within(&[b"{}"]);
    for _ in 0..5 {
        body = within(&[&body]);
    }
    assert!(decode(&body).is_ok());
    for _ in 0..3000 {
        body = within(&[&body]);
    }
    let error = decode(&body).unwrap_err();
    assert_eq!(error.to_string(), "the message nests too deeply");

    // Each container takes two bytes here, and hundreds once it is decoded.
    let mut containers = Vec::new();
    wire::put_bytes(&mut containers, 2, &[0x12, 0].repeat(60_000));
    let pod = splice::envelope("v1", "Pod", &containers);
    assert!(decode(&within(&[&pod])).is_ok());
    let error = decode(&within(&[&pod, &pod])).unwrap_err();
    assert_eq!(error.to_string(), "the message has too many parts");
}
