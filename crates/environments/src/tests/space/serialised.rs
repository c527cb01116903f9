//! Spaces as JSON and TOML: equal afterwards, and damaged ones refused.

use proptest::prelude::*;
use serde_json::Value as Json;

use super::spaces;
use crate::space::Space;

/// A JSON value as TOML: tables in one line.
fn toml_of(json: &Json) -> String {
    match json {
        Json::Array(list) => {
            let list: Vec<_> = list.iter().map(toml_of).collect();
            format!("[{}]", list.join(", "))
        }
        Json::Object(members) => {
            let member = |(name, value): (&String, &Json)| format!("{name} = {}", toml_of(value));
            let members: Vec<_> = members.iter().map(member).collect();
            format!("{{{}}}", members.join(", "))
        }
        other => other.to_string(),
    }
}

/// A config with a space in it.
#[derive(Debug, PartialEq, serde::Deserialize)]
struct Config {
    space: Space,
}

proptest! {
    #[test]
    fn spaces_come_back_from_json_and_toml(space in spaces(3)) {
        let json = serde_json::to_string(&space).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Space>(&json).unwrap(), &space);
        let toml = format!("space = {}", toml_of(&serde_json::to_value(&space).unwrap()));
        prop_assert_eq!(toml::from_str::<Config>(&toml).unwrap(), Config { space });
    }

    /// A cut or a changed character makes an error or another space that is one, never a panic.
    #[test]
    fn damaged_text_is_survived(space in spaces(3), at: prop::sample::Index, new in "[a-z0-9{}\\[\\],:\".-]") {
        let json = serde_json::to_string(&space).unwrap();
        let at = at.index(json.len());
        prop_assert!(serde_json::from_str::<Space>(&json[..at]).is_err());
        let changed = format!("{}{new}{}", &json[..at], &json[at + 1..]);
        if let Ok(other) = serde_json::from_str::<Space>(&changed) {
            let again = serde_json::to_string(&other).unwrap();
            prop_assert_eq!(serde_json::from_str::<Space>(&again).unwrap(), other);
        }
    }
}

#[test]
fn the_written_form_is_the_documented_one() {
    let space = Space::dict(vec![
        (
            "speed",
            Space::boxed(&[2], [0.0, f32::NEG_INFINITY], f32::INFINITY).unwrap(),
        ),
        (
            "gear",
            Space::tuple(vec![
                Space::discrete(5).unwrap(),
                Space::multi_binary(3).unwrap(),
            ])
            .unwrap(),
        ),
        ("roads", Space::graph(1, 2).unwrap()),
    ])
    .unwrap();
    let json = concat!(
        r#"{"type":"Dict","spaces":[["speed",{"type":"Box","shape":[2],"low":[0.0,"-inf"],"high":"inf"}],"#,
        r#"["gear",{"type":"Tuple","spaces":[{"type":"Discrete","n":5},{"type":"MultiBinary","n":3}]}],"#,
        r#"["roads",{"type":"Graph","node_features":1,"edge_features":2}]]}"#,
    );
    assert_eq!(serde_json::to_string(&space).unwrap(), json);
    let toml = "[space]\ntype = \"Box\"\nshape = [4]\nlow = -inf\nhigh = 2\n";
    let expected = Space::boxed(&[4], f32::NEG_INFINITY, 2.0).unwrap();
    assert_eq!(toml::from_str::<Config>(toml).unwrap().space, expected);
}

fn refused(json: &str) -> String {
    serde_json::from_str::<Space>(json).unwrap_err().to_string()
}

#[test]
fn damaged_spaces_are_refused_with_the_reason() {
    for (json, reason) in [
        (r#"{"type":"Sphere","n":1}"#, "unknown variant `Sphere`"),
        (r#"{"n":1}"#, "missing field `type`"),
        (r#"{"type":"Discrete"}"#, "missing field `n`"),
        (r#"{"type":"Discrete","n":1,"a":0}"#, "unknown field `a`"),
        (r#"{"type":"Discrete","n":-1}"#, "integer `-1`"),
        (r#"{"type":"MultiBinary","n":0}"#, "n: expected a size of 1"),
        (r#"{"type":"Tuple","spaces":[]}"#, "expected one or more"),
    ] {
        assert!(refused(json).contains(reason), "{}", refused(json));
    }
    let inner = r#"{"type":"Tuple","spaces":[{"type":"Discrete","n":0}]}"#;
    assert!(refused(inner).starts_with("Space::discrete: n: expected a size of 1"));
}

#[test]
fn damaged_bounds_are_refused_with_the_reason() {
    for (low, reason) in [
        (
            "\"low\"",
            "a bound is a number, \"inf\", \"-inf\", or a list of these",
        ),
        (
            "null",
            "a bound is a number, \"inf\", \"-inf\", or a list of these",
        ),
        ("2", "element 0: expected low <= high"),
        ("[0, 2]", "element 1: expected low <= high"),
        (
            "[0]",
            "low: expected 2, one an element, or a single one, given 1",
        ),
    ] {
        let json = format!(r#"{{"type":"Box","shape":[2],"low":{low},"high":1}}"#);
        assert!(refused(&json).contains(reason), "{}", refused(&json));
    }
    let nan = "space = {type = \"Box\", shape = [1], low = nan, high = 1}";
    assert!(toml::from_str::<Config>(nan).is_err());
}

/// Text that nests without end runs into the readers' own limits, not into the end of the stack.
#[test]
fn nesting_without_end_is_refused() {
    let end = "]}".repeat(5000);
    let json = r#"{"type":"Tuple","spaces":["#.repeat(5000) + &end;
    assert!(refused(&json).contains("recursion limit"));
    let toml = format!(
        "space = {}{end}",
        r#"{type = "Tuple", spaces = ["#.repeat(5000)
    );
    assert!(toml::from_str::<Config>(&toml).is_err());
}
