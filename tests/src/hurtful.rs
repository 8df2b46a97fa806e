//! Config files that cost more than their size if they can.

/// Files of up to a megabyte, each with what it has too much of.
pub fn configs() -> Vec<(&'static str, String)> {
    let size = 1_000_000;
    let fill = |piece: &str| piece.repeat(size / piece.len());
    let numbered =
        |piece: &str, count: usize| -> String { (0..count).map(|at| piece.replace('#', &at.to_string())).collect() };
    let head = "benchmark:\n  model: m\n  endpoint: {url: \"http://h:1\"";
    let tail = "\n  dataset: {entries: 4, isl: 16}\n";
    let load = "  phases: [{name: load, kind: profiling, type: concurrency, requests: 4}]\n";
    let whole = |envelope: &str, extra: &str| format!("{envelope}{head}{extra}}}{tail}{load}");
    vec![
        ("open brackets", fill("[")),
        ("open braces", fill("{a: ")),
        ("dashes", fill("- ")),
        ("question marks", fill("? ")),
        ("one long key", format!("{}: 1\n", "k".repeat(size))),
        (
            "one long value",
            whole("", &format!(", extra: {{a: {}}}", "x".repeat(size))),
        ),
        (
            "one long quoted value that never ends",
            format!("a: \"{}", "x".repeat(size)),
        ),
        ("spaces", fill(" ")),
        ("tabs", fill("\t")),
        ("returns", fill("\r")),
        ("comments", fill("#\n")),
        ("documents", fill("---\n")),
        ("anchors", numbered("a#: &a# x\n", 40_000)),
        (
            "aliases of one text",
            format!("a: &a xxxxxxxxxxxxxxxx\nb: [{}]\n", fill("*a, ")),
        ),
        (
            "merges of one mapping",
            format!(
                "a: &a {{{}}}\nb: {{<<: [{}*a]}}\n",
                numbered("k#: 1, ", 1_000),
                "*a, ".repeat(50_000)
            ),
        ),
        ("keys, all unknown", numbered("k#: 1\n", 40_000)),
        ("keys, all the same", fill("a: 1\n")),
        (
            "references",
            whole("", &format!(", extra: {{a: [{}]}}", "\"${NOPE:x}\", ".repeat(40_000))),
        ),
        (
            "references in one value",
            whole("", &format!(", extra: {{a: \"{}\"}}", "${N:x}".repeat(150_000))),
        ),
        (
            "references that are not closed",
            whole("", &format!(", extra: {{a: \"{}\"}}", "${".repeat(400_000))),
        ),
        (
            "references to a long variable",
            whole("", &format!(", extra: {{a: [{}]}}", "\"${LONG}\", ".repeat(25_000))),
        ),
        (
            "mistakes on one line",
            whole("", &format!(", extra: {{a: [{}]}}", "010, ".repeat(40_000))),
        ),
        (
            "mistakes on many lines",
            whole("", &format!(", extra: {{a: [{}]}}", "010,\n   ".repeat(40_000))),
        ),
        (
            "credentials on one line",
            whole(
                "",
                &format!(", extra: {{token: [{}010]}}", numbered("secret#, ", 40_000)),
            ),
        ),
        (
            "headers",
            whole("", &format!(", headers: {{{}}}", numbered("X-#: a, ", 40_000))),
        ),
        (
            "phases",
            format!(
                "{head}}}{tail}  phases:\n{}",
                numbered(
                    "    - {name: p#, kind: profiling, type: concurrency, requests: 4}\n",
                    4_000
                )
            ),
        ),
        (
            "phases of one name",
            format!(
                "{head}}}{tail}  phases:\n{}",
                "    - {name: p, kind: profiling, type: concurrency, requests: 4}\n".repeat(4_000)
            ),
        ),
        (
            "points of a rate",
            format!(
                "{head}}}{tail}  phases: [{{name: profiling, type: poisson, requests: 4, rate_series: [{}]}}]\n",
                numbered("{time_s: #, qps: 1}, ", 15_000)
            ),
        ),
        (
            "parameters of a sweep",
            whole(
                &format!(
                    "sweep: {{type: grid, parameters: {{{}}}}}\n",
                    numbered("variables.v#: [1], ", 15_000)
                ),
                "",
            ),
        ),
        (
            "values of a sweep",
            whole(
                &format!(
                    "sweep: {{type: grid, parameters: {{requests: [{}]}}}}\n",
                    numbered("#, ", 40_000)
                ),
                "",
            ),
        ),
        (
            "cells of a sweep",
            whole(
                &format!(
                    "sweep: {{type: grid, parameters: {{requests: [{0}], concurrency: [{0}], sessions: [{0}]}}}}\n",
                    numbered("1#, ", 1_000)
                ),
                "",
            ),
        ),
        (
            "wrong paths of a sweep",
            whole(
                &format!(
                    "sweep: {{type: grid, parameters: {{{}}}}}\n",
                    numbered("phases.p#.rate: [1], ", 99)
                ),
                "",
            ),
        ),
        (
            "scenarios",
            whole(
                &format!(
                    "sweep: {{type: scenarios, runs: [{}]}}\n",
                    numbered("{name: s#}, ", 9_999)
                ),
                "",
            ),
        ),
        (
            "templates",
            whole(
                &format!("variables: {{{}}}\n", numbered("v#: \"{{ w }}\", ", 25_000)),
                "",
            ),
        ),
        (
            "templates that use all others",
            whole(
                &format!(
                    "variables: {{{}}}\n",
                    numbered(&format!("v#: \"{{{{ {} }}}}\", ", "v1 + v2 + ".repeat(300)), 900)
                ),
                "",
            ),
        ),
        (
            "templates in a long list",
            whole(
                "variables: {v: 1}\n",
                &format!(
                    ", extra: {{a: [{}{}]}}",
                    "\"{{ v }}\", ".repeat(900),
                    "1, ".repeat(40_000)
                ),
            ),
        ),
        (
            "one long template",
            whole(
                "variables: {v: 1}\n",
                &format!(", extra: {{a: \"{}\"}}", "{{ v }}".repeat(100_000)),
            ),
        ),
        (
            "a deep template",
            whole(
                "variables: {v: 1}\n",
                &format!(", extra: {{a: \"{{{{ {}v }}}}\"}}", "(".repeat(300_000)),
            ),
        ),
        (
            "a number of a million digits",
            whole("", &format!(", timeout: {}", "9".repeat(300_000))),
        ),
        (
            "a duration of many units",
            whole("", &format!(", timeout: {}", "1h".repeat(300_000))),
        ),
        (
            "a URL of dots",
            format!(
                "benchmark:\n  model: m\n  endpoint: {{url: \"http://{}\"}}{tail}{load}",
                "a.".repeat(300_000)
            ),
        ),
    ]
}
