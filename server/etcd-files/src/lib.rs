//! etcd's own byte formats, for talking about data in etcd's terms.
//!
//! Knows etcd's layouts only: nothing here knows how Stele keeps its data, and nothing here
//! touches a file. Today it holds the HashKV digest; reading and writing etcd's database files
//! and logs will live beside it.

#![forbid(unsafe_code)]

pub mod hashkv;
