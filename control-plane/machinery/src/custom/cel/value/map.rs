//! Maps: of an object, or made by an expression.

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::Value as Json;

use super::{Key, Value, Why, not_comparable, read, shown};
use crate::custom::cel::types::shape::Shape;

#[derive(Debug, Clone)]
pub(crate) enum Map<'a> {
    Json(&'a serde_json::Map<String, Json>, &'a Shape),
    Made(Rc<Made<'a>>),
}

/// A map that an expression made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Made<'a> {
    pub(in crate::custom::cel) entries: Vec<(Value<'a>, Value<'a>)>,
    /// What an index with any other key leads to.
    pub(in crate::custom::cel) otherwise: Option<Value<'a>>,
    index: HashMap<Key, usize>,
}

impl<'a> Map<'a> {
    pub(in crate::custom::cel) fn len(&self) -> usize {
        match self {
            Map::Json(fields, _) => fields.len(),
            Map::Made(made) => made.entries.len(),
        }
    }

    /// The value of a key.
    pub(in crate::custom::cel) fn find(&self, key: &Value<'a>) -> Result<Option<Value<'a>>, Why> {
        match self {
            Map::Json(fields, shape) => {
                let Value::String(key) = key else {
                    return if read::is_any(shape) {
                        Ok(None)
                    } else {
                        Err("no such overload".to_owned())
                    };
                };
                let Some((name, shape)) = read::field(shape, key) else {
                    return Ok(None);
                };
                let is_object = !std::ptr::eq(name, &**key) || read::is_object(self.shape());
                match fields.get(name) {
                    Some(Json::Null) if is_object => Ok(None),
                    Some(value) => read::value(value, shape).map(Some),
                    None => Ok(None),
                }
            }
            Map::Made(made) => Ok(made.find(key).cloned()),
        }
    }

    /// What an index with the key leads to.
    pub(in crate::custom::cel) fn item(&self, key: &Value<'a>) -> Result<Option<Value<'a>>, Why> {
        let found = self.find(key)?;
        Ok(found.or_else(|| match self {
            Map::Json(..) => None,
            Map::Made(made) => made.otherwise.clone(),
        }))
    }

    /// The entries that expressions can see.
    pub(in crate::custom::cel) fn entries(
        &self,
    ) -> impl Iterator<Item = Result<(Value<'a>, Value<'a>), Why>> + use<'a> {
        let (json, made) = match self {
            Map::Json(fields, shape) => (Some((*fields, *shape)), None),
            Map::Made(made) => (None, Some(Rc::clone(made))),
        };
        let of_json = json.into_iter().flat_map(|(fields, shape)| {
            fields.iter().filter_map(move |(name, value)| {
                let (key, of_value) = read::name(shape, name)?;
                Some(read::value(value, of_value).map(|value| (key, value)))
            })
        });
        let count = made.as_ref().map_or(0, |made| made.entries.len());
        let of_made =
            (0..count).filter_map(move |at| Some(Ok(made.as_ref()?.entries.get(at)?.clone())));
        of_json.chain(of_made)
    }

    /// The keys that expressions can see.
    pub(in crate::custom::cel) fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Map::Json(fields, shape) => fields
                .keys()
                .filter_map(|name| Some(read::name(shape, name)?.0))
                .collect(),
            Map::Made(made) => made.entries.iter().map(|(key, _)| key.clone()).collect(),
        }
    }

    fn shape(&self) -> Option<&'a Shape> {
        match self {
            Map::Json(_, shape) => Some(shape),
            Map::Made(_) => None,
        }
    }

    /// A field by its name in JSON, which is the key of a map that an expression made.
    pub(super) fn json_field(&self, name: &str) -> Option<Value<'a>> {
        match self {
            Map::Json(fields, shape) => {
                let of_value = read::named(shape, name)?;
                read::value(fields.get(name)?, of_value).ok()
            }
            Map::Made(made) => made.find(&Value::text(name)).cloned(),
        }
    }

    pub(super) fn equals(&self, other: &Value<'a>) -> Result<bool, Why> {
        let Value::Map(other) = other else {
            let has_schema = self.shape().is_some_and(|shape| !read::is_any(shape));
            return not_comparable(has_schema);
        };
        if self.len() != other.len() {
            return Ok(false);
        }
        let Map::Json(ours, shape) = self else {
            for entry in self.entries() {
                let (key, value) = entry?;
                match other.find(&key)? {
                    Some(their) if value.equals(&their)? => {}
                    _ => return Ok(false),
                }
            }
            return Ok(true);
        };
        for (name, json) in *ours {
            let same = match (read::named(shape, name), other) {
                (Some(of_field), Map::Json(theirs, their_shape)) => {
                    let is_there = |json: &&Json| !json.is_null() || !read::is_object(Some(shape));
                    let their_field = read::named(their_shape, name);
                    match (
                        Some(json).filter(is_there),
                        theirs.get(name).filter(is_there),
                    ) {
                        (None, None) => true,
                        (Some(json), Some(their)) => {
                            let their = read::value(their, their_field.unwrap_or(of_field))?;
                            read::value(json, of_field)?.equals(&their)?
                        }
                        _ => false,
                    }
                }
                (Some(of_field), Map::Made(made)) => match made.find(&Value::text(name.as_str())) {
                    Some(their) => read::value(json, of_field)?.equals(their)?,
                    None => false,
                },
                // No schema describes it.
                (None, Map::Json(theirs, _)) => theirs.get(name).is_none_or(|their| json == their),
                (None, Map::Made(_)) => return not_comparable(true),
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl<'a> Made<'a> {
    pub(in crate::custom::cel) fn find(&self, key: &Value<'a>) -> Option<&Value<'a>> {
        let at = self.index.get(&key.key()?)?;
        Some(&self.entries.get(*at)?.1)
    }

    /// Adds an entry, or replaces that with the same key.
    pub(in crate::custom::cel) fn set(
        &mut self,
        key: Value<'a>,
        value: Value<'a>,
    ) -> Result<(), Why> {
        match key.key().and_then(|key| self.index.get(&key).copied()) {
            Some(at) => {
                self.entries[at] = (key, value);
                Ok(())
            }
            None => self.insert(key, value),
        }
    }

    /// Adds an entry; one with the same key is an error.
    pub(in crate::custom::cel) fn insert(
        &mut self,
        key: Value<'a>,
        value: Value<'a>,
    ) -> Result<(), Why> {
        let Some(own) = key.key() else {
            return Err(format!("unsupported key type: {}", key.type_name()));
        };
        if self.index.contains_key(&own) {
            return Err(format!("insert failed: key {} already exists", shown(&key)));
        }
        self.index.insert(own, self.entries.len());
        self.entries.push((key, value));
        Ok(())
    }
}
