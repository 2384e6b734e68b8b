//! Who may do what, who says who they are, and what is written down of it.

pub(crate) mod at_rest;
pub(crate) mod audit;
pub(crate) mod auth;
pub(crate) mod config_files;
pub(crate) mod nodes;
pub(crate) mod security;
pub(crate) mod tokens;
