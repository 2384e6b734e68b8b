//! The smallest parts of a rule, and which of them other rules allow.
//!
//! Their number is the product of the lengths of four lists, each with texts of any length. So
//! parts are borrowed from the rule, and each list is looked through once for a rule that may allow
//! them.

use std::collections::HashSet;

use super::Rule;
use super::rule::url_covers;

/// Up to so many texts, and for so many, a list is searched from one end: to make a set takes
/// longer.
const FEW: usize = 16;

/// One verb on one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// The verb.
    pub verb: &'a str,
    /// What it is done to.
    pub on: Target<'a>,
}

/// What a part of a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target<'a> {
    /// Objects of a resource.
    Resource {
        /// The API group; empty for the core group.
        group: &'a str,
        /// The resource, as in [`Rule::resources`].
        resource: &'a str,
        /// One of them, or all.
        name: Option<&'a str>,
    },
    /// A path that is no resource.
    Path(&'a str),
}

impl Part<'_> {
    /// The length of its texts.
    pub(super) fn bytes(&self) -> usize {
        let on = match self.on {
            Target::Path(path) => path.len(),
            Target::Resource {
                group,
                resource,
                name,
            } => group.len() + resource.len() + name.map_or(0, str::len),
        };
        self.verb.len() + on
    }
}

impl Rule {
    /// True if this rule alone allows all that another one allows.
    pub fn covers(&self, other: &Rule) -> bool {
        let common = Common::of(self, other);
        common.is_some_and(|common| common.is_all_of(other))
    }

    /// The parts of this rule that none of the others allows. It needs a byte for each part.
    pub fn parts_beyond<'a>(
        &'a self,
        others: &[&Rule],
    ) -> impl Iterator<Item = Part<'a>> + use<'a> {
        let mut allowed = vec![false; self.parts_count()];
        for common in others.iter().filter_map(|other| Common::of(other, self)) {
            common.mark(self, &mut allowed);
        }
        let parts = self.parts().zip(allowed);
        parts.filter_map(|(part, is_allowed)| (!is_allowed).then_some(part))
    }

    /// The number of its parts.
    pub fn parts_count(&self) -> usize {
        let lists = [
            self.api_groups.len(),
            self.resources.len(),
            self.names_count(),
        ];
        let resources = lists.into_iter().fold(1, usize::saturating_mul);
        let all = resources.saturating_add(self.non_resource_urls.len());
        all.saturating_mul(self.verbs.len())
    }

    /// All parts, in the order that [`Common::mark`] counts on.
    fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let of_resources = self.api_groups.iter().flat_map(move |group| {
            self.resources.iter().flat_map(move |resource| {
                self.verbs.iter().flat_map(move |verb| {
                    self.names().map(move |name| Part {
                        verb,
                        on: Target::Resource {
                            group,
                            resource,
                            name,
                        },
                    })
                })
            })
        });
        let of_paths = self.non_resource_urls.iter().flat_map(move |url| {
            let on = Target::Path(url);
            self.verbs.iter().map(move |verb| Part { verb, on })
        });
        of_resources.chain(of_paths)
    }

    /// The names of objects; a rule without any is about all of them.
    fn names(&self) -> impl Iterator<Item = Option<&str>> {
        let all = self.resource_names.is_empty().then_some(None);
        let names = self.resource_names.iter().map(|name| Some(name.as_str()));
        names.chain(all)
    }

    fn names_count(&self) -> usize {
        self.resource_names.len().max(1)
    }
}

/// What one rule allows of another one: places in the lists of that.
struct Common {
    groups: Vec<usize>,
    resources: Vec<usize>,
    verbs: Vec<usize>,
    names: Vec<usize>,
    urls: Vec<usize>,
}

impl Common {
    /// `None` if that is nothing.
    fn of(held: &Rule, wanted: &Rule) -> Option<Common> {
        let groups = with_star(&held.api_groups, &wanted.api_groups);
        let urls = urls(&held.non_resource_urls, &wanted.non_resource_urls);
        if groups.is_empty() && urls.is_empty() {
            return None;
        }
        let verbs = with_star(&held.verbs, &wanted.verbs);
        (!verbs.is_empty()).then(|| Common {
            groups,
            resources: resources(&held.resources, &wanted.resources),
            verbs,
            names: names(&held.resource_names, wanted),
            urls,
        })
    }

    fn is_all_of(&self, wanted: &Rule) -> bool {
        [
            (self.groups.len(), wanted.api_groups.len()),
            (self.resources.len(), wanted.resources.len()),
            (self.verbs.len(), wanted.verbs.len()),
            (self.names.len(), wanted.names_count()),
            (self.urls.len(), wanted.non_resource_urls.len()),
        ]
        .iter()
        .all(|(has, all)| has == all)
    }

    /// Marks the parts, which are in the order of [`Rule::parts`].
    fn mark(&self, wanted: &Rule, allowed: &mut [bool]) {
        let [resources, verbs, names] = [
            wanted.resources.len(),
            wanted.verbs.len(),
            wanted.names_count(),
        ];
        for group in &self.groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let first = ((group * resources + resource) * verbs + verb) * names;
                    for name in &self.names {
                        allowed[first + name] = true;
                    }
                }
            }
        }
        let first = wanted.api_groups.len() * resources * verbs * names;
        for url in &self.urls {
            for verb in &self.verbs {
                allowed[first + url * verbs + verb] = true;
            }
        }
    }
}

