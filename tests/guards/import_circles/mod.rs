//! Circles: files of the controller and above it that import each other are at most two.
//!
//! A file depends on the files whose items it imports (`use`) or names by a path. An item that is only passed on
//! (`pub use`) counts where it is defined. What only tests compile is left out. A file and one of its parts may import
//! each other; a larger circle cannot be read, tested or taken out piece by piece.

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::{read, root};
use source::Import;

/// Crates without larger circles.
const CRATES: [&str; 4] = ["yang", "controller", "console", "northbound"];

/// Files that may import each other.
const FILES: usize = 2;

/// A module in a file of its own, and what the file says.
struct Module {
    file: PathBuf,
    imports: Vec<Import>,
    words: Vec<String>,
    definitions: BTreeSet<String>,
}

/// The modules of a crate by their path; the crate itself has the empty path.
#[derive(Default)]
struct Modules(BTreeMap<Vec<String>, Module>);

impl Modules {
    fn of(crate_name: &str) -> Modules {
        let folder = root().join("crates").join(crate_name).join("src");
        let mut modules = Modules::default();
        modules.add(Vec::new(), folder.join("lib.rs"), &folder);
        modules
    }

    /// Adds a file and the modules that it declares.
    fn add(&mut self, path: Vec<String>, file: PathBuf, folder: &Path) {
        let all = source::words(&read(&file));
        let (imports, words) = source::imports(&all);
        for name in source::modules(&words) {
            let child = [&path[..], std::slice::from_ref(&name)].concat();
            let below = folder.join(&name);
            let flat = folder.join(format!("{name}.rs"));
            let file = if flat.exists() { flat } else { below.join("mod.rs") };
            self.add(child, file, &below);
        }
        let definitions = source::definitions(&words).into_iter().collect();
        self.0.insert(path, Module { file, imports, words, definitions });
    }

    /// Each file with the files that it depends on.
    fn graph(&self) -> BTreeMap<&Path, BTreeSet<&Path>> {
        let edges = self.0.iter().map(|(path, module)| {
            let mut used = BTreeSet::new();
            let code = source::paths(&module.words);
            let names: BTreeSet<&str> = code.iter().map(|path| path[0].as_str()).collect();
            for import in &module.imports {
                let passed_on = import.public && !names.contains(&*import.name);
                // What is used of an imported module is a path in the code.
                if !passed_on && !self.is_module(path, &import.path) {
                    used.extend(self.file(path, &import.path, 0));
                }
            }
            for named in code.iter().filter(|named| named.len() > 1) {
                used.extend(self.file(path, named, 0));
            }
            used.remove(module.file.as_path());
            (module.file.as_path(), used)
        });
        edges.collect()
    }

    /// Whether `named` is a module.
    fn is_module(&self, from: &[String], named: &[String]) -> bool {
        let start = self.start(from, named);
        start.is_some_and(|(at, rest)| self.0.contains_key(&[&at[..], rest].concat()))
    }

    /// The file that defines what `named` means in the module `from`; nothing if it is of another crate.
    fn file(&self, from: &[String], named: &[String], depth: usize) -> Option<&Path> {
        assert!(depth < 16, "an import leads to itself: {from:?} {named:?}");
        let (mut at, rest) = self.start(from, named)?;
        let mut rest = rest.iter();
        while let Some(name) = rest.next() {
            at.push(name.clone());
            if self.0.contains_key(&at) {
                continue;
            }
            at.pop();
            let module = &self.0[&at];
            if module.definitions.contains(name) || name == "*" {
                return Some(&module.file);
            }
            if let Some(import) = module.imports.iter().find(|import| import.name == *name) {
                let whole = [&import.path[..], rest.as_slice()].concat();
                return self.file(&at, &whole, depth + 1);
            }
            let everything = module.imports.iter().filter(|import| import.name == "*");
            let has = |module: &Module| {
                module.definitions.contains(name)
                    || module.imports.iter().any(|import| import.name == *name)
            };
            let found = everything.filter_map(|import| {
                let path = &import.path[..import.path.len() - 1];
                let (above, rest) = self.start(&at, path)?;
                let inside = [&above[..], rest].concat();
                self.0.get(&inside).filter(|module| has(module))?;
                self.file(
                    &inside,
                    &[vec!["self".to_owned()], vec![name.clone()]].concat(),
                    depth + 1,
                )
            });
            return found.into_iter().next().or(Some(&module.file));
        }
        self.0.get(&at).map(|module| module.file.as_path())
    }

    /// The module where a path begins, and the rest of the path.
    fn start<'a>(
        &self,
        from: &[String],
        named: &'a [String],
    ) -> Option<(Vec<String>, &'a [String])> {
        let mut at = from.to_vec();
        match named[0].as_str() {
            "crate" => return Some((Vec::new(), &named[1..])),
            "self" => return Some((at, &named[1..])),
            "super" => {
                let ups = named.iter().take_while(|name| *name == "super").count();
                at.truncate(from.len().checked_sub(ups)?);
                return Some((at, &named[ups..]));
            }
            _ => {}
        }
        at.push(named[0].clone());
        let child = self.0.contains_key(&at);
        at.pop();
        let module = &self.0[&at];
        let is_it = |import: &Import| import.name == named[0] && import.path[0] != named[0];
        let is_known = child || module.definitions.contains(&named[0]);
        (is_known || module.imports.iter().any(is_it)).then_some((at, named))
    }
}

