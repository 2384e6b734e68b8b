//! Circles in a folder: modules side by side that name each other, directly or through others.
//!
//! Who reads one module of a circle has to read all of it. So there is none in any folder of any
//! crate but those listed here, and the list only becomes shorter. A name that a module passes on
//! (`use` of something elsewhere) leads to where the thing is: else it would hide a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use proc_macro2::{TokenStream, TokenTree};
use testkit::workspace_root;

use super::names::{is_path, is_word, without_tests};
use super::{module_path, sources};

/// The circles that there are: crate, folder, and the modules in it that name each other.
const KNOWN: &[(&str, &str, &str)] = &[
    (
        "control-plane/apiserver",
        "resources",
        "catalogue convert custom",
    ),
    ("control-plane/apiserver", "storage", "decoded stored views"),
    ("control-plane/machinery", "custom::cel", "library value"),
    (
        "control-plane/machinery",
        "custom::cel::value",
        "list map read",
    ),
    ("server/sim", "", "clients nemesis watchers world"),
    (
        "storage",
        "mvcc",
        "chores deletion keys load meta store view write",
    ),
];

#[test]
fn modules_of_one_folder_name_each_other_one_way_only() {
    let mut found = Vec::new();
    let mut new = String::new();
    for one in crates() {
        let root = workspace_root().join(&one).join("src");
        for circle in Modules::read(sources(&root)).circles() {
            let row = (&*one, &*circle.folder, &*circle.members);
            match KNOWN.iter().find(|known| **known == row) {
                Some(known) => found.push(known),
                None => new += &format!("{row:?}: {:#?}\n", circle.names),
            }
        }
    }
    assert!(new.is_empty(), "modules name each other:\n{new}");
    let mut gone = KNOWN.iter().filter(|known| !found.contains(known));
    assert_eq!(gone.next(), None, "this circle is gone: remove its row");
}

/// The members of the workspace.
fn crates() -> Vec<String> {
    let text = fs::read_to_string(workspace_root().join("Cargo.toml")).unwrap();
    let (_, members) = text.split_once("members = [").unwrap();
    let (members, _) = members.split_once(']').unwrap();
    let quoted = members.split('"').skip(1).step_by(2);
    quoted.map(str::to_owned).collect()
}

type Place = Vec<String>;

/// The modules of a crate.
struct Modules(BTreeMap<Place, Module>);

#[derive(Default)]
struct Module {
    /// What it names, from the crate's root on.
    named: BTreeSet<Place>,
    /// Where the things are that it has by a name of its own.
    passed_on: BTreeMap<String, Place>,
}

#[derive(Debug, PartialEq)]
struct Circle {
    folder: String,
    members: String,
    /// Which module names what.
    names: Vec<String>,
}

/// Who names what in one folder: a module, another, and the names of this.
type Edges = BTreeMap<String, BTreeMap<String, Vec<String>>>;

impl Modules {
    fn read(files: Vec<(String, String)>) -> Modules {
        let files = files.iter().map(|(file, text)| (module_path(file), text));
        let files: BTreeMap<Place, &String> = files.collect();
        let empty = files.keys().map(|place| (place.clone(), Module::default()));
        let mut modules = Modules(empty.collect());
        for (place, text) in files {
            let tokens: TokenStream = text.parse().expect("Rust");
            modules.collect(tokens, &place);
        }
        modules
    }

