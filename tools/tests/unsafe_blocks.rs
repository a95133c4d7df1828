//! Every `unsafe` of the workspace is in `docs/unsafe.md`, with what exercises it: a new one without an entry fails here.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use xtask::project_root;

/// What may follow the word where it means that the compiler does not check something.
const FOLLOWING: [&str; 6] = ["{", "fn ", "impl ", "trait ", "extern ", "("];

fn count(source: &str) -> usize {
    let code = source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code: Vec<&str> = code.flat_map(str::split_whitespace).collect();
    let code = code.join(" ");
    let places = code.match_indices("unsafe").filter(|(at, word)| {
        let rest = code[at + word.len()..].trim_start();
        let before = code[..*at].chars().next_back();
        let whole = !before.is_some_and(|c| c.is_alphanumeric() || c == '_');
        whole && FOLLOWING.iter().any(|start| rest.starts_with(start))
    });
    places.count()
}

/// Below a folder, by path from the root; what is built is left out.
fn found(root: &Path, folder: &Path, all: &mut BTreeMap<String, usize>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found(root, &path, all);
        } else if name.ends_with(".rs") {
            let number = count(&fs::read_to_string(&path).unwrap());
            if number > 0 {
                let path = path.strip_prefix(root).unwrap();
                all.insert(path.to_str().unwrap().to_owned(), number);
            }
        }
    }
}

/// The rows of the document's tables: path, number.
fn listed(document: &str) -> BTreeMap<String, usize> {
    let rows = document.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split('|');
        let path = cells.next()?.trim().strip_suffix('`')?;
        let number = cells.next()?.trim().parse().ok()?;
        Some((path.to_owned(), number))
    });
    rows.collect()
}

#[test]
fn every_one_is_listed_with_what_exercises_it() {
    let root = project_root();
    let mut all = BTreeMap::new();
    found(&root, &root, &mut all);
    let document = fs::read_to_string(root.join("docs/unsafe.md")).unwrap();
    assert_eq!(
        all,
        listed(&document),
        "left: what the code has; right: what docs/unsafe.md lists"
    );
}

#[test]
fn words_in_comments_and_longer_names_do_not_count() {
    let word = "unsafe";
    let source = format!(
        "// {word} {{ }}\n#[expect({word}_code)]\nlet x = {word} {{ f() }};\n{word}\n    fn g() {{}}\n#[{word}(no_mangle)]\n"
    );
    assert_eq!(count(&source), 3);
}
