use serde_json::json;

use super::*;

/// The result of an expression over `self`, and why there is none.
fn run(source: &str) -> Result<Outcome, String> {
    let value = json!({"name": "a", "list": [1, 2, 3], "map": {"k": "v"}, "n": 5});
    let program = Environment::new().with_any("self").compile(source)?;
    let lookup = |name: &str| (name == "self").then_some(&value);
    let (outcome, _) = program.evaluate(&lookup, CALL_COST_MAX);
    outcome.map_err(|why| format!("{why:?}"))
}

#[track_caller]
fn holds(source: &str) {
    assert_eq!(run(source), Ok(Outcome::Bool(true)), "{source}");
}

#[test]
fn expressions_have_the_results_of_the_language() {
    holds("self.name == 'a' && self.n > 4");
    holds("self.list.all(x, x > 0) && self.list.exists(x, x == 2)");
    holds("self.list.map(x, x * 2) == [2, 4, 6]");
    holds("self.list.filter(x, x > 1).size() == 2");
    holds("has(self.map.k) && !has(self.map.j)");
    holds("self.?missing.orValue('x') == 'x'");
    holds("'abc'.matches('^a.c$') && 'a-b'.split('-') == ['a', 'b']");
    holds("quantity('1Ki').isGreaterThan(quantity('1k'))");
    holds("{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}");
    holds("duration('90s').getMinutes() == 1");
    holds("'%d of %s'.format([1, dyn('x')]) == '1 of x'");
    holds("false && self.nothing.at.all || true");
    holds("[3, 1, 2].sort() == [1, 2, 3]");
    holds("type(self.n) == int");
}

#[test]
fn what_is_made_of_itself_again_and_again_is_not_walked_through() {
    let nested = |then: &str| {
        let level = |at: usize| {
            let below = at - 1;
            format!(
                "[dyn([a{below}, a{below}])].exists(a{at}, \
                 [dyn([b{below}, b{below}])].exists(b{at}, "
            )
        };
        let levels: String = (1..=30).map(level).collect();
        let first = "[dyn(1)].exists(a0, [dyn(1)].exists(b0, ";
        first.to_owned() + &levels + then + &")".repeat(62)
    };
    for then in [
        "a30 == b30",
        "a30 in [b30]",
        "[a30].indexOf(b30) == 0",
        "a30.flatten(50).size() == 0",
    ] {
        let found = run(&nested(then));
        assert_eq!(found, Err("TooExpensive".to_owned()), "{then}");
    }
    // What it costs is more than is allowed, and known without a walk.
    for then in ["[a30].sum() == b30", "a30.indexOf(1 / (a0 - a0)) == 0"] {
        let found = run(&nested(then));
        assert_eq!(found, Err("TooExpensive".to_owned()), "{then}");
    }
    assert_eq!(run(&nested("a5 == b5")), Ok(Outcome::Bool(true)));
}

#[test]
fn no_function_makes_a_text_without_end_of_a_small_one() {
    let doubled = |first: &str, by: &str, then: &str| {
        let level = |at: usize| {
            let below = format!("a{}", at - 1);
            format!("[dyn({})].exists(a{at}, ", by.replace("it", &below))
        };
        let levels: String = (1..=60).map(level).collect();
        format!("[dyn({first})].exists(a0, {levels}{then}{}", ")".repeat(61))
    };
    for (first, by, then) in [
        ("'x'", "[it, it]", "'%s'.format([a60]) == ''"),
        ("'x'", "{'a': it, 'b': it}", "'%s'.format([a60]) == ''"),
        ("[]", "[it, it]", "'%s'.format([a60]) == ''"),
        ("'x'", "'%s%s'.format([it, it])", "a60 == ''"),
        ("'x'", "'%x'.format([it])", "a60 == ''"),
        ("'\"'", "'%s'.format([[it]])", "a60 == ''"),
        ("b'x'", "it + it", "a60 == b''"),
    ] {
        let found = run(&doubled(first, by, then)).unwrap_err();
        assert!(found.contains("string is longer than"), "{by}: {found}");
    }
    holds(
        "'%s %s'.format([[1, 'x', b'y', 1.5, null], {'k': duration('1s')}]) == \
           '[1, \"x\", b\"y\", 1.500000, null] {\"k\":duration(\"1s\")}'",
    );
}

#[test]
fn a_query_with_very_many_keys_is_read_at_once() {
    let query: String = (0..300_000).map(|at| format!("{at}&")).collect();
    let value = json!(format!("/?{query}7=x"));
    let source = "url(self).getQuery().size() == 300000 && url(self).getQuery()['7'] == ['', 'x']";
    let program = Environment::new().with_any("self").compile(source).unwrap();
    let lookup = |name: &str| (name == "self").then_some(&value);
    let (outcome, _) = program.evaluate(&lookup, 10 * CALL_COST_MAX);
    assert_eq!(outcome, Ok(Outcome::Bool(true)));
}