    /// Notes what a module names, its tests left out.
    fn collect(&mut self, tokens: TokenStream, place: &[String]) {
        let tokens = without_tests(tokens);
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at..] {
                [
                    TokenTree::Ident(word),
                    TokenTree::Ident(name),
                    TokenTree::Group(body),
                    ..,
                ] if word == "mod" => {
                    let inner = [place, &[name.to_string()]].concat();
                    self.collect(body.stream(), &inner);
                    at += 2;
                }
                [TokenTree::Ident(first), ..] => {
                    let is_use = at > 0 && is_word(tokens.get(at - 1), "use");
                    let continues = at > 1 && is_path(&tokens[at - 2..]);
                    let is_anchored = ["crate", "self", "super"].iter().any(|one| first == one);
                    if is_use || is_anchored && !continues {
                        self.note(&tokens[at..], place, is_use);
                    }
                }
                [TokenTree::Group(group), ..] => self.collect(group.stream(), place),
                _ => {}
            }
            at += 1;
        }
    }

    /// Notes the paths that begin here.
    fn note(&mut self, tokens: &[TokenTree], place: &[String], is_use: bool) {
        for (path, name) in paths(tokens, &[]) {
            let Some(target) = self.absolute(path, place) else {
                continue;
            };
            let module = self.0.entry(place.to_vec()).or_default();
            module.named.insert(target.clone());
            if is_use {
                module.passed_on.insert(name, target);
            }
        }
    }

    /// A path from the crate's root on; `None` if it leads out of the crate.
    fn absolute(&self, path: Place, place: &[String]) -> Option<Place> {
        let ups = path.iter().take_while(|word| *word == "super").count();
        let inner = [place, &path].concat();
        match path[0].as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([place, &path[1..]].concat()),
            "super" => Some([&place[..place.len().checked_sub(ups)?], &path[ups..]].concat()),
            _ => self.0.contains_key(&inner[..=place.len()]).then_some(inner),
        }
    }

    /// The module that a path leads to, behind all that pass it on.
    fn home(&self, path: &[String]) -> Place {
        let mut path = path.to_vec();
        // A name may lead to itself.
        for _ in 0..8 {
            let passes = |end: &usize| {
                Some((
                    *end,
                    self.0
                        .get(&path[..end - 1])?
                        .passed_on
                        .get(&path[end - 1])?,
                ))
            };
            let Some((end, target)) = (1..=path.len()).rev().find_map(|end| passes(&end)) else {
                break;
            };
            path = [target, &path[end..]].concat();
        }
        while !self.0.contains_key(&path) && !path.is_empty() {
            path.pop();
        }
        path
    }

    /// By folder.
    fn edges(&self) -> BTreeMap<Place, Edges> {
        let mut folders: BTreeMap<Place, Edges> = BTreeMap::new();
        for (place, module) in &self.0 {
            for named in &module.named {
                let home = self.home(named);
                let common = place.iter().zip(&home).take_while(|(a, b)| a == b).count();
                let (Some(from), Some(to)) = (place.get(common), home.get(common)) else {
                    continue;
                };
                let edges = folders.entry(place[..common].to_vec()).or_default();
                let names = edges.entry(from.clone()).or_default();
                let text = format!("{} names {}", place.join("::"), named.join("::"));
                names.entry(to.clone()).or_default().push(text);
            }
        }
        folders
    }

    fn circles(&self) -> Vec<Circle> {
        let folders = self.edges();
        let circles = folders.iter().flat_map(|(folder, edges)| {
            let reached: BTreeMap<&str, BTreeSet<&str>> = edges
                .keys()
                .map(|from| (&**from, reached(from, edges)))
                .collect();
            let together = |one: &str, other: &str| {
                let reaches = |a, b| reached.get(a).is_some_and(|all| all.contains(b));
                reaches(one, other) && reaches(other, one)
            };
            let circles: BTreeSet<Vec<&str>> = reached
                .keys()
                .filter(|one| together(one, one))
                .map(|one| {
                    reached
                        .keys()
                        .copied()
                        .filter(|other| together(one, other))
                        .collect()
                })
                .collect();
            circles
                .into_iter()
                .map(|members| Circle {
                    folder: folder.join("::"),
                    members: members.join(" "),
                    names: names_within(&members, edges),
                })
                .collect::<Vec<_>>()
        });
        circles.collect()
    }
}

