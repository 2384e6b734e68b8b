//! Indexes of an indexed job as text, such as `0-2,5`.

/// How many indexes a text has, each below `completions`; else why it cannot be read.
pub(super) fn count(text: &str, completions: i64) -> Result<i64, String> {
    let mut total = 0;
    let mut last: Option<i64> = None;
    for part in parts(text) {
        let (first, end) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(not_increasing(last, first));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// The first index that two texts have both. Parts that cannot be read have none.
pub(super) fn overlap(one: &str, other: &str, completions: i64) -> Option<i64> {
    let read = |text| parts(text).filter_map(move |part| interval(part, completions).ok());
    let mut others = read(other).peekable();
    for (first, end) in read(one) {
        while others.next_if(|(_, end)| *end < first).is_some() {}
        if let Some((begin, _)) = others.peek().filter(|(begin, _)| *begin <= end) {
            return Some(first.max(*begin));
        }
    }
    None
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(move |_| !text.is_empty())
}

/// The first and the last index of a part.
fn interval(part: &str, completions: i64) -> Result<(i64, i64), String> {
    let mut limits = part.split('-');
    let first = limits.next().unwrap_or_default();
    let last = limits.next();
    if limits.next().is_some() {
        return Err(format!(
            "the fragment {part:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        ));
    }
    let index = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!(
            "cannot convert string to integer for index: {text:?}"
        )),
        Ok(index) if index >= completions => Err(format!("too large index: {text:?}")),
        Ok(index) => Ok(index),
    };
    let first = index(first)?;
    match last.map(index).transpose()? {
        None => Ok((first, first)),
        Some(last) if first >= last => Err(not_increasing(first, last)),
        Some(last) => Ok((first, last)),
    }
}

fn not_increasing(previous: i64, current: i64) -> String {
    format!("non-increasing order, previous: {previous}, current: {current}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted_and_have_an_order() {
        for (text, total) in [("", 0), ("0", 1), ("0-2,5", 4), ("1,3-4", 3)] {
            assert_eq!(count(text, 6), Ok(total), "{text}");
        }
        for (text, why) in [
            ("6", "too large index: \"6\""),
            ("2,1", "non-increasing order, previous: 2, current: 1"),
            ("2-2", "non-increasing order, previous: 2, current: 2"),
            ("x", "cannot convert string to integer for index: \"x\""),
        ] {
            assert_eq!(count(text, 6), Err(why.to_owned()), "{text}");
        }
        let why = count("1-2-3", 6).unwrap_err();
        assert!(why.starts_with("the fragment \"1-2-3\" violates"), "{why}");
    }

    #[test]
    fn indexes_overlap_where_both_have_one() {
        assert_eq!(overlap("0-2,5", "3-4", 9), None);
        assert_eq!(overlap("0-2,5", "3-7", 9), Some(5));
        assert_eq!(overlap("4", "0,2-6", 9), Some(4));
        assert_eq!(overlap("", "0", 9), None);
        assert_eq!(overlap("0,x", "x,0", 9), Some(0));
    }
}