/// Finds texts in a list.
enum Known<'a> {
    Few(&'a [String]),
    Many(HashSet<&'a str>),
}

impl Known<'_> {
    /// `searched` is how many texts are looked for.
    fn of(texts: &[String], searched: usize) -> Known<'_> {
        if texts.len().min(searched) <= FEW {
            Known::Few(texts)
        } else {
            Known::Many(texts.iter().map(String::as_str).collect())
        }
    }

    fn has(&self, text: &str) -> bool {
        match self {
            Known::Few(texts) => texts.iter().any(|has| has == text),
            Known::Many(texts) => texts.contains(text),
        }
    }
}

fn places(wanted: &[String], is_held: impl Fn(&str) -> bool) -> Vec<usize> {
    let places = wanted.iter().enumerate();
    let held = places.filter(|(_, text)| is_held(text));
    held.map(|(at, _)| at).collect()
}

/// `*` holds everything.
fn with_star(held: &[String], wanted: &[String]) -> Vec<usize> {
    let held = Known::of(held, wanted.len());
    let all = held.has("*");
    places(wanted, |text| all || held.has(text))
}

/// As in [`Rule::allows`]: `*/scale` is that subresource of every resource, and a resource alone
/// has no subresources.
fn resources(held: &[String], wanted: &[String]) -> Vec<usize> {
    let held = Known::of(held, wanted.len());
    let all = held.has("*");
    places(wanted, |text| {
        all || match text.split_once('/') {
            None => held.has(text),
            Some((resource, "")) => held.has(resource),
            Some((_, subresource)) => held.has(text) || held.has(&format!("*/{subresource}")),
        }
    })
}

fn names(held: &[String], wanted: &Rule) -> Vec<usize> {
    if held.is_empty() {
        return (0..wanted.names_count()).collect();
    }
    let held = Known::of(held, wanted.resource_names.len());
    places(&wanted.resource_names, |name| held.has(name))
}

fn urls(held: &[String], wanted: &[String]) -> Vec<usize> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let known = Known::of(held, wanted.len());
    let open: Vec<&String> = held.iter().filter(|url| url.ends_with('*')).collect();
    places(wanted, |url| {
        known.has(url) || open.iter().any(|held| url_covers(held, url))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(lists: [&[&str]; 5]) -> Rule {
        let [
            verbs,
            api_groups,
            resources,
            resource_names,
            non_resource_urls,
        ] = lists.map(|list| list.iter().map(|text| (*text).to_owned()).collect());
        Rule {
            verbs,
            api_groups,
            resources,
            resource_names,
            non_resource_urls,
        }
    }

    fn beyond(wanted: &Rule, held: &[&Rule]) -> Vec<String> {
        let parts = wanted.parts_beyond(held);
        let told = parts.map(|part| match part.on {
            Target::Path(path) => format!("{} {path}", part.verb),
            Target::Resource {
                group,
                resource,
                name,
            } => {
                let name = name.unwrap_or("all");
                format!("{} {group}/{resource} {name}", part.verb)
            }
        });
        told.collect()
    }

    #[test]
    fn parts_that_no_rule_allows_are_told() {
        let mut wanted = rule([
            &["get", "list"],
            &["", "apps"],
            &["pods", "pods/log"],
            &["a", "b"],
            &["/x", "/y/z"],
        ]);
        assert_eq!(wanted.parts_count(), 2 * (2 * 2 * 2 + 2));
        assert_eq!(beyond(&wanted, &[]).len(), wanted.parts_count());
        let core = rule([&["*"], &[""], &["pods", "*/log"], &[], &["/y/*"]]);
        let apps = rule([&["get"], &["apps"], &["*"], &["b", "c"], &["/x"]]);
        assert_eq!(
            beyond(&wanted, &[&core, &apps]),
            [
                "get apps/pods a",
                "list apps/pods a",
                "list apps/pods b",
                "get apps/pods/log a",
                "list apps/pods/log a",
                "list apps/pods/log b",
                "list /x",
            ]
        );
        let [resources, paths] = Rule::everything();
        assert_eq!(beyond(&wanted, &[&resources, &paths]), [""; 0]);
        assert!(!resources.covers(&wanted) && !paths.covers(&wanted));
        let urls = std::mem::take(&mut wanted.non_resource_urls);
        assert!(resources.covers(&wanted));
        let urls = Rule {
            verbs: wanted.verbs,
            non_resource_urls: urls,
            ..Rule::default()
        };
        assert!(paths.covers(&urls) && !resources.covers(&urls));
    }

    #[test]
    fn a_rule_for_all_objects_is_not_held_by_name() {
        let all = rule([&["get"], &[""], &["pods"], &[], &[]]);
        let one = rule([&["get"], &[""], &["pods"], &["a"], &[]]);
        assert!(all.covers(&one) && !one.covers(&all));
        assert_eq!(beyond(&all, &[&one]), ["get /pods all"]);
    }

    #[test]
    fn long_lists_are_searched_like_short_ones() {
        let names: Vec<String> = (0..50_000).map(|at| format!("name-{at:09}")).collect();
        let rule = |names: &[String]| Rule {
            verbs: vec!["get".into()],
            api_groups: vec![String::new()],
            resources: vec!["pods".into()],
            resource_names: names.to_vec(),
            ..Rule::default()
        };
        let (all, most) = (rule(&names), rule(&names[1..]));
        assert!(all.covers(&most) && !most.covers(&all));
        assert_eq!(beyond(&all, &[&most]), ["get /pods name-000000000"]);
    }
}
