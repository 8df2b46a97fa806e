use ringload_engine::http::{ResponseReader, ScratchPool};
use std::hint::black_box;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let wire = std::fs::read(&a[1]).unwrap();
    let step: usize = a[2].parse().unwrap();
    let n: usize = a[3].parse().unwrap();
    let (mut reader, mut pool) = (ResponseReader::new(), ScratchPool::new(4, 4096));
    let mut contents = 0;
    let start = std::time::Instant::now();
    for _ in 0..n {
        reader.begin(&mut pool);
        let mut done = false;
        for piece in black_box(&wire).chunks(step) {
            let feed = reader.feed(piece, &mut pool).unwrap();
            contents += feed.contents;
            done = feed.complete;
        }
        assert!(done && reader.failure().is_none());
    }
    println!(
        "{} contents each, {:.3} us each",
        contents as usize / n,
        start.elapsed().as_secs_f64() * 1e6 / n as f64
    );
}
