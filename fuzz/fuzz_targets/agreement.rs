#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| manyhands::fuzzing::count_agreement(data));
