//! stele

pub mod config;
pub mod lessor;