/// Sets of files that reach each other, those of more than one file.
fn circles<'a>(graph: &BTreeMap<&'a Path, BTreeSet<&'a Path>>) -> Vec<BTreeSet<&'a Path>> {
    let reached: BTreeMap<&Path, BTreeSet<&Path>> =
        graph.keys().map(|file| (*file, reach(graph, file))).collect();
    let circle = |file: &&'a Path| -> BTreeSet<&'a Path> {
        let both = reached[file].iter().filter(|other| reached[*other].contains(file));
        both.copied().collect()
    };
    let all: BTreeSet<_> = graph.keys().map(circle).filter(|circle| circle.len() > 1).collect();
    all.into_iter().collect()
}

/// The files that a file depends on, directly or not.
fn reach<'a>(graph: &BTreeMap<&'a Path, BTreeSet<&'a Path>>, from: &'a Path) -> BTreeSet<&'a Path> {
    let mut found = BTreeSet::new();
    let mut next = vec![from];
    while let Some(file) = next.pop() {
        next.extend(graph[file].iter().filter(|other| found.insert(**other)));
    }
    found
}

#[test]
fn files_import_each_other_in_pairs_at_most() {
    let mut faults = Vec::new();
    for name in CRATES {
        let modules = Modules::of(name);
        let graph = modules.graph();
        assert!(graph.len() > 5, "{name}: the modules are found");
        let large = circles(&graph).into_iter().filter(|circle| circle.len() > FILES);
        faults.extend(large.map(|circle| picture(name, &circle, &graph)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What a configuration says is known without the forwarder, routes of other origins, or who asks.
#[test]
fn config_knows_nothing_above_it() {
    let folder = root().join("crates/controller/src");
    let modules = Modules::of("controller");
    let mut faults = Vec::new();
    let mut files = 0;
    for (file, used) in modules.graph() {
        if !file.starts_with(folder.join("config")) {
            continue;
        }
        files += 1;
        let below = [folder.join("config"), folder.join("prefix.rs")];
        let above = used.into_iter().filter(|one| !below.iter().any(|it| one.starts_with(it)));
        faults.extend(above.map(|one| format!("{} uses {}", file.display(), one.display())));
    }
    assert!(files > 10, "the files of config are found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Each file of a circle with those that it depends on there.
fn picture(
    name: &str,
    circle: &BTreeSet<&Path>,
    graph: &BTreeMap<&Path, BTreeSet<&Path>>,
) -> String {
    let folder = root().join("crates").join(name).join("src");
    let short = |file: &Path| file.strip_prefix(&folder).unwrap_or(file).display().to_string();
    let line = |file: &&Path| {
        let used = graph[file].iter().filter(|other| circle.contains(*other));
        format!("  {} -> {}", short(file), used.map(|one| short(one)).collect::<Vec<_>>().join(" "))
    };
    let lines: Vec<String> = circle.iter().map(line).collect();
    format!("{name}: {} files import each other\n{}", circle.len(), lines.join("\n"))
}

/// Modules from texts, by their path.
fn modules_of(texts: &[(&str, &str)]) -> Modules {
    let module = |(path, text): &(&str, &str)| {
        let path: Vec<String> = path.split_terminator("::").map(str::to_owned).collect();
        let (imports, words) = source::imports(&source::words(text));
        let definitions = source::definitions(&words).into_iter().collect();
        let file = PathBuf::from(path.join("/"));
        (path, Module { file, imports, words, definitions })
    };
    Modules(texts.iter().map(module).collect())
}

#[test]
fn a_circle_is_found_through_what_others_pass_on() {
    let modules = modules_of(&[
        ("", "mod a; mod b; mod c; mod d;"),
        // `crate::b::Deep` is defined in `c`; a path in code counts as an import does.
        ("a", "use crate::b::{self as other, Deep}; pub struct A;"),
        // It only passes on.
        ("b", "pub use crate::c::*;"),
        ("c", "pub struct Deep; fn f() { crate::d::g(\"crate::b::X\", 'x', r#\"super::b::X\"#) }"),
        ("d", "/* use crate::b::Deep; */ use super::a; pub fn g<'a>() -> a::A {}"),
    ]);
    let graph = modules.graph();
    let found = circles(&graph);
    let names = |files: &BTreeSet<&Path>| {
        files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(found.iter().map(names).collect::<Vec<_>>(), ["a c d"]);
}

#[test]
fn tests_and_passing_on_make_no_circle() {
    let modules = modules_of(&[
        ("", "mod a; pub use a::A;"),
        ("a", "mod part; pub use part::Part; pub struct A;"),
        ("a::part", "use super::A; pub struct Part; #[cfg(test)] mod tests { use crate::b::B; }"),
        ("b", "#[cfg(test)] use crate::a::{A}; use std::a::part; pub struct B;"),
    ]);
    assert!(circles(&modules.graph()).is_empty());
}
