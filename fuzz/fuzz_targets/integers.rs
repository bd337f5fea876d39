#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| manyhands::fuzzing::encode_integers(data));
