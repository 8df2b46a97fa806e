//! Mock inference server binary.
fn main() {}
