//! The committed Rust under `src/generated` is what `proto/` says. `UPDATE=1` rewrites it.
//!
//! Needs neither protoc nor a build script: protox parses, tonic-prost-build prints. The `raw`
//! module is not a second set of .proto files but the same descriptors with one field retyped and
//! one message left out, so that the two can never disagree about the wire.

#![expect(
    clippy::disallowed_methods,
    reason = "a developer's tool reads and writes source files"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use protox::prost_reflect::prost_types::field_descriptor_proto::Type;
use protox::prost_reflect::prost_types::{FieldDescriptorProto, FileDescriptorSet};

#[path = "codegen/tables.rs"]
mod tables;

const FILES: [&str; 10] = [
    "auth.proto",
    "election.proto",
    "health.proto",
    "lock.proto",
    "membership.proto",
    "mvcc.proto",
    "otlp.proto",
    "raft_internal.proto",
    "rpc.proto",
    "usage.proto",
];

/// What `raw` holds as encoded bytes: an embedded message and a bytes field look the same on the
/// wire.
const RAW_FIELD: (&str, &str) = ("WatchResponse", "events");

/// The message of which `raw` has one of its own, and where that is.
const RAW_MESSAGE: (&str, &str) = ("RangeResponse", "crate::range::RangeResponse");

/// The file these are in, and what it imports.
const RAW_FILES: [&str; 3] = ["auth.proto", "mvcc.proto", "rpc.proto"];

/// `URLs` would become `ur_ls`. Field names are not on the wire, so Rust gets its own.
const RUST_NAMES: [(&str, &str); 2] = [("peerURLs", "peer_urls"), ("clientURLs", "client_urls")];

const PACKAGE: &str = "etcdserverpb";

#[test]
fn committed_code_is_what_the_proto_files_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fresh = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("codegen");
    let mut set = protox::compile(FILES, [root.join("proto")]).unwrap();
    // Under the names of the files, which are the ones JSON shows.
    let tables = tables::print(&set);
    rename_fields(&mut set);
    generate(&fresh, &set).unwrap();
    fs::write(fresh.join("descriptors.rs"), tables).unwrap();

    let committed = root.join("src/generated");
    let update = std::env::var_os("UPDATE").is_some_and(|value| value == "1");
    let names = |dir: &Path| -> BTreeSet<_> {
        let entries = fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    };
    let expected = names(&fresh);
    for name in &expected {
        let want = fs::read_to_string(fresh.join(name)).unwrap();
        let path = committed.join(name);
        if update {
            fs::write(&path, want).unwrap();
            continue;
        }
        let have = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            have == want,
            "{name:?} is stale; run UPDATE=1 cargo codegen"
        );
    }
    assert_eq!(
        names(&committed),
        expected,
        "unexpected files in src/generated"
    );
}

fn generate(out: &Path, set: &FileDescriptorSet) -> io::Result<()> {
    let raw_dir = out.with_extension("raw");
    for dir in [out, &raw_dir] {
        let _ = fs::remove_dir_all(dir);
        fs::create_dir_all(dir)?;
    }
    configure(out).compile_fds(set.clone())?;

    let raw = raw_set(set);
    let mut builder = configure(&raw_dir).build_client(false);
    let affected = affected_by(&raw, &[RAW_FIELD.0, RAW_MESSAGE.0]);
    builder = builder.extern_path(format!(".{PACKAGE}.{}", RAW_MESSAGE.0), RAW_MESSAGE.1);
    for file in &raw.file {
        if file.package() != PACKAGE {
            let rust = format!("crate::{}", file.package());
            builder = builder.extern_path(format!(".{}", file.package()), rust);
            continue;
        }
        for name in file.message_type.iter().map(|message| message.name()) {
            if !affected.contains(name) {
                let path = format!(".{PACKAGE}.{name}");
                builder = builder.extern_path(path, rust_path(name));
            }
        }
    }
    builder.compile_fds(raw)?;
    let printed = raw_dir.join(format!("{PACKAGE}.rs"));
    fs::rename(printed, out.join("raw.rs"))
}

fn configure(out: &Path) -> tonic_prost_build::Builder {
    tonic_prost_build::configure()
        .bytes(".")
        .codec_path("crate::codec::ProtoCodec")
        .emit_rerun_if_changed(false)
        .out_dir(out)
}

/// The file with the client API, the field retyped, and of the services only the hot ones.
fn raw_set(set: &FileDescriptorSet) -> FileDescriptorSet {
    let mut raw = set.clone();
    raw.file.retain(|file| RAW_FILES.contains(&file.name()));
    for file in &mut raw.file {
        file.service
            .retain(|service| matches!(service.name(), "KV" | "Watch"));
        file.enum_type.clear();
        for message in &mut file.message_type {
            let owner = message.name().to_owned();
            for field in &mut message.field {
                if RAW_FIELD == (owner.as_str(), field.name()) {
                    field.set_type(Type::Bytes);
                    field.type_name = None;
                }
            }
        }
    }
    raw
}

/// Messages that hold one of `seeds`, directly or through others, and those themselves.
fn affected_by(set: &FileDescriptorSet, seeds: &[&str]) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = seeds.iter().map(|&name| name.to_owned()).collect();
    let messages = || set.file.iter().flat_map(|file| &file.message_type);
    loop {
        let before = found.len();
        for message in messages() {
            let holds = |field: &FieldDescriptorProto| {
                let name = field.type_name().rsplit('.').next().unwrap_or_default();
                found.contains(name)
            };
            if message.field.iter().any(holds) {
                found.insert(message.name().to_owned());
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

fn rename_fields(set: &mut FileDescriptorSet) {
    let messages = set.file.iter_mut().flat_map(|file| &mut file.message_type);
    for field in messages.flat_map(|message| &mut message.field) {
        if let Some((_, name)) = RUST_NAMES.iter().find(|(proto, _)| *proto == field.name()) {
            field.name = Some((*name).to_owned());
        }
    }
}

/// Where the main module holds the message: `HashKVRequest` is printed as `HashKvRequest`.
fn rust_path(name: &str) -> String {
    format!("crate::{PACKAGE}::{}", name.replace("KV", "Kv"))
}
