#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| storage::fuzzing::page_decode(data));
