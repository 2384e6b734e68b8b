use super::*;

/// Go prints these unchanged because it keeps the original text.
const KEPT: [&str; 5] = ["+5", "5.", "2E3", "1.k", "00012"];
/// Beyond its fast 64-bit numbers Go wraps around or grows; ours saturate.
const LARGE: [&str; 9] = [
    "1E",
    "1Ei",
    "9223372036854775807",
    "9223372036854775808",
    "1e18",
    "1e30",
    "8Ei",
    "9Ei",
    "16E",
];

#[test]
fn quantities_are_those_of_go() {
    let one = Quantity::parse("1").unwrap();
    for line in include_str!("../../../testdata/quantity.jsonl").lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = line["text"].as_str().unwrap();
        let quantity = match Quantity::parse(text) {
            Ok(quantity) => quantity,
            Err(error) => {
                assert_eq!(line["error"], error.0, "{text:?}");
                continue;
            }
        };
        assert_eq!(line["error"], "", "{text:?}");
        if !LARGE.contains(&text) {
            assert_eq!(line["value"], quantity.value(), "{text:?}");
            assert_eq!(line["milli"], quantity.milli_value(), "{text:?}");
        }
        if !KEPT.contains(&text) && text != "1e30" {
            assert_eq!(line["canonical"], quantity.to_string(), "{text:?}");
        }
        if text == "1e30" {
            continue;
        }
        let plus = quantity.plus(Quantity::parse("1500m").unwrap());
        assert_eq!(line["plus"], plus.to_string(), "{text:?}");
        let minus = quantity.minus(Quantity::parse("1Ki").unwrap());
        assert_eq!(line["minus"], minus.to_string(), "{text:?}");
        let compared = quantity.cmp(&one) as i8;
        assert_eq!(line["compared"], compared, "{text:?}");
    }
}

#[test]
fn quantities_are_equal_by_their_amount_in_whatever_notation() {
    let read = |text| Quantity::parse(text).unwrap();
    for (one, other) in [
        ("1Ki", "1024"),
        ("1e3", "1k"),
        ("1500m", "1.5"),
        ("0Ki", "0"),
    ] {
        assert_eq!(read(one), read(other), "{one} and {other}");
        assert!(read(one) <= read(other) && read(one) >= read(other));
    }
    assert_eq!(read("0Ki"), Quantity::default());
    assert_ne!(read("1Ki"), read("1k"));
    // What is printed keeps its notation.
    assert_ne!(read("1Ki").to_string(), read("1024").to_string());
}

#[test]
fn huge_exponents_neither_hang_nor_overflow() {
    for text in [
        "1e9223372036854775807",
        "1e-9223372036854775808",
        "9e400",
        "1e-400",
    ] {
        let quantity = Quantity::parse(text).unwrap();
        let _ = (
            quantity.value(),
            quantity.milli_value(),
            quantity.to_string(),
        );
    }
    // The least of all has no opposite.
    let low = Quantity::parse("-9e400").unwrap();
    let least = low.plus(Quantity::parse("-1").unwrap());
    assert_eq!(low.minus(least).to_string(), "1e-9");
    let long = "9".repeat(10_000);
    assert_eq!(Quantity::parse(&long).unwrap().value(), i64::MAX);
}
