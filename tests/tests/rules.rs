//! Every rule that ringload promises has tests: `rules.tsv` names them, and what it names is there. Its groups are the headings of
//! `docs/differences.md`, which tells users the same rules, but for the last group: cases from the field.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Cases that went wrong for users of other tools, by their numbers; they are no differences to tell.
const FIELD: &str = "Field cases";

fn read(path: &str) -> String {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Group, rule, test of each row.
fn rows(table: &str) -> Vec<[&str; 3]> {
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("group\trule\ttest"));
    lines
        .map(|line| {
            let columns: Vec<&str> = line.split('\t').collect();
            columns
                .try_into()
                .unwrap_or_else(|_| panic!("three columns expected: {line}"))
        })
        .collect()
}

/// Functions of a source that run as tests: behind `#[test]`, other attributes between, and not ignored.
fn tests_of(source: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        match line {
            "#[test]" => is_test = true,
            _ if line.starts_with("#[ignore") => is_test = false,
            _ if line.starts_with("#[") || line.starts_with("//") => {}
            _ => {
                let name = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next());
                found.extend(name.filter(|_| is_test));
                is_test = false;
            }
        }
    }
    found
}

#[test]
fn every_test_that_a_rule_names_is_there() {
    let table = read("tests/rules.tsv");
    let mut sources: BTreeMap<&str, String> = BTreeMap::new();
    let rows = rows(&table);
    for [_, _, test] in &rows {
        let (path, _) = test
            .split_once("::")
            .unwrap_or_else(|| panic!("PATH::NAME expected: {test}"));
        sources.entry(path).or_insert_with(|| read(path));
    }
    let missing: Vec<&[&str; 3]> = rows
        .iter()
        .filter(|[_, rule, test]| {
            let (path, name) = test.split_once("::").expect("it was split above");
            rule.is_empty() || !tests_of(&sources[path]).contains(name)
        })
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
    let rules: BTreeSet<&str> = rows.iter().map(|[_, rule, _]| *rule).collect();
    assert!(rules.len() > 70, "only {} rules", rules.len());
    let all: BTreeSet<&[&str; 3]> = rows.iter().collect();
    assert_eq!(all.len(), rows.len(), "a row stands twice");
}

#[test]
fn users_are_told_every_group_of_rules() {
    let table = read("tests/rules.tsv");
    let groups: BTreeSet<&str> = rows(&table)
        .into_iter()
        .map(|[group, ..]| group)
        .filter(|group| *group != FIELD)
        .collect();
    let page = read("docs/differences.md");
    let headings: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert!(groups.is_subset(&headings), "{groups:?} are not all in {headings:?}");
    for page in ["README.md", "docs/command-line.md", "docs/config-commands.md"] {
        assert!(
            read(page).contains("differences.md"),
            "{page} has no link to the differences"
        );
    }
}

#[test]
fn tests_are_found_behind_their_attribute() {
    let source = "#[test]\nfn a() {\nfn helper() {\n#[test]\n#[cfg(unix)]\n    fn b(x in 1..2) {\n#[test]\n#[ignore = \"slow\"]\nfn c() {\n#[test]\n// why\nfn d() {";
    assert_eq!(tests_of(source), ["a", "b", "d"].into());
}
