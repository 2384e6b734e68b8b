//! stele
