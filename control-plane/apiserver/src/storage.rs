//! Objects as the store holds them: calls to the store, one watch over all of it, and the caches
//! that answer lists and watches. It knows neither requests nor the rules of objects.

pub(crate) mod at_rest;
pub(crate) mod cache;
pub(crate) mod cells;
pub(crate) mod change;
pub(crate) mod decoded;
pub(crate) mod following;
pub(crate) mod interest;
pub(crate) mod reader;
pub(crate) mod reflector;
pub(crate) mod store;
pub(crate) mod stored;
pub(crate) mod views;
