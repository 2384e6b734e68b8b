#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| raft::fuzzing::wire_decode(data));
