use std::sync::Arc;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::FutureExt as _;
use http::StatusCode;
use http_body_util::BodyExt as _;

use super::*;
use crate::http::answer::reply;
use crate::http::media::Accept;
use crate::registry::strategy;
use crate::resources::catalogue::{Catalogue, Resource};

/// Every object of the golden file whose kind is stored, as Go stores it and as JSON.
fn all() -> Vec<(Arc<Resource>, Arc<Stored>)> {
    let catalogue = Catalogue::new(strategy::builtin().iter().cloned());
    let mut all = Vec::new();
    for line in include_str!("../../../../../machinery/testdata/objects.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let (version, kind) = (
            line["apiVersion"].as_str().unwrap(),
            line["kind"].as_str().unwrap(),
        );
        let (group, version) = machinery::schema::split_api_version(version);
        let Some(kind) = machinery::schema::kind(group, version, kind) else {
            continue;
        };
        let resource = catalogue.of(kind).unwrap();
        let stored = resource.storage.as_ref();
        let Some(storage) = stored.filter(|_| convert::is_same(resource)) else {
            continue;
        };
        let wire = BASE64.decode(line["protobuf"].as_str().unwrap()).unwrap();
        for bytes in [wire, line["json"].to_string().into_bytes()] {
            let stored = Stored::read(storage, "/registry/x/y", &bytes, 1234).unwrap();
            all.push((Arc::clone(resource), Arc::new(stored)));
        }
    }
    assert!(all.len() > 200, "{}", all.len());
    all
}

fn every_way(resource: &Arc<Resource>) -> Vec<Shown> {
    let mut ways = Vec::new();
    for encoding in [Encoding::Json, Encoding::Yaml, Encoding::Protobuf] {
        for form in [Form::Object, Form::Metadata, Form::Table] {
            for beta in [false, true] {
                for include in [Include::None, Include::Metadata, Include::Object] {
                    // Tables exist only in JSON, and only tables include objects.
                    let table = form == Form::Table;
                    let possible = !table || encoding == Encoding::Json;
                    if possible && (table || include == Include::None) {
                        // Protobuf has no older version of metadata.
                        let beta = beta && form != Form::Object && encoding != Encoding::Protobuf;
                        let accept = Accept {
                            encoding,
                            form,
                            of_list: false,
                            beta,
                        };
                        ways.push(Shown {
                            resource: Arc::clone(resource),
                            accept,
                            include,
                        });
                    }
                }
            }
        }
    }
    ways
}

/// Ages depend on the time, but those of old objects do not change while a test runs.
#[test]
fn every_object_is_shown_as_the_long_way_round_shows_it() {
    let (mut spliced, mut not) = (0, 0);
    for (resource, stored) in all() {
        for shown in every_way(&resource) {
            let long = shown.object(&shown.decoded(&stored).unwrap()).unwrap();
            // First newly encoded, then from the kept form.
            for _ in 0..2 {
                match object(&shown, &stored) {
                    Some(short) => {
                        assert_eq!(short.unwrap(), long, "{:?}", shown.accept);
                        spliced += 1;
                    }
                    None => not += 1,
                }
            }
        }
    }
    assert!(spliced > not, "{spliced} of {}", spliced + not);
}

#[test]
fn every_list_is_shown_as_the_long_way_round_shows_it() {
    let metas = [
        ListMeta {
            revision: 77,
            ..ListMeta::default()
        },
        ListMeta {
            revision: 77,
            token: "abc".into(),
            remaining: Some(5),
        },
    ];
    for pair in all().chunks(2) {
        let (resource, stored) = &pair[0];
        let items = [Arc::clone(stored), Arc::clone(stored)];
        for (shown, meta) in every_way(resource).into_iter().zip(metas.iter().cycle()) {
            let objects = items.each_ref().map(|one| shown.decoded(one).unwrap());
            for objects in [&objects[..], &[]] {
                let long = match (shown.accept.encoding, shown.accept.form) {
                    (Encoding::Json, Form::Object) => of_texts(&shown, objects, meta),
                    _ => {
                        let objects = objects.iter().cloned().map(Ok);
                        shown.list_of(objects, meta).unwrap()
                    }
                };
                let (code, media_type) = (StatusCode::OK, shown.accept.encoding.media_type());
                let long = reply::bytes(code, media_type, long);
                let short = shown.list(&items[..objects.len()], meta).unwrap();
                let (short, long) = (body(short.into_body()), body(long.into_body()));
                assert_eq!(short, long, "{:?}", shown.accept);
            }
        }
    }
}

#[test]
fn a_list_of_decoded_objects_holds_one_of_them_at_a_time() {
    let all = all();
    let (resource, stored) = &all[0];
    for shown in every_way(resource) {
        let mut before = std::sync::Weak::<Value>::new();
        let objects = std::iter::repeat_with(|| {
            assert!(before.upgrade().is_none(), "{:?}", shown.accept);
            let object = Arc::new(stored.decode().unwrap());
            before = Arc::downgrade(&object);
            Ok(object)
        });
        let list = shown.list_of(objects.take(3), &ListMeta::default());
        list.unwrap();
    }
}

fn body(body: Body) -> Bytes {
    let collected = body.collect().now_or_never();
    collected.unwrap().unwrap().to_bytes()
}

/// A plain list in JSON, whose items are encoded like single objects.
fn of_texts(shown: &Shown, objects: &[Arc<Value>], meta: &ListMeta) -> Bytes {
    let texts = objects.iter().map(|object| {
        let text = shown.object(object).unwrap();
        String::from_utf8(text.to_vec()).unwrap()
    });
    let (kind, version) = (
        shown.resource.kind.list_kind(),
        shown.resource.kind.api_version(),
    );
    let (meta, items) = (meta.to_value(), texts.collect::<Vec<_>>().join(","));
    let head = format!("\"kind\":\"{kind}\",\"apiVersion\":\"{version}\"");
    format!("{{{head},\"metadata\":{meta},\"items\":[{items}]}}").into()
}

#[test]
fn what_one_object_cannot_do_is_done_for_the_whole_list_the_long_way() {
    let all = all();
    let (resource, wire) = &all[0];
    let (_, json) = &all[1];
    let accept = Accept {
        encoding: Encoding::Protobuf,
        form: Form::Object,
        of_list: false,
        beta: false,
    };
    let shown = Shown {
        resource: Arc::clone(resource),
        accept,
        include: Include::None,
    };
    let mixed = [Arc::clone(wire), Arc::clone(json)];
    let meta = ListMeta::default();
    assert!(list(&shown, &mixed[..1], &meta).is_some() && list(&shown, &mixed, &meta).is_none());
    let [mixed, same] = [mixed, [Arc::clone(wire), Arc::clone(wire)]]
        .map(|all| body(shown.list(&all, &meta).unwrap().into_body()));
    assert_eq!(mixed, same);
    assert!(reply::encode(&json!({"kind": "none"}), Encoding::Protobuf).is_err());
}
