//! What server-side apply must know of a value's type: which lists and maps are owned as a whole,
//! and what identifies the items of the others.

use std::sync::LazyLock;

use serde_json::Value;

use crate::schema::{Field, ListType, Message, Type};

/// The type of a value.
pub trait Typing: Sync {
    /// The forms that the value may have.
    fn forms(&self) -> Forms<'_>;

    /// The declared field with this name, if the value is a map.
    fn field(&self, _name: &str) -> Option<Member<'_>> {
        None
    }

    /// The declared fields that read as null when a map does not have them.
    fn nulls(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// The forms that a value may have. A value with several of them is of the one that fits it.
#[derive(Clone, Default)]
pub struct Forms<'a> {
    /// It may be a number, text or boolean.
    pub scalar: Option<Scalar>,
    /// It may be a list.
    pub list: Option<List<'a>>,
    /// It may be a map.
    pub map: Option<Map<'a>>,
}

/// A type of plain values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// A number.
    Number,
    /// Text.
    Text,
    /// True or false.
    Boolean,
    /// Any of them.
    Any,
}

/// A list.
#[derive(Clone)]
pub struct List<'a> {
    /// What makes two items the same item.
    pub identity: Identity<'a>,
    /// The type of its items.
    pub item: &'a dyn Typing,
}

/// What makes two items of a list the same item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity<'a> {
    /// Nothing: the list is owned as a whole.
    Atomic,
    /// Being equal.
    Value,
    /// Equal values of these fields.
    Keys(Vec<&'a str>),
}

/// A map or struct.
#[derive(Clone, Copy)]
pub struct Map<'a> {
    /// It is owned as a whole.
    pub atomic: bool,
    /// The type of fields that are not declared; `None` if there are none.
    pub other: Option<&'a dyn Typing>,
    /// Any map, of which nothing is declared.
    pub deduced: bool,
}

/// A declared field.
pub struct Member<'a> {
    /// Its type.
    pub typing: &'a dyn Typing,
    /// Its value if a map does not have it.
    pub default: Option<&'a Value>,
}

/// A value of any form that is owned as a whole.
pub struct UntypedAtomic;

/// A value of any form: maps are owned field by field, and lists as a whole.
pub struct UntypedDeduced;

static TEXT: Type = Type::String(None);

impl Typing for UntypedAtomic {
    fn forms(&self) -> Forms<'_> {
        let list = List {
            identity: Identity::Atomic,
            item: &UntypedAtomic,
        };
        let map = Map {
            atomic: true,
            other: Some(&UntypedAtomic),
            deduced: false,
        };
        Forms {
            scalar: Some(Scalar::Any),
            list: Some(list),
            map: Some(map),
        }
    }
}

impl Typing for UntypedDeduced {
    fn forms(&self) -> Forms<'_> {
        let map = Map {
            atomic: false,
            other: Some(&UntypedDeduced),
            deduced: true,
        };
        Forms {
            map: Some(map),
            ..UntypedAtomic.forms()
        }
    }
}

impl Forms<'_> {
    /// A scalar.
    pub fn scalar(kind: Scalar) -> Self {
        Forms {
            scalar: Some(kind),
            ..Forms::default()
        }
    }
}

impl Typing for Message {
    fn forms(&self) -> Forms<'_> {
        if let (true, Some(field)) = (self.list, self.fields.first()) {
            return field.kind.forms();
        }
        let map = Map {
            atomic: self.atomic,
            other: self.open.then_some(&UntypedDeduced),
            deduced: false,
        };
        Forms {
            map: Some(map),
            ..Forms::default()
        }
    }

    fn field(&self, name: &str) -> Option<Member<'_>> {
        if self.typed && ["apiVersion", "kind"].contains(&name) {
            return Some(Member {
                typing: &TEXT,
                default: None,
            });
        }
        let field = Message::field(self, name)?;
        Some(Member {
            typing: field,
            default: field.default.as_ref().or_else(|| field.zero()),
        })
    }

    fn nulls(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for field in &self.fields {
            match &field.kind {
                Type::Message(id) if field.inline => names.extend(id.get().nulls()),
                _ if field.reads_null() => names.push(field.name),
                _ => {}
            }
        }
        names
    }
}

impl Field {
    /// The plain value that Go shows for a missing one: the API's document says that it is the
    /// default.
    fn zero(&self) -> Option<&'static Value> {
        static FALSE: Value = Value::Bool(false);
        static ZERO: LazyLock<Value> = LazyLock::new(|| 0.into());
        static EMPTY: Value = Value::String(String::new());
        if self.pointer || self.omit_empty || self.omit_zero {
            return None;
        }
        match self.kind {
            Type::String(_) => Some(&EMPTY),
            Type::Bool => Some(&FALSE),
            Type::Int32 | Type::Int64 | Type::Float64 => Some(&ZERO),
            _ => None,
        }
    }

    /// What identifies the items of this list. Without a word about server-side apply, what
    /// strategic merge patches do decides.
    fn identity(&self) -> Identity<'_> {
        match self.list {
            ListType::Atomic => Identity::Atomic,
            ListType::Set => Identity::Value,
            ListType::Map => Identity::Keys(self.list_keys.clone()),
            ListType::Unset if self.patch.merge && self.patch.merge_key.is_empty() => {
                Identity::Value
            }
            ListType::Unset if self.patch.merge => Identity::Keys(vec![self.patch.merge_key]),
            ListType::Unset => Identity::Atomic,
        }
    }
}

impl Typing for Field {
    fn forms(&self) -> Forms<'_> {
        let mut forms = self.kind.forms();
        if let Some(list) = &mut forms.list {
            list.identity = self.identity();
        }
        if let (Some(map), ListType::Atomic) = (&mut forms.map, self.list) {
            map.atomic = true;
        }
        forms
    }

    fn field(&self, name: &str) -> Option<Member<'_>> {
        self.kind.field(name)
    }

    fn nulls(&self) -> Vec<&str> {
        self.kind.nulls()
    }
}

impl Typing for Type {
    fn forms(&self) -> Forms<'_> {
        match self {
            Type::String(_) | Type::Duration | Type::Bytes => Forms::scalar(Scalar::Text),
            Type::Bool => Forms::scalar(Scalar::Boolean),
            Type::Int32 | Type::Int64 | Type::Float64 => Forms::scalar(Scalar::Number),
            Type::Time | Type::MicroTime | Type::Quantity => Forms::scalar(Scalar::Any),
            Type::Message(id) => id.get().forms(),
            Type::List(item) => Forms {
                list: Some(List {
                    identity: Identity::Atomic,
                    item: &**item,
                }),
                ..Forms::default()
            },
            Type::Map(item) => Forms {
                map: Some(Map {
                    atomic: false,
                    other: Some(&**item),
                    deduced: false,
                }),
                ..Forms::default()
            },
            Type::Raw => UntypedAtomic.forms(),
            Type::Fields => Forms {
                map: UntypedDeduced.forms().map,
                ..Forms::default()
            },
            Type::IntOrString
            | Type::Json
            | Type::SchemaOrArray
            | Type::SchemaOrBool
            | Type::SchemaOrStrings => UntypedDeduced.forms(),
        }
    }

    fn field(&self, name: &str) -> Option<Member<'_>> {
        match self {
            Type::Message(id) => Typing::field(id.get(), name),
            _ => None,
        }
    }

    fn nulls(&self) -> Vec<&str> {
        match self {
            Type::Message(id) => id.get().nulls(),
            _ => Vec::new(),
        }
    }
}
