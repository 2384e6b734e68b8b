//! The functions that expressions may call.
//!
//! The table is made from Kubernetes' own environment (`generate`); how calls are evaluated is in
//! [`super::library`].

use std::collections::HashMap;
use std::sync::LazyLock;

use super::types::Type;

/// One of the ways to call a function.
#[derive(Debug)]
pub(super) struct Overload {
    pub(super) id: &'static str,
    /// Whether it is called as a member of its first argument.
    pub(super) member: bool,
    pub(super) arguments: Vec<Type>,
    pub(super) result: Type,
    /// How many type variables there are.
    pub(super) variables: usize,
}

type Table = HashMap<&'static str, Vec<Overload>>;

static FUNCTIONS: LazyLock<Table> = LazyLock::new(|| table(include_str!("functions.txt")));
static OF_PATCHES: LazyLock<Table> = LazyLock::new(|| table(FUNCTIONS_OF_PATCHES));

/// What only expressions that make patches may call.
const FUNCTIONS_OF_PATCHES: &str =
    "string_jsonpatch_escapeKey_string jsonpatch.escapeKey global (string) string";

/// The ways to call a function, in the order in which they are tried. `makes_patches` adds the
/// functions of expressions that make patches.
pub(super) fn overloads(name: &str, makes_patches: bool) -> Option<&'static [Overload]> {
    let of_patches = || OF_PATCHES.get(name).filter(|_| makes_patches);
    let found = FUNCTIONS.get(name).or_else(of_patches)?;
    Some(found.as_slice())
}

/// The type that a name stands for in expressions.
pub(super) fn type_named(name: &str) -> Option<Type> {
    let dynamic = || Type::Dyn;
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "string" => Type::String,
        "null_type" => Type::Null,
        "list" => Type::list(dynamic()),
        "map" => Type::map(dynamic(), dynamic()),
        "type" => Type::Meta(dynamic().into()),
        "optional_type" => Type::optional(dynamic()),
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "net.IP" | "net.CIDR" => Type::Opaque(name.into()),
        "kubernetes.Quantity"
        | "kubernetes.URL"
        | "kubernetes.Semver"
        | "kubernetes.NamedFormat" => Type::Struct(name.into()),
        _ => return None,
    })
}

fn table(lines: &'static str) -> Table {
    let mut functions = Table::new();
    for (name, overload) in lines.lines().filter_map(read) {
        functions.entry(name).or_default().push(overload);
    }
    functions
}

/// A line of the table: identifier, function, style, arguments and result.
fn read(line: &'static str) -> Option<(&'static str, Overload)> {
    let mut words = line.split(' ');
    let (id, name, style) = (words.next()?, words.next()?, words.next()?);
    let arguments = words.next()?.strip_prefix('(')?.strip_suffix(')')?;
    let mut names = Vec::new();
    let overload = Overload {
        id,
        member: style == "member",
        arguments: types(arguments, &mut names)?,
        result: types(words.next()?, &mut names)?.pop()?,
        variables: names.len(),
    };
    Some((name, overload))
}

/// Types between commas.
fn types(text: &'static str, names: &mut Vec<&'static str>) -> Option<Vec<Type>> {
    let mut all = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                all.push(one_type(&text[start..at], names)?);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text.is_empty() {
        all.push(one_type(&text[start..], names)?);
    }
    Some(all)
}

fn one_type(text: &'static str, names: &mut Vec<&'static str>) -> Option<Type> {
    if let Some(name) = text.strip_prefix('$') {
        let known = names.iter().position(|one| *one == name);
        let number = known.unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        return Some(Type::Param(number));
    }
    let Some((name, parameters)) = text.split_once('(') else {
        return match text {
            "dyn" => Some(Type::Dyn),
            // No expression can name these.
            name if name.starts_with("kubernetes.authorization.") => {
                Some(Type::Struct(name.into()))
            }
            name => type_named(name),
        };
    };
    let mut parameters = types(parameters.strip_suffix(')')?, names)?.into_iter();
    let first = parameters.next()?;
    Some(match name {
        "list" => Type::list(first),
        "map" => Type::map(first, parameters.next()?),
        "optional_type" => Type::optional(first),
        "type" => Type::Meta(first.into()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        for line in include_str!("functions.txt").lines() {
            assert!(read(line).is_some(), "{line}");
        }
    }
}
