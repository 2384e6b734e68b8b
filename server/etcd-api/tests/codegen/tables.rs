//! Prints the tables of `etcd_api::descriptor`.

#![expect(
    clippy::unwrap_used,
    reason = "a panic is how a test reports, in its helpers too"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use protox::prost_reflect::prost_types::FileDescriptorSet;
use protox::prost_reflect::{
    Cardinality, DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor,
};

const HEAD: &str = "// @generated from proto/ by tests/codegen.rs\n";

/// Nobody reads these without their Rust types, and they have kinds that are not in the tables.
const LEFT_OUT: [&str; 2] = ["grpc.", "opentelemetry."];

pub(crate) fn print(set: &FileDescriptorSet) -> String {
    let pool = DescriptorPool::from_file_descriptor_set(set.clone()).unwrap();
    let mut out = HEAD.to_owned();
    out.push_str("\n/// Every method of etcd's services, and of Stele's own.\npub static METHODS: &[Method] = &[\n");
    let (mut messages, mut enums) = (BTreeMap::new(), BTreeMap::new());
    for service in pool.services() {
        if LEFT_OUT
            .iter()
            .any(|package| service.full_name().starts_with(package))
        {
            continue;
        }
        for method in service.methods() {
            let (input, output) = (method.input(), method.output());
            writeln!(
                out,
                "    Method {{ path: \"/{}/{}\", input: &{}, output: &{}, client_streaming: {}, server_streaming: {} }},",
                service.full_name(),
                method.name(),
                constant(input.full_name()),
                constant(output.full_name()),
                method.is_client_streaming(),
                method.is_server_streaming(),
            )
            .unwrap();
            reach(input, &mut messages, &mut enums);
            reach(output, &mut messages, &mut enums);
        }
    }
    out.push_str("];\n");
    for message in messages.values() {
        print_message(&mut out, message);
    }
    for (name, kind) in enums {
        writeln!(
            out,
            "\nstatic {}: Enum = Enum {{ values: &[",
            constant(&name)
        )
        .unwrap();
        for value in kind.values() {
            writeln!(out, "    ({:?}, {}),", value.name(), value.number()).unwrap();
        }
        out.push_str("] };\n");
    }
    out
}

/// Collects a message and what it holds.
fn reach(
    message: MessageDescriptor,
    messages: &mut BTreeMap<String, MessageDescriptor>,
    enums: &mut BTreeMap<String, EnumDescriptor>,
) {
    let name = message.full_name().to_owned();
    if messages.insert(name, message.clone()).is_some() {
        return;
    }
    for field in message.fields() {
        match field.kind() {
            Kind::Message(held) => reach(held, messages, enums),
            Kind::Enum(held) => {
                enums.insert(held.full_name().to_owned(), held);
            }
            _ => {}
        }
    }
}

fn print_message(out: &mut String, message: &MessageDescriptor) {
    let (full, name) = (message.full_name(), constant(message.full_name()));
    writeln!(
        out,
        "\nstatic {name}: Message = Message {{ name: {full:?}, fields: &["
    )
    .unwrap();
    // Of the file's order, not of the numbers', which `fields()` has.
    for described in &message.descriptor_proto().field {
        let field = message.get_field_by_name(described.name()).unwrap();
        assert!(
            !field.is_map() && !field.is_group(),
            "{} has no kind here",
            field.full_name()
        );
        let oneof = field.containing_oneof();
        let oneof = oneof.map(|oneof| oneof.full_name().to_owned());
        writeln!(
            out,
            "    Field {{ name: {:?}, json_name: {:?}, number: {}, kind: {}, repeated: {}, oneof: {oneof:?} }},",
            field.name(),
            field.json_name(),
            field.number(),
            kind(&field),
            field.cardinality() == Cardinality::Repeated,
        )
        .unwrap();
    }
    out.push_str("] };\n");
}

fn kind(field: &FieldDescriptor) -> String {
    match field.kind() {
        Kind::Bool => "Kind::Bool".into(),
        Kind::Int32 => "Kind::Int32".into(),
        Kind::Int64 => "Kind::Int64".into(),
        Kind::Uint32 => "Kind::Uint32".into(),
        Kind::Uint64 => "Kind::Uint64".into(),
        Kind::String => "Kind::String".into(),
        Kind::Bytes => "Kind::Bytes".into(),
        Kind::Enum(described) => format!("Kind::Enum(&{})", constant(described.full_name())),
        Kind::Message(described) => format!("Kind::Message(&{})", constant(described.full_name())),
        other => panic!("{}: the tables have no {other:?}", field.full_name()),
    }
}

/// `etcdserverpb.RangeRequest` as the name of a static.
fn constant(full_name: &str) -> String {
    full_name.replace('.', "_").to_uppercase()
}
