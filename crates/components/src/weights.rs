//! Weights from one place to another: to the target network, and from one rank to the others.

use serde::{Deserialize, Serialize};
use shardgraph_autodiff::collectives::{Comm, Deadline, Op};
use shardgraph_autodiff::{Error as AutodiffError, Params};

use crate::Error;
use crate::error::Call;

/// When and how far the frozen parameters (a target network) follow the trained ones.
///
/// ```
/// use shardgraph_components::TargetUpdate;
/// use shardgraph_components::autodiff::{Params, Shape};
///
/// let mut params = Params::new();
/// params.add("online/w", Shape::new(1, 1), || 4.0);
/// params.freeze_rest(); // what comes now begins with values of its own: make the first copy
/// params.add("target/w", Shape::new(1, 1), || 0.0);
/// assert!(!TargetUpdate::Hard { every: 500 }.apply(&mut params, 499)?);
/// TargetUpdate::Soft { tau: 0.25 }.apply(&mut params, 1)?;
/// assert_eq!(params.flat(), [4.0, 1.0]);
/// # Ok::<(), shardgraph_components::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TargetUpdate {
    /// They become equal at every multiple of `every` (updates or steps, as the caller counts).
    Hard {
        /// How many lie between; at least 1.
        every: u64,
    },
    /// They go a part of the way each time.
    Soft {
        /// Which part, above 0 and up to 1.
        tau: f32,
    },
}

impl TargetUpdate {
    /// Does what is due after `count` updates or steps, and says whether anything was.
    ///
    /// # Errors
    /// When trained and frozen parameters do not pair up by name and shape, or a setting cannot be right.
    pub fn apply(&self, params: &mut Params, count: u64) -> Result<bool, Error> {
        self.check()?;
        match *self {
            TargetUpdate::Hard { every } if !count.is_multiple_of(every) => return Ok(false),
            TargetUpdate::Hard { .. } => params.copy_trained_to_frozen()?,
            TargetUpdate::Soft { tau } => params.blend_trained_into_frozen(tau)?,
        }
        Ok(true)
    }

    /// Whether the settings can be right: for configurations, before a run begins.
    ///
    /// # Errors
    /// When `every` is 0 or `tau` is not above 0 and up to 1.
    pub fn check(&self) -> Result<(), Error> {
        let call = Call::new("target", "TargetUpdate::check");
        match *self {
            TargetUpdate::Hard { every: 0 } => Err(call.misfit("every", "at least 1", "0")),
            TargetUpdate::Soft { tau } if !(tau > 0.0 && tau <= 1.0) => {
                Err(call.misfit("tau", "a part above 0 and up to 1", tau.to_string()))
            }
            _ => Ok(()),
        }
    }
}

/// Gives all ranks the parameters of rank `root`, frozen ones included, in one message.
///
/// # Errors
/// Of the communicator; the parameters stay as they were.
/// # Complexity
/// A broadcast of the flat arena.
pub fn broadcast_weights(
    comm: &mut Comm,
    params: &mut Params,
    root: u32,
    deadline: Deadline,
) -> Result<(), Error> {
    let mut values = params.flat().to_vec();
    let buf = (&mut values[..]).into();
    comm.run(Op::Broadcast { buf, root }, deadline)
        .map_err(AutodiffError::from)?;
    Ok(params.set_flat(&values)?)
}
