//! Settings as JSON, with those of a caller in the place of some.

use serde_json::Value;

/// Puts the values of `over` in the place of those of `base`, table by table.
pub(crate) fn overlay(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                overlay(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}
