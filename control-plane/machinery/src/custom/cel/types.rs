//! The types of expressions, and which of them fit where.

pub(super) mod shape;

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The most parts of a type: a map whose keys and values have the same type doubles it.
const PARTS_MAX: usize = 2_000;
/// The most parts of all types that are resolved for one expression.
const RESOLVED_MAX: usize = 2_000_000;
/// The most parts that are compared to see whether types fit: variables within variables double
/// them, too.
const STEPS_MAX: usize = 20_000;

/// The type of an expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Type {
    /// Known only when the expression is evaluated.
    Dyn,
    /// What an error was reported about; it fits everywhere, so that no second error follows.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    /// The type of a type.
    Meta(Arc<Type>),
    Optional(Arc<Type>),
    /// A variable that stands for a type.
    Param(usize),
    /// A type with fields, or one of Kubernetes' own.
    Struct(Arc<str>),
    /// A network address.
    Opaque(Arc<str>),
}

/// What type variables stand for. Changes can be taken back to a [`Bindings::mark`].
#[derive(Debug, Default)]
pub(super) struct Bindings {
    bound: HashMap<usize, Type>,
    /// What was bound before each change.
    trail: Vec<(usize, Option<Type>)>,
    fresh: usize,
    /// The parts of all types that were resolved.
    resolved: Cell<usize>,
    /// The parts that were compared since a question began.
    steps: Cell<usize>,
    /// A type was too large, and counts as [`Type::Error`].
    too_large: Cell<bool>,
}

impl Type {
    pub(super) fn list(item: Type) -> Type {
        Type::List(Arc::new(item))
    }

    pub(super) fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new(key), Arc::new(value))
    }

    pub(super) fn optional(inner: Type) -> Type {
        Type::Optional(Arc::new(inner))
    }

    /// The type within an optional, or the type itself.
    pub(super) fn unwrapped(&self) -> (&Type, bool) {
        match self {
            Type::Optional(inner) => (inner, true),
            plain => (plain, false),
        }
    }

    pub(super) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    fn parameters(&self) -> Vec<&Type> {
        match self {
            Type::List(item) => vec![item],
            Type::Optional(inner) => vec![inner],
            Type::Meta(inner) => vec![inner],
            Type::Map(key, value) => vec![key, value],
            _ => Vec::new(),
        }
    }

    /// The same type with its parameters replaced.
    pub(super) fn replace(&self, with: &mut dyn FnMut(&Type) -> Type) -> Type {
        match self {
            Type::List(item) => Type::list(with(item)),
            Type::Optional(inner) => Type::optional(with(inner)),
            Type::Meta(inner) => Type::Meta(Arc::new(with(inner))),
            Type::Map(key, value) => {
                let key = with(key);
                Type::map(key, with(value))
            }
            plain => plain.clone(),
        }
    }

    /// Whether values of this type may be null, as the checker sees it.
    fn is_nullable(&self) -> bool {
        matches!(
            self,
            Type::Null
                | Type::Optional(_)
                | Type::Opaque(_)
                | Type::Struct(_)
                | Type::Duration
                | Type::Timestamp
        )
    }

    /// Takes its parts from those that are left; false if there are more.
    fn take_parts(&self, left: &mut usize) -> bool {
        let Some(less) = left.checked_sub(1) else {
            return false;
        };
        *left = less;
        let parameters = self.parameters();
        parameters.into_iter().all(|inner| inner.take_parts(left))
    }

    /// Whether it is like `other` or leaves more open.
    fn is_equal_or_less_specific(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Dyn | Type::Param(_), _) => true,
            (_, Type::Dyn | Type::Param(_)) => false,
            (Type::Meta(_), Type::Meta(_)) => true,
            (Type::List(_), Type::List(_))
            | (Type::Optional(_), Type::Optional(_))
            | (Type::Map(..), Type::Map(..)) => {
                let (ours, theirs) = (self.parameters(), other.parameters());
                let mut pairs = ours.iter().zip(theirs);
                pairs.all(|(one, other)| one.is_equal_or_less_specific(other))
            }
            _ => self == other,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Dyn => f.write_str("dyn"),
            Type::Error => f.write_str("!error!"),
            Type::Null => f.write_str("null"),
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Uint => f.write_str("uint"),
            Type::Double => f.write_str("double"),
            Type::String => f.write_str("string"),
            Type::Bytes => f.write_str("bytes"),
            Type::Duration => f.write_str("duration"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::List(item) => write!(f, "list({item})"),
            Type::Map(key, value) => write!(f, "map({key}, {value})"),
            Type::Meta(inner) => write!(f, "type({inner})"),
            Type::Optional(inner) => write!(f, "optional_type({inner})"),
            Type::Param(number) => write!(f, "_var{number}"),
            Type::Struct(name) | Type::Opaque(name) => f.write_str(name),
        }
    }
}

impl Bindings {
    /// A type variable that nothing else uses.
    pub(super) fn fresh(&mut self) -> Type {
        self.fresh += 1;
        Type::Param(self.fresh - 1)
    }

