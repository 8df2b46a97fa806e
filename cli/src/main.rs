//! ringload command line.
fn main() {}
