//! What `proto/` says of messages and methods, as tables: for those who read or write messages
//! without their Rust types. The tables themselves are generated.

use std::fmt;

include!("generated/descriptors.rs");

/// A method of a service.
#[derive(Debug)]
pub struct Method {
    /// As a gRPC request names it: `/etcdserverpb.KV/Range`.
    pub path: &'static str,
    pub input: &'static Message,
    pub output: &'static Message,
    pub client_streaming: bool,
    pub server_streaming: bool,
}

/// A message and its fields, in the order of the file. `Debug` names only the message: messages
/// hold each other, in circles too.
pub struct Message {
    pub name: &'static str,
    pub fields: &'static [Field],
}

#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    /// The name in lower camel case, which JSON knows as well.
    pub json_name: &'static str,
    pub number: u32,
    pub kind: Kind,
    pub repeated: bool,
    /// Full name of the oneof it is a member of.
    pub oneof: Option<&'static str>,
}

/// The kinds that the files use, and no other.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Bool,
    Int32,
    Int64,
    Uint32,
    Uint64,
    String,
    Bytes,
    Enum(&'static Enum),
    Message(&'static Message),
}

#[derive(Debug)]
pub struct Enum {
    pub values: &'static [(&'static str, i32)],
}

/// The method a gRPC path names.
pub fn method(path: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.path == path)
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Message {
    /// A field by one of its names.
    pub fn named(&self, name: &str) -> Option<(usize, &'static Field)> {
        let mut fields = self.fields.iter().enumerate();
        fields.find(|(_, field)| field.json_name == name || field.name == name)
    }

    /// A field by its number on the wire.
    pub fn numbered(&self, number: u32) -> Option<(usize, &'static Field)> {
        let mut fields = self.fields.iter().enumerate();
        fields.find(|(_, field)| field.number == number)
    }
}

impl Enum {
    pub fn number(&self, name: &str) -> Option<i32> {
        let found = self.values.iter().find(|(known, _)| *known == name);
        found.map(|(_, number)| *number)
    }

    pub fn name(&self, number: i32) -> Option<&'static str> {
        let found = self.values.iter().find(|(_, known)| *known == number);
        found.map(|(name, _)| *name)
    }
}
