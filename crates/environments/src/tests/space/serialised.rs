//! Spaces as JSON and TOML: equal afterwards, and damaged ones refused.

use proptest::prelude::*;
use serde_json::Value as Json;

use super::spaces;
use crate::space::{Major, RankedSpace, Space};

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
        prop_assert_eq!(toml::from_str::<Config>(&toml).unwrap(), Config { space: space.clone() });
        let ranked = RankedSpace::new(space).with_batch().with_time(Major::Batch);
        let json = serde_json::to_string(&ranked).unwrap();
        prop_assert_eq!(serde_json::from_str::<RankedSpace>(&json).unwrap(), ranked);
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

#[test]
fn damaged_spaces_are_refused_with_the_reason() {
    for (json, reason) in [
        (r#"{"type":"Sphere","n":1}"#, "unknown variant `Sphere`"),
        (r#"{"n":1}"#, "missing field `type`"),
        (r#"{"type":"Discrete"}"#, "missing field `n`"),
        (
            r#"{"type":"Discrete","n":1,"start":0}"#,
            "unknown field `start`",
        ),
        (
            r#"{"type":"Discrete","n":-1}"#,
            "invalid value: integer `-1`",
        ),
        (
            r#"{"type":"MultiBinary","n":0}"#,
            "Space::multi_binary: n: expected",
        ),
        (
            r#"{"type":"Box","shape":[2],"low":"low","high":1}"#,
            "a bound is a number, \"inf\", \"-inf\", or a list",
        ),
        (
            r#"{"type":"Box","shape":[2],"low":null,"high":1}"#,
            "a bound is a number, \"inf\", \"-inf\", or a list",
        ),
        (
            r#"{"type":"Box","shape":[2],"low":2,"high":1}"#,
            "the bounds of element 0: expected low <= high",
        ),
        (
            r#"{"type":"Tuple","spaces":[{"type":"Discrete","n":0}]}"#,
            "Space::discrete: n: expected",
        ),
    ] {
        let error = serde_json::from_str::<Space>(json).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let nested = format!(
        "{}{}",
        r#"{"type":"Tuple","spaces":["#.repeat(5000),
        "]}".repeat(5000)
    );
    assert!(serde_json::from_str::<Space>(&nested).is_err());
    let nested = format!(
        "space = {}{}",
        r#"{type = "Tuple", spaces = ["#.repeat(5000),
        "]}".repeat(5000)
    );
    assert!(toml::from_str::<Config>(&nested).is_err());
    assert!(
        toml::from_str::<Config>("space = {type = \"Box\", shape = [1], low = nan, high = 1}")
            .is_err()
    );
    let ranked = r#"{"space":{"type":"Discrete","n":1},"ranks":{"bath":true}}"#;
    assert!(
        serde_json::from_str::<RankedSpace>(ranked)
            .unwrap_err()
            .to_string()
            .contains("unknown field `bath`")
    );
}
