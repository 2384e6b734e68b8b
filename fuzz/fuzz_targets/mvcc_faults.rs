#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| storage::fuzzing::mvcc_faults(data));
