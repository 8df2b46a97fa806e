//! Any bytes as a dataset file.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ringload_engine::fuzzable::dataset(bytes));
