use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

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
