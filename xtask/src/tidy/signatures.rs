//! Arguments that travel together: a tuple pattern in a signature hides what should be a struct.

use std::collections::BTreeMap;

use super::code::{find_word, is_word, line_of, without_literals};
use crate::project::Project;

/// Functions with a tuple pattern as an argument, by crate.
pub(crate) fn tuple_arguments(project: &Project) -> BTreeMap<String, Vec<String>> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in project.with_extension("rs") {
        let Some((krate, _)) = path.strip_prefix("crates/").and_then(|p| p.split_once('/')) else {
            continue;
        };
        let code = without_literals(text);
        for at in find_word(&code, "fn") {
            if has_tuple_pattern(&code[at..]) {
                let place = format!("{path}:{}", line_of(&code, at));
                places.entry(krate.to_owned()).or_default().push(place);
            }
        }
    }
    places
}

/// Whether an argument of the function that begins here is a pattern in parentheses.
fn has_tuple_pattern(function: &str) -> bool {
    let name = function["fn".len()..].trim_start();
    if !name.starts_with(is_word) {
        return false; // a type `fn(..)`
    }
    let Some(open) = arguments(name) else {
        return false;
    };
    let mut depth = 0;
    let mut is_start = true;
    let mut previous = ' ';
    for (at, c) in name[open + 1..].char_indices() {
        match c {
            '>' if previous == '-' => {} // an arrow closes nothing
            '(' if depth == 0 && is_start && !is_drawn(&name[open + 1 + at..]) => return true,
            ')' if depth == 0 => return false,
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            _ => {}
        }
        is_start = match c {
            ',' => depth == 0,
            c => is_start && c.is_whitespace(),
        };
        previous = c;
    }
    false
}

/// Whether the pattern that begins here is bound to what a strategy draws, as proptest has it: `(a, b) in pairs()`.
fn is_drawn(pattern: &str) -> bool {
    let mut depth = 0;
    let end = pattern.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    let rest = end.map(|end| pattern[end + 1..].trim_start());
    rest.is_some_and(|rest| rest.starts_with("in "))
}

/// The parenthesis that opens the arguments, behind generics if there are some.
fn arguments(name: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in name.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth == 0 => return Some(at),
            '{' | ';' => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    #[test]
    fn patterns_are_found_and_tuples_of_types_are_not() {
        for (source, is_found) in [
            ("fn f((a, b): (u8, u8)) {}", true),
            ("fn f<T: Fn(u8)>(x: T, (a, b): (u8, u8)) {}", true),
            ("fn f(\n    x: u8,\n    (a, b): (u8, u8),\n) {}", true),
            ("fn f(a: (u8, u8), b: impl Fn((u8, u8)) -> u8) {}", false),
            ("fn f(b: impl Fn(u8) -> u8) { g(1, (2, 3)) }", false),
            ("fn f(b: fn(u8) -> u8, (a, b): (u8, u8)) {}", true),
            ("let f: fn((u8, u8)) = g;", false),
            ("fn f((a, b) in pairs(), c in 0..2) {}", false),
            ("fn f(((a, b), c) in (pairs(), 0..2)) {}", false),
            ("fn f((a, b) in pairs(), (c, d): (u8, u8)) {}", true),
            ("let f = |(a, b)| a + b;", false),
            ("// fn f((a, b): (u8, u8))", false),
        ] {
            let found = tuple_arguments(&planted(&[("crates/a/src/lib.rs", source)]));
            assert_eq!(found.contains_key("a"), is_found, "{source}");
        }
    }
}
