//! stele
pub mod lessor;
