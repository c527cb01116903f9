//! The settings of an optimiser, and the short form in which they may be written.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Error;
use crate::error::Call;

/// The rule by which an [`crate::Optimiser`](crate::Optimiser) makes its steps.
///
/// In settings `"adam"` alone means [`OptimiserRule::ADAM`]; `{ adam = { epsilon = 1e-5 } }`
/// changes a part of it.
// `remote` gives the derived code a name of its own, which the short form below goes around.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "snake_case", deny_unknown_fields)]
pub enum OptimiserRule {
    /// [`Adam`](shardgraph_autodiff::Adam).
    Adam(AdamConstants),
    /// [`Sgd`](shardgraph_autodiff::Sgd).
    Sgd,
    /// [`RmsProp`](shardgraph_autodiff::RmsProp).
    RmsProp {
        /// The part of the mean square that is kept.
        decay: f32,
        /// The part of the last step that is kept.
        momentum: f32,
        /// Added to the mean square.
        epsilon: f32,
    },
}

impl OptimiserRule {
    /// Adam with the constants of its paper.
    pub const ADAM: OptimiserRule = OptimiserRule::Adam(AdamConstants::PAPER);
}

/// The constants of Adam; those that are absent are as in its paper.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdamConstants {
    /// The part of the first moment that is kept.
    pub beta1: f32,
    /// The part of the second moment that is kept.
    pub beta2: f32,
    /// Added to the root of the second moment.
    pub epsilon: f32,
}

impl AdamConstants {
    /// 0.9, 0.999 and 1e-8.
    pub const PAPER: AdamConstants = AdamConstants {
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-8,
    };
}

impl Default for AdamConstants {
    fn default() -> AdamConstants {
        AdamConstants::PAPER
    }
}

impl Serialize for OptimiserRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        OptimiserRule::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for OptimiserRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OptimiserRule, D::Error> {
        deserializer.deserialize_any(ShortForm)
    }
}

/// Reads a name, or a name with constants.
struct ShortForm;

impl<'de> Visitor<'de> for ShortForm {
    type Value = OptimiserRule;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name, as \"adam\", or a name with constants, as { adam = { beta1 = 0.9 } }")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<OptimiserRule, E> {
        match name {
            "adam" => Ok(OptimiserRule::ADAM),
            _ => OptimiserRule::deserialize(name.into_deserializer()),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OptimiserRule, A::Error> {
        OptimiserRule::deserialize(MapAccessDeserializer::new(map))
    }
}

/// The settings of an [`crate::Optimiser`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptimiserConfig {
    /// The rule of its steps.
    pub rule: OptimiserRule,
    /// Step size.
    pub learning_rate: f32,
    /// The largest Euclidean norm of a gradient; longer ones are scaled down to it. Without it (the
    /// default) none are.
    #[serde(default)]
    pub max_gradient_norm: Option<f32>,
}

impl OptimiserConfig {
    /// Checks the settings, for configurations, before a run begins.
    ///
    /// # Errors
    /// When a step size or norm is not above 0, a part is not from 0 to below 1, or epsilon is not
    /// above 0.
    pub fn check(&self) -> Result<(), Error> {
        let call = Call::new("optimiser", "OptimiserConfig::check");
        let part = |what: &str, x: f32| match (0.0..1.0).contains(&x) {
            true => Ok(()),
            false => Err(call.mismatch(what, "a number from 0 to below 1", x.to_string())),
        };
        call.expect_above_0("learning_rate", self.learning_rate)?;
        if let Some(norm) = self.max_gradient_norm {
            call.expect_above_0("max_gradient_norm", norm)?;
        }
        match self.rule {
            OptimiserRule::Adam(AdamConstants {
                beta1,
                beta2,
                epsilon,
            }) => {
                part("beta1", beta1)?;
                part("beta2", beta2)?;
                call.expect_above_0("epsilon", epsilon)
            }
            OptimiserRule::Sgd => Ok(()),
            OptimiserRule::RmsProp {
                decay,
                momentum,
                epsilon,
            } => {
                part("decay", decay)?;
                part("momentum", momentum)?;
                call.expect_above_0("epsilon", epsilon)
            }
        }
    }
}
