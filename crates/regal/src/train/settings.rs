//! Settings over others: what a file, or an experiment, changes of a preset.

use serde_json::{Map, Value};

use super::TrainConfig;
use crate::error::Error;

impl TrainConfig {
    /// These settings with others over them, each of which may be left out. Tables are merged, everything else is replaced; so is a kind
    /// (a table of one key) by another kind, whose fields are its own.
    ///
    /// # Errors
    /// `Options` for a field that there is not, or of another type.
    ///
    /// ```
    /// use shardgraph_regal::{EncoderShape, Preset, TrainConfig};
    /// let changed = serde_json::json!({"steps": 7, "policy": {"encoder": {"graph-network": {"n_rounds": 0}}}});
    /// let config = TrainConfig::preset(Preset::Synthetic).with_settings(changed.as_object().unwrap().clone())?;
    /// let EncoderShape::GraphNetwork(shape) = config.policy.encoder else { panic!() };
    /// assert_eq!((config.steps, shape.n_rounds, shape.width), (7, 0, 32));
    /// # Ok::<(), shardgraph_regal::Error>(())
    /// ```
    pub fn with_settings(self, settings: Map<String, Value>) -> Result<TrainConfig, Error> {
        let wrong = |error: serde_json::Error| Error::options(error.to_string());
        let mut merged = serde_json::to_value(self).map_err(wrong)?;
        merge(&mut merged, Value::Object(settings));
        serde_json::from_value(merged).map_err(wrong)
    }
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) if !is_another_kind(into, &from) => {
            for (key, value) in from {
                match into.get_mut(&key) {
                    Some(slot) => merge(slot, value),
                    None => {
                        into.insert(key, value);
                    }
                }
            }
        }
        (into, from) => *into = from,
    }
}

fn is_another_kind(old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    old.len() == 1 && new.len() == 1 && old.keys().ne(new.keys())
}
