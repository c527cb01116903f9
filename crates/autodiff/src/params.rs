//! Named parameters in one flat arena.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shardgraph_device::{Buffer, Device};
use shardgraph_ops::{self as ops, Binary};

use crate::mirror::{Identity, Mirror};
use crate::{Error, Shape};

/// A handle to one parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParamId(pub(crate) u32);

/// Named parameter matrices, stored one behind the other in one flat run: copying weights is one copy, an optimiser
/// step one pass, and a broadcast one message.
///
/// **Frozen parameters.** Those that are added after [`Params::freeze_rest`] are constants of the programs that use them:
/// gradients and optimisers cover the trained ones only. A target network lives there, in the same programs as the
/// network that is trained.
///
/// **Where they are.** In host memory, and on the device whose programs use them. An optimiser's step on a device writes the
/// device's copy alone; [`Params::flat`] and its kin copy it back when they are called, and [`Params::sync`] does so with an
/// error where the device fails.
///
/// ```
/// use shardgraph_autodiff::{Params, Shape};
/// let mut params = Params::new();
/// let theta1 = params.add("theta1", Shape::new(1, 3), || 0.5);
/// assert_eq!(params.values_of(theta1), [0.5, 0.5, 0.5]);
/// params.freeze_rest();
/// let target = params.add("target/theta1", Shape::new(1, 3), || 0.0);
/// assert_eq!((params.flat().len(), params.trained_len()), (6, 3));
/// params.copy_trained_to_frozen()?;
/// assert_eq!(params.values_of(target), [0.5, 0.5, 0.5]);
/// # Ok::<(), shardgraph_autodiff::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Params {
    names: Vec<String>,
    shapes: Vec<Shape>,
    offsets: Vec<usize>,
    values: Mirror,
    /// The number of trained parameters, once the rest is frozen.
    n_trained: Option<usize>,
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
            values: Mirror::new(Vec::new()),
            n_trained: None,
        }
    }

    /// Every parameter that is added from now on is frozen.
    pub fn freeze_rest(&mut self) {
        let n_so_far = self.names.len();
        self.n_trained.get_or_insert(n_so_far);
    }

    /// Adds a parameter, filled by calls of `init` in row-major order.
    pub fn add(&mut self, name: &str, shape: Shape, mut init: impl FnMut() -> f32) -> ParamId {
        self.names.push(name.to_string());
        self.shapes.push(shape);
        let values = self.values.host_mut();
        values.extend((0..shape.len()).map(|_| init()));
        self.offsets.push(values.len());
        ParamId(self.names.len() as u32 - 1)
    }

    /// All parameters in the order in which they were added.
    pub fn ids(&self) -> impl Iterator<Item = ParamId> + '_ {
        (0..self.names.len() as u32).map(ParamId)
    }

    /// The trained parameters in the order in which they were added.
    pub fn trained_ids(&self) -> impl Iterator<Item = ParamId> + '_ {
        self.ids().take(self.n_trained())
    }

    fn n_trained(&self) -> usize {
        self.n_trained.unwrap_or(self.names.len())
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
    ///
    /// # Panics
    /// As [`Params::flat`].
    pub fn values_of(&self, id: ParamId) -> &[f32] {
        let i = id.0 as usize;
        &self.values.host()[self.offsets[i]..self.offsets[i + 1]]
    }

    /// All values, one parameter behind the other.
    ///
    /// # Panics
    /// Where a device has the newest values and fails to give them; after [`Params::sync`] it does not.
    pub fn flat(&self) -> &[f32] {
        self.values.host()
    }

    /// Copies the values to the host, where a device has newer ones.
    ///
    /// # Errors
    /// The device's.
    pub fn sync(&self) -> Result<(), Error> {
        self.values.sync()
    }

    /// Replaces all values.
    ///
    /// # Errors
    /// When the number of values differs.
    pub fn set_flat(&mut self, values: &[f32]) -> Result<(), Error> {
        let n_values = self.offsets[self.names.len()];
        check_len("set_flat", values.len(), n_values)?;
        self.values.host_mut().copy_from_slice(values);
        Ok(())
    }

    /// The number of trained values.
    pub fn trained_len(&self) -> usize {
        self.offsets[self.n_trained()]
    }

    /// The trained values, one parameter behind the other.
    ///
    /// # Panics
    /// As [`Params::flat`].
    pub fn trained(&self) -> &[f32] {
        &self.flat()[..self.trained_len()]
    }

    /// Replaces the trained values.
    ///
    /// # Errors
    /// When the number of values differs.
    pub fn set_trained(&mut self, values: &[f32]) -> Result<(), Error> {
        check_len("set_trained", values.len(), self.trained_len())?;
        self.trained_mut().copy_from_slice(values);
        Ok(())
    }

    pub(crate) fn trained_mut(&mut self) -> &mut [f32] {
        let len = self.trained_len();
        &mut self.values.host_mut()[..len]
    }

    /// Gives each frozen parameter the values of its trained one: the hard update of a target network.
    ///
    /// Two belong together whose names are equal behind their first scope: `target/head/w` and `online/head/w`, or `head/w` alone.
    /// A scope none of whose parameters has a frozen one is left alone, as the policy of an actor-critic whose critics have targets.
    ///
    /// # Errors
    /// When one has no counterpart or two, or the two differ in shape; no value has changed then.
    pub fn copy_trained_to_frozen(&mut self) -> Result<(), Error> {
        self.blend_trained_into_frozen(1.0)
    }

    /// Moves each frozen parameter the fraction `tau` of the way to its trained one: the soft update of a target network.
    /// With `tau = 1` it is a copy.
    ///
    /// # Errors
    /// As [`Params::copy_trained_to_frozen`], and unless `0 <= tau <= 1`.
    pub fn blend_trained_into_frozen(&mut self, tau: f32) -> Result<(), Error> {
        if !(0.0..=1.0).contains(&tau) {
            let text = format!("params: the fraction tau lies between 0 and 1, {tau} was given");
            return Err(Error::Usage(text));
        }
        let pairs = self.pairs()?;
        if let Some(device) = self.values.device().cloned() {
            return self.blend_on_device(&device, &pairs, tau);
        }
        let n_trained = self.trained_len();
        let (trained, frozen) = self.values.host_mut().split_at_mut(n_trained);
        for (from, to) in pairs {
            let from = &trained[self.offsets[from]..self.offsets[from + 1]];
            let to = &mut frozen[self.offsets[to] - n_trained..self.offsets[to + 1] - n_trained];
            match tau {
                1.0 => to.copy_from_slice(from),
                tau => (to.iter_mut().zip(from)).for_each(|(to, from)| *to += tau * (*from - *to)),
            }
        }
        Ok(())
    }

    fn blend_on_device(
        &mut self,
        device: &Device,
        pairs: &[(usize, usize)],
        tau: f32,
    ) -> Result<(), Error> {
        let buffers = self.values.buffers_mut(device, &self.offsets)?;
        for &(from, to) in pairs {
            // The trained ones come first.
            let (trained, frozen) = buffers.split_at_mut(to);
            let (from, to) = (&trained[from], unshared(&mut frozen[0]));
            match tau {
                1.0 => device.copy(from, to)?,
                tau => blend_buffers(device, from, to, tau)?,
            }
        }
        Ok(())
    }

    /// The trained and the frozen parameter of each pair, by their places in the order of [`Params::ids`].
    fn pairs(&self) -> Result<Vec<(usize, usize)>, Error> {
        let n_trained = self.n_trained();
        let mut unpaired = BTreeMap::new();
        for (i, name) in self.names[..n_trained].iter().enumerate() {
            if let Some(other) = unpaired.insert(strip_scope(name), i) {
                let text = format!(
                    "params: `{}` and `{name}` have one name behind their scopes, so no frozen parameter is of one of \
                     them alone: give a network one scope, as `online/policy/w`",
                    self.names[other]
                );
                return Err(Error::Usage(text));
            }
        }
        let mut pairs = Vec::with_capacity(n_trained);
        for frozen in n_trained..self.names.len() {
            let name = &self.names[frozen];
            let trained = unpaired.remove(strip_scope(name)).ok_or_else(|| {
                Error::Usage(format!(
                    "params: the frozen parameter `{name}` has no trained one of its name behind the scope, or a second \
                     frozen one has it: build the target network as the trained one was, in a scope of its own"
                ))
            })?;
            self.check_pair(trained, frozen)?;
            pairs.push((trained, frozen));
        }
        let paired: BTreeSet<&str> = pairs
            .iter()
            .map(|pair| scope_of(&self.names[pair.0]))
            .collect();
        let is_missed = |name: &str| paired.is_empty() || paired.contains(scope_of(name));
        let mut unpaired = unpaired.into_values();
        match unpaired.find(|&alone| is_missed(&self.names[alone])) {
            None => Ok(pairs),
            Some(alone) => Err(Error::Usage(format!(
                "params: the trained parameter `{}` has no frozen one: add all of the target's parameters after \
                 freeze_rest, {n_trained} of them, {} are there",
                self.names[alone],
                pairs.len()
            ))),
        }
    }

    fn check_pair(&self, trained: usize, frozen: usize) -> Result<(), Error> {
        let given = [self.shapes[trained], self.shapes[frozen]];
        if given[0] == given[1] {
            return Ok(());
        }
        Err(Error::Shape {
            op: "copy_trained_to_frozen",
            given: given.to_vec(),
            expected: format!(
                "`{}` is copied to `{}`, so equal shapes are expected",
                self.names[trained], self.names[frozen]
            ),
        })
    }

    /// A parameter on a device. One that is no host keeps the copy for the programs and steps that follow.
    pub(crate) fn buffer(&self, id: ParamId, device: &Device) -> Result<Arc<Buffer>, Error> {
        match device.is_host() {
            true => Ok(Arc::new(device.upload(self.values_of(id))?)),
            false => Ok(self
                .values
                .buffers(device, &self.offsets)?
                .swap_remove(id.0 as usize)),
        }
    }

    /// Writes a parameter into a buffer of the device.
    pub(crate) fn write(
        &self,
        id: ParamId,
        device: &Device,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        match device.is_host() {
            true => Ok(device.write(self.values_of(id), out)?),
            false => Ok(device.copy(&*self.buffer(id, device)?, out)?),
        }
    }

    /// The trained parameters on a device that is no host, for an optimiser's step.
    pub(crate) fn trained_buffers(&mut self, device: &Device) -> Result<&mut [Arc<Buffer>], Error> {
        let n_trained = self.n_trained();
        let buffers = self.values.buffers_mut(device, &self.offsets)?;
        Ok(&mut buffers[..n_trained])
    }

    /// Which buffers the parameters have on a device, where they have some.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.values.identity()
    }

    /// The ends of the trained parameters in the flat run, with a 0 before them.
    pub(crate) fn trained_offsets(&self) -> &[usize] {
        &self.offsets[..=self.n_trained()]
    }

    /// The gradients of all trained parameters as one flat run; an absent gradient counts as zeros.
    ///
    /// # Errors
    /// When a gradient has another length than its parameter, or is that of a frozen one.
    pub fn flatten(&self, grads: &[Option<Vec<f32>>]) -> Result<Vec<f32>, Error> {
        let mut flat = vec![0.0; self.trained_len()];
        for (i, grad) in grads.iter().enumerate() {
            let Some(grad) = grad else { continue };
            let target = self.offsets.get(i..i + 2);
            let target = target.and_then(|ends| flat.get_mut(ends[0]..ends[1]));
            let Some(target) = target.filter(|target| target.len() == grad.len()) else {
                let text = format!(
                    "gradient {i} of {} values belongs to none of the {} trained parameters, or has another length",
                    grad.len(),
                    self.n_trained()
                );
                return Err(Error::Usage(text));
            };
            target.copy_from_slice(grad);
        }
        Ok(flat)
    }
}