/// The paths that begin with these tokens, each with the name that `use` would give it.
fn paths(tokens: &[TokenTree], before: &[String]) -> Vec<(Place, String)> {
    let mut path = before.to_vec();
    let mut at = 0;
    loop {
        match &tokens[at..] {
            [TokenTree::Ident(word), rest @ ..] => {
                if word != "self" || path.is_empty() {
                    path.push(word.to_string());
                }
                if !is_path(rest) {
                    let name = match rest {
                        [TokenTree::Ident(word), name, ..] if word == "as" => name.to_string(),
                        _ => path[path.len() - 1].clone(),
                    };
                    return vec![(path, name)];
                }
                at += 3;
            }
            [TokenTree::Group(group), ..] => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let comma = |token: &TokenTree| matches!(token, TokenTree::Punct(one) if one.as_char() == ',');
                return inner
                    .split(comma)
                    .flat_map(|one| paths(one, &path))
                    .collect();
            }
            // All names of a module, or type arguments.
            [_, ..] if !path.is_empty() => return vec![(path, String::new())],
            _ => return Vec::new(),
        }
    }
}

/// The modules that one leads to.
fn reached<'a>(from: &'a str, edges: &'a Edges) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(one) = next.pop() {
        let named = edges.get(one).into_iter().flat_map(BTreeMap::keys);
        next.extend(named.map(String::as_str).filter(|to| reached.insert(*to)));
    }
    reached
}

fn names_within(members: &[&str], edges: &Edges) -> Vec<String> {
    let is_member = |one: &String| members.contains(&one.as_str());
    let from = edges.iter().filter(|(from, _)| is_member(from));
    let to = from.flat_map(|(_, to)| to.iter().filter(|(to, _)| is_member(to)));
    to.flat_map(|(_, names)| names.clone()).collect()
}

/// The members of each circle of a crate with the modules `a`, `b` and `c`, and `b::d`.
fn circles(a: &str, b: &str, c: &str, d: &str) -> Vec<String> {
    let files = [("a.rs", a), ("b.rs", b), ("c.rs", c), ("b/d.rs", d)];
    let files = files.map(|(file, text)| (file.to_owned(), text.to_owned()));
    let circles = Modules::read(files.to_vec()).circles();
    circles
        .into_iter()
        .map(|one| format!("{}: {}", one.folder, one.members))
        .collect()
}

#[test]
fn every_circle_is_found() {
    for (a, b, c, d) in [
        ("use super::b::x;", "fn f() { crate::a::y() }", "", ""),
        ("use crate::{c, b::{x as y}};", "", "", "use crate::a::z;"),
        ("use crate::b::E;", "pub use crate::a::F;", "", ""),
        // Through a name that another module passes on.
        (
            "use crate::c::E;",
            "use crate::a;",
            "pub use crate::b::E;",
            "",
        ),
        (
            "use crate::c::other::E;",
            "use crate::a;",
            "pub(crate) use crate::b as other;",
            "",
        ),
    ] {
        assert_eq!(circles(a, b, c, d), [": a b"], "{a}");
    }
    let long = circles("use super::b;", "use super::c;", "use super::a;", "");
    assert_eq!(long, [": a b c"]);
}

#[test]
fn what_leads_one_way_is_no_circle() {
    for (a, b, c, d) in [
        ("use super::b;", "use super::c;", "", "use super::super::c;"),
        // A module and those in it are no circle.
        (
            "",
            "mod d; use d::E; fn f() { self::d::g() }",
            "",
            "use super::F;",
        ),
        (
            "use crate::b;",
            "#[cfg(test)] mod tests { use crate::a; }",
            "",
            "",
        ),
        (
            "use crate::b;",
            "/// [`crate::a`]\nfn f() { \"crate::a\" }",
            "",
            "",
        ),
        ("use crate::b;", "use std::a;", "", ""),
    ] {
        assert_eq!(circles(a, b, c, d), [""; 0], "{b}");
    }
}