    /// Whether values of type `one` fit where `other` is wanted. What variables must stand for is
    /// kept only if they do.
    pub(super) fn assign(&mut self, one: &Type, other: &Type) -> bool {
        self.steps.set(0);
        let mark = self.trail.len();
        let fits = self.fits(one, other);
        if !fits {
            self.undo(mark);
        }
        fits
    }

    /// Like [`Bindings::assign`], for lists of types.
    pub(super) fn assign_all(&mut self, ones: &[Type], others: &[Type]) -> bool {
        self.steps.set(0);
        let mark = self.trail.len();
        let mut pairs = ones.iter().zip(others);
        let fits = ones.len() == others.len() && pairs.all(|(one, other)| self.fits(one, other));
        if !fits {
            self.undo(mark);
        }
        fits
    }

    /// The type with all variables replaced by what they stand for, and free ones by `dyn` if
    /// `close` says so.
    pub(super) fn resolve(&self, one: &Type, close: bool) -> Type {
        let left = RESOLVED_MAX.saturating_sub(self.resolved.get());
        let all = left.min(PARTS_MAX);
        let mut left = all;
        let resolved = self.resolve_within(one, close, &mut left);
        self.resolved.set(self.resolved.get() + (all - left));
        resolved
    }

    fn resolve_within(&self, one: &Type, close: bool, left: &mut usize) -> Type {
        let Some(less) = left.checked_sub(1) else {
            self.too_large.set(true);
            return Type::Error;
        };
        *left = less;
        match one {
            Type::Param(number) => match self.bound.get(number) {
                Some(bound) => self.resolve_within(bound, close, left),
                None if close => Type::Dyn,
                None => one.clone(),
            },
            other => other.replace(&mut |inner| self.resolve_within(inner, close, left)),
        }
    }

    /// The type, if it is not too large.
    pub(super) fn limited(&self, one: Type) -> Type {
        if one.take_parts(&mut { PARTS_MAX }) {
            return one;
        }
        self.too_large.set(true);
        Type::Error
    }

    /// Whether a type was too large: then nothing that was found out can be relied on.
    pub(super) fn is_too_large(&self) -> bool {
        self.too_large.get()
    }

    /// Counts a step; false if there were too many.
    fn step(&self) -> bool {
        self.steps.set(self.steps.get() + 1);
        let is_within = self.steps.get() <= STEPS_MAX;
        if !is_within {
            self.too_large.set(true);
        }
        is_within
    }

    pub(super) fn most_general(one: &Type, other: &Type) -> Type {
        if one.is_equal_or_less_specific(other) {
            one.clone()
        } else {
            other.clone()
        }
    }

    fn bind(&mut self, number: usize, to: Type) {
        let before = self.bound.insert(number, to);
        self.trail.push((number, before));
    }

    fn undo(&mut self, mark: usize) {
        for (number, before) in self.trail.drain(mark..).rev() {
            match before {
                Some(before) => self.bound.insert(number, before),
                None => self.bound.remove(&number),
            };
        }
    }

    fn fits(&mut self, one: &Type, other: &Type) -> bool {
        if !self.step() {
            return false;
        }
        if let Type::Param(number) = other {
            let (valid, was_bound) = self.substitutes(one, *number);
            if valid || was_bound {
                return valid;
            }
        }
        if let Type::Param(number) = one {
            return self.substitutes(other, *number).0;
        }
        if one.is_dyn_or_error() || other.is_dyn_or_error() {
            return true;
        }
        match (one, other) {
            (Type::Null, wanted) | (wanted, Type::Null) => wanted.is_nullable(),
            (Type::Meta(_), Type::Meta(_)) => true,
            (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => {
                self.fits(one, other)
            }
            (Type::Map(key, value), Type::Map(other_key, other_value)) => {
                self.fits(key, other_key) && self.fits(value, other_value)
            }
            _ => one == other,
        }
    }

    /// Whether a variable may stand for a type, and whether it stood for one before.
    fn substitutes(&mut self, one: &Type, number: usize) -> (bool, bool) {
        if *one == Type::Param(number) {
            return (true, true);
        }
        let Some(bound) = self.bound.get(&number).cloned() else {
            let is_free = !self.occurs(number, one);
            if is_free {
                self.bind(number, one.clone());
            }
            return (is_free, false);
        };
        if *one == bound {
            return (true, true);
        }
        if !self.fits(one, &bound) {
            return (false, true);
        }
        let general = Bindings::most_general(one, &bound);
        if !self.occurs(number, &general) {
            self.bind(number, general);
        }
        (true, true)
    }

    /// Whether a variable occurs within a type: it cannot stand for such a type.
    fn occurs(&self, number: usize, within: &Type) -> bool {
        if !self.step() {
            return true;
        }
        match within {
            Type::Param(other) if *other == number => true,
            Type::Param(other) => match self.bound.get(other) {
                Some(bound) => self.occurs(number, bound),
                None => false,
            },
            other => other
                .parameters()
                .iter()
                .any(|inner| self.occurs(number, inner)),
        }
    }
}
