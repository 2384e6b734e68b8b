#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| storage::fuzzing::wal_recover(data));
