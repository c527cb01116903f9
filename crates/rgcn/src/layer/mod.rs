//! One layer on one rank: messages of sources along relations, and their gradients back.
//!
//! ```text
//! LayerPlan --.                      .-- forward  -> Sums (floats or exact integers)
//! TileShape ---> Pass ---------------+-- backward -> Updates (rows take steps, or gradients)
//! Coefficients'                      `-- split: in two halves; materialised: through W_r
//! ```
//!
//! Nothing here knows of ranks: [`crate::model`] cuts the work and puts the layers together.

pub(crate) mod coefficients;
pub(crate) mod gradient_rows;
pub(crate) mod kernel;
pub(crate) mod materialised;
pub(crate) mod optimiser;
pub(crate) mod pass;
pub(crate) mod plan;
pub(crate) mod products;
pub(crate) mod shape;
pub(crate) mod split;
pub(crate) mod sums;
pub(crate) mod values;