/// Why an expression does not compile.
fn refused(source: &str) -> String {
    let environment = Environment::new().with_any("self");
    environment.compile(source).map(drop).unwrap_err()
}

#[test]
fn no_macro_makes_a_tree_without_end_of_a_short_text() {
    let chain = |length: usize, name: &str| {
        let step = format!(".{name}(x, optional.of(x))");
        format!("optional.of(1){}.hasValue()", step.repeat(length))
    };
    for name in ["optMap", "optFlatMap"] {
        let why = refused(&chain(45, name));
        assert!(why.contains("node limit exceeded"), "{why}");
        holds(&chain(6, name));
    }
}

#[test]
fn no_type_doubles_again_and_again() {
    let levels = |first: &str, level: &str, then: &str| {
        let level = |at: usize| {
            let level = level.replace("it", &format!("a{}", at - 1));
            format!("[{level}].exists(a{at}, ")
        };
        let levels: String = (1..=50).map(level).collect();
        format!("[{first}].exists(a0, {levels}{then}{}", ")".repeat(51))
    };
    for (first, level) in [
        ("1", "{it: it}"),
        ("'x'", "{it: [it]}"),
        ("[]", "{it: it}"),
        ("{}", "{it: it}"),
        ("optional.of(1)", "optional.of({it: it})"),
    ] {
        let why = refused(&levels(first, level, "true"));
        assert!(why.contains("types of its parts are too large"), "{why}");
    }
    // A variable of one list stands for what has the variable of the next one twice.
    let lists: String = (0..40)
        .map(|at| format!("[[], [{{l{at}: l{at}}}]].exists(l{}, ", at + 1))
        .collect();
    let source = format!("[[]].exists(l0, {lists}true{}", ")".repeat(41));
    let why = refused(&source);
    assert!(why.contains("types of its parts are too large"), "{why}");
    let wide = vec!["{'a': [1, 2], 'b': [3]}"; 500].join(", ");
    holds(&format!("[{wide}].size() == 500"));
}

#[test]
fn what_a_loop_looks_at_again_and_again_is_counted_or_left() {
    let items: Vec<i64> = (0..150_000).collect();
    let others: Vec<i64> = items.iter().map(|one| -1 - one).collect();
    let texts = vec!["a"; 50_000];
    let value = json!({"items": items, "others": others, "texts": texts,
        "long": "ä".repeat(1 << 20), "twice": "ab"});
    let run = |source: &str| {
        let program = Environment::new().with_any("self").compile(source);
        let program = program.unwrap();
        let lookup = |name: &str| (name == "self").then_some(&value);
        program.evaluate(&lookup, CALL_COST_MAX).0
    };
    let found = run("self.items.all(x, !(x in self.others))");
    assert_eq!(found, Err(Error::TooExpensive));
    let found = run("self.texts.all(x, x != self.long && self.long != x && x < self.twice)");
    assert_eq!(found, Ok(Outcome::Bool(true)));
}

#[test]
fn the_patterns_of_an_expression_have_one_bound() {
    let compiled = |count: usize, function: &str| {
        let calls = (0..count).map(|at| format!("self.{function}(r'{at}\\pL{{100}}')"));
        let source = format!("[{}].size() > 0", calls.collect::<Vec<_>>().join(", "));
        let program = Environment::new().with_any("self").compile(&source);
        program.map(drop)
    };
    assert_eq!(compiled(2, "matches"), Ok(()));
    let why = compiled(100, "matches").unwrap_err();
    assert!(why.contains("invalid matches argument"), "{why}");
    let why = compiled(100, "find").unwrap_err();
    assert!(why.contains("expression too large"), "{why}");
}

#[test]
fn a_pattern_in_a_value_costs_what_it_takes() {
    let patterns: Vec<String> = (0..20).map(|at| format!("{at}\\pL{{100}}")).collect();
    let value = json!({"patterns": patterns, "large": "\\pL{100}", "small": "^a+$",
        "texts": vec!["a"; 1000]});
    let run = |source: &str| {
        let program = Environment::new().with_any("self").compile(source);
        let program = program.unwrap();
        let lookup = |name: &str| (name == "self").then_some(&value);
        program.evaluate(&lookup, CALL_COST_MAX)
    };
    let (found, _) = run("self.patterns.exists(x, 'a'.matches(x))");
    assert_eq!(found, Err(Error::TooExpensive));
    // One that was met before is not compiled again.
    let (found, cost) = run("self.texts.all(x, !x.matches(self.large))");
    assert_eq!(found, Ok(Outcome::Bool(true)));
    assert!(cost > 100_000, "{cost}");
    // Others cost what Kubernetes counts.
    let (found, cost) = run("self.texts.all(x, x.matches(self.small))");
    assert_eq!(found, Ok(Outcome::Bool(true)));
    assert!(cost < 20_000, "{cost}");
}