/// `to += tau * (from - to)`.
fn blend_buffers(device: &Device, from: &Buffer, to: &mut Buffer, tau: f32) -> Result<(), Error> {
    let (mut step, mut sum) = (device.allocate(to.len())?, device.allocate(to.len())?);
    ops::binary(device, Binary::Sub, from, to, &mut sum)?;
    ops::scale(device, tau, &sum, &mut step)?;
    ops::binary(device, Binary::Add, to, &step, &mut sum)?;
    Ok(device.copy(&sum, to)?)
}

/// A buffer of [`Mirror::buffers_mut`].
pub(crate) fn unshared(buffer: &mut Arc<Buffer>) -> &mut Buffer {
    Arc::get_mut(buffer).expect("buffers for writing are not shared")
}

/// `head/w` of `online/head/w`; a name without a scope whole.
fn strip_scope(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, behind)| behind)
}

/// The first scope; of a name without one the name.
fn scope_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(scope, _)| scope)
}

fn check_len(method: &str, given: usize, wanted: usize) -> Result<(), Error> {
    match given == wanted {
        true => Ok(()),
        false => Err(Error::Usage(format!(
            "params, {method}: expected {wanted} values, given {given}: the weights belong to another model"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(trained: &[usize], frozen: &[usize]) -> Params {
        let mut params = Params::new();
        let mut value = 0.0;
        let mut next = || {
            value += 1.0;
            value
        };
        for (i, &cols) in trained.iter().enumerate() {
            params.add(&format!("online/{i}"), Shape::new(1, cols), &mut next);
        }
        params.freeze_rest();
        for (i, &cols) in frozen.iter().enumerate() {
            params.add(&format!("target/{i}"), Shape::new(1, cols), &mut next);
        }
        params
    }

    /// Parameters of one value each, which is their place.
    fn named(trained: &[&str], frozen: &[&str]) -> Params {
        let (mut params, mut place) = (Params::new(), 0.0);
        let mut add = |params: &mut Params, name: &str| {
            params.add(name, Shape::new(1, 1), || place);
            place += 1.0;
        };
        trained.iter().for_each(|name| add(&mut params, name));
        params.freeze_rest();
        frozen.iter().for_each(|name| add(&mut params, name));
        params
    }

    #[test]
    fn frozen_parameters_follow_the_trained_ones() {
        let mut params = params(&[2, 1], &[2, 1]);
        assert_eq!((params.trained_len(), params.trained_ids().count()), (3, 2));
        params.blend_trained_into_frozen(0.25).unwrap();
        assert_eq!(params.flat(), [1.0, 2.0, 3.0, 3.25, 4.25, 5.25]);
        params.set_trained(&[7.0, 8.0, 9.0]).unwrap();
        params.copy_trained_to_frozen().unwrap();
        assert_eq!(params.flat(), [7.0, 8.0, 9.0, 7.0, 8.0, 9.0]);
        assert!(params.set_trained(&[0.0; 6]).is_err());
        assert!(params.blend_trained_into_frozen(f32::NAN).is_err());
    }

    #[test]
    fn a_scope_without_frozen_parameters_is_left_alone() {
        let mut params = named(
            &["policy/w", "critics/0/w", "critics/1/w"],
            &["targets/0/w", "targets/1/w"],
        );
        params.copy_trained_to_frozen().unwrap();
        assert_eq!(params.flat(), [0.0, 1.0, 2.0, 1.0, 2.0]);
    }

    #[test]
    fn parameters_that_do_not_pair_up_are_refused() {
        let message = |mut params: Params| {
            let before = params.flat().to_vec();
            let message = params.copy_trained_to_frozen().unwrap_err().to_string();
            assert_eq!(params.flat(), before);
            message
        };
        assert!(message(params(&[2, 1], &[2])).contains("`online/1` has no frozen one"));
        assert!(message(params(&[2, 1], &[1, 2])).contains("[1, 2] and [1, 1]"));
        assert!(message(params(&[2, 1], &[])).contains("2 of them, 0 are there"));
        assert!(message(params(&[2], &[2, 2])).contains("`target/1` has no trained one"));
        let other = named(&["online/w", "online/b"], &["target/w", "target/c"]);
        assert!(message(other).contains("`target/c` has no trained one"));
        let twice = named(
            &["policy/w", "value/w"],
            &["target/policy/w", "target/value/w"],
        );
        assert!(message(twice).contains("`policy/w` and `value/w` have one name"));
        let again = named(&["online/w", "online/b"], &["target/w", "other/w"]);
        assert!(message(again).contains("`other/w` has no trained one"));
    }

    #[test]
    fn targets_are_found_by_name_in_any_order() {
        let mut params = named(
            &["online/a/w", "online/a/b", "c"],
            &["target/c", "target/a/b", "target/a/w"],
        );
        params.copy_trained_to_frozen().unwrap();
        assert_eq!(params.flat(), [0.0, 1.0, 2.0, 2.0, 1.0, 0.0]);
        params.set_trained(&[4.0, 5.0, 6.0]).unwrap();
        params.blend_trained_into_frozen(0.5).unwrap();
        assert_eq!(params.flat()[3..], [4.0, 3.0, 2.0]);
    }

    #[test]
    fn gradients_of_frozen_parameters_are_refused() {
        let params = params(&[2], &[2]);
        assert_eq!(params.flatten(&[None]).unwrap(), [0.0; 2]);
        assert!(params.flatten(&[None, Some(vec![1.0; 2])]).is_err());
        assert!(params.flatten(&[Some(vec![1.0])]).is_err());
    }
}
