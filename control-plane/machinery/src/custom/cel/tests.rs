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
    for then in ["a30 == b30", "a30 in [b30]", "[a30].indexOf(b30) == 0"] {
        let found = run(&nested(then));
        assert_eq!(found, Err("TooExpensive".to_owned()), "{then}");
    }
    assert_eq!(run(&nested("a5 == b5")), Ok(Outcome::Bool(true)));
}
