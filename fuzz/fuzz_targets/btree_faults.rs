#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| storage::fuzzing::btree_faults(data));
