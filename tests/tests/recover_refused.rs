//! Files that are no journal, or not one that this program reads: refused in one line each, and nothing is written.

use std::fs;

use ringload_tests::cells;
use ringload_tests::program::Workplace;

/// What `recover` says of a journal with this content.
fn refused(bytes: &[u8], code: i32) -> String {
    let workplace = Workplace::new("");
    fs::create_dir(workplace.path("results")).expect("a folder");
    fs::write(workplace.path("results/ringload.journal"), bytes).expect("a file");
    let ended = workplace.run(&["recover", "results"]).expect(code);
    assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{}", ended.stderr);
    assert_eq!(cells::tree(&workplace.path("results")).len(), 1, "nothing is written");
    ended.stderr
}

#[test]
fn what_is_no_journal_is_refused_by_what_it_is() {
    for (bytes, said) in [
        (&b""[..], "does not say what ran"),
        (b"ringj", "does not say what ran"),
        (b"ringjrn\x04", "does not say what ran"),
        (b"ringload\0\0\0\0 and so on", "has version 1 of the format"),
        (b"ringjrn\x03 and so on", "has version 3 of the format"),
        (b"ringjrn\x63 and so on", "has version 99 of the format"),
        (b"{\"metadata\": {}}", "is no journal of ringload"),
    ] {
        let line = refused(bytes, 1);
        assert!(line.contains(said), "{line}");
    }
    let workplace = Workplace::new("");
    for (directory, said) in [
        ("nowhere", "is no directory"),
        (".", "holds no journal of a run that died"),
    ] {
        let ended = workplace.run(&["recover", directory]).expect(2);
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
}
