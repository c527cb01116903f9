//! Named parameters in one flat arena.

use shardgraph_device::{Buffer, Device};

use crate::{Error, ErrorKind, Shape};

/// A handle to one parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParamId(pub(crate) u32);

/// Named parameter matrices, stored one behind the other in one flat run: copying weights is one copy, an optimiser
/// step one pass, and a broadcast one message.
///
/// ```
/// use shardgraph_autodiff::{Params, Shape};
/// let mut params = Params::new();
/// let theta1 = params.add("theta1", Shape::new(1, 3), || 0.5);
/// assert_eq!(params.values_of(theta1), [0.5, 0.5, 0.5]);
/// assert_eq!(params.flat().len(), 3);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Params {
    names: Vec<String>,
    shapes: Vec<Shape>,
    offsets: Vec<usize>,
    values: Vec<f32>,
}

impl Default for Params {
    fn default() -> Self {
        Self::new()
    }
}

impl Params {
    /// No parameters.
    pub fn new() -> Self {
        Self {
            names: Vec::new(),
            shapes: Vec::new(),
            offsets: vec![0],
            values: Vec::new(),
        }
    }

    /// Adds a parameter, filled by calls of `init` in row-major order.
    pub fn add(&mut self, name: &str, shape: Shape, mut init: impl FnMut() -> f32) -> ParamId {
        self.names.push(name.to_string());
        self.shapes.push(shape);
        self.values.extend((0..shape.len()).map(|_| init()));
        self.offsets.push(self.values.len());
        ParamId(self.names.len() as u32 - 1)
    }

    /// All parameters in the order in which they were added.
    pub fn ids(&self) -> impl Iterator<Item = ParamId> + '_ {
        (0..self.names.len() as u32).map(ParamId)
    }

    /// The name of a parameter.
    pub fn name(&self, id: ParamId) -> &str {
        &self.names[id.0 as usize]
    }

    /// The shape of a parameter.
    pub fn shape(&self, id: ParamId) -> Shape {
        self.shapes[id.0 as usize]
    }

    /// The values of a parameter, row-major.
    pub fn values_of(&self, id: ParamId) -> &[f32] {
        let i = id.0 as usize;
        &self.values[self.offsets[i]..self.offsets[i + 1]]
    }

    /// All values, one parameter behind the other.
    pub fn flat(&self) -> &[f32] {
        &self.values
    }

    /// Replaces all values.
    ///
    /// # Errors
    /// When the number of values differs.
    pub fn set_flat(&mut self, values: &[f32]) -> Result<(), Error> {
        if values.len() != self.values.len() {
            return Err(ErrorKind::Usage(format!(
                "{} parameter values were given, this model has {}: the weights belong to another model",
                values.len(),
                self.values.len()
            ))
            .into());
        }
        self.values.copy_from_slice(values);
        Ok(())
    }

    pub(crate) fn flat_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    pub(crate) fn upload(&self, id: ParamId, device: &Device) -> Result<Buffer, Error> {
        Ok(device.upload(self.values_of(id))?)
    }

    /// The gradients of all parameters as one flat run; an absent gradient counts as zeros.
    ///
    /// # Errors
    /// When a gradient has another length than its parameter.
    pub fn flatten(&self, grads: &[Option<Vec<f32>>]) -> Result<Vec<f32>, Error> {
        let mut flat = vec![0.0; self.values.len()];
        for (i, grad) in grads.iter().enumerate() {
            let Some(grad) = grad else { continue };
            let target = flat
                .get_mut(self.offsets[i]..self.offsets[i + 1])
                .filter(|target| target.len() == grad.len());
            let Some(target) = target else {
                let text = format!("the gradient of `{}` has another length", self.names[i]);
                return Err(ErrorKind::Usage(text).into());
            };
            target.copy_from_slice(grad);
        }
        Ok(flat)
    }
}
