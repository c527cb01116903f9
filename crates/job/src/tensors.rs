//! Named vectors of numbers as one safetensors file: the large part of a checkpoint.

use std::borrow::Cow;
use std::collections::BTreeMap;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use crate::Error;

/// Vectors of f32, u8, u32 and u64 by name.
///
/// ```
/// use shardgraph_job::Tensors;
/// let mut tensors = Tensors::new();
/// tensors.add_f32("params", &[0.5, -1.0])?;
/// tensors.add_u8("replay", &[1, 2, 3])?;
/// let bytes = tensors.to_bytes()?; // other tools read it as a .safetensors file
/// assert_eq!(Tensors::from_bytes(&bytes)?.u8s("replay")?, [1, 2, 3]);
/// # Ok::<(), shardgraph_job::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Tensors<'a> {
    /// The file, for messages.
    origin: String,
    tensors: BTreeMap<String, (Dtype, Cow<'a, [u8]>)>,
}

impl<'a> Tensors<'a> {
    /// No tensors yet.
    pub fn new() -> Tensors<'a> {
        Tensors::default()
    }

    /// Adds a vector.
    ///
    /// # Errors
    /// When the name is taken; the other `add_` methods likewise.
    pub fn add_f32(&mut self, name: &str, values: &[f32]) -> Result<(), Error> {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.add(name, Dtype::F32, bytes.into())
    }

    /// Adds a vector of bytes, which are borrowed.
    ///
    /// # Errors
    /// As [`Tensors::add_f32`].
    pub fn add_u8(&mut self, name: &str, values: impl Into<Cow<'a, [u8]>>) -> Result<(), Error> {
        self.add(name, Dtype::U8, values.into())
    }

    /// Adds a vector.
    ///
    /// # Errors
    /// As [`Tensors::add_f32`].
    pub fn add_u32(&mut self, name: &str, values: &[u32]) -> Result<(), Error> {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.add(name, Dtype::U32, bytes.into())
    }

    fn add(&mut self, name: &str, dtype: Dtype, bytes: Cow<'a, [u8]>) -> Result<(), Error> {
        match self.tensors.insert(name.to_owned(), (dtype, bytes)) {
            None => Ok(()),
            Some(_) => Err(Error::refused(
                "Tensors::add",
                format!("there is a tensor `{name}` already; give each its own name"),
            )),
        }
    }

    /// As the bytes of a safetensors file.
    ///
    /// # Errors
    /// When the format cannot hold the tensors.
    /// # Determinism
    /// The same bytes whatever the order in which the tensors were added.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let refused = |e| Error::refused("Tensors::to_bytes", format!("safetensors: {e}"));
        let mut views = Vec::with_capacity(self.tensors.len());
        for (name, (dtype, bytes)) in &self.tensors {
            let shape = vec![bytes.len() * 8 / dtype.bitsize()];
            let view = TensorView::new(*dtype, shape, bytes).map_err(refused)?;
            views.push((name, view));
        }
        safetensors::serialize(views, None).map_err(refused)
    }

    /// Of the bytes of a safetensors file. The shapes of its tensors are not kept.
    ///
    /// # Errors
    /// When it is none.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Tensors<'a>, Error> {
        Tensors::of_file("tensors".to_owned(), bytes)
    }

    pub(crate) fn of_file(origin: String, bytes: &'a [u8]) -> Result<Tensors<'a>, Error> {
        let read = SafeTensors::deserialize(bytes)
            .map_err(|e| Error::damaged(&origin, format!("no safetensors file: {e}")))?;
        let tensors = read.tensors().into_iter();
        let tensors = tensors.map(|(name, view)| (name, (view.dtype(), view.data().into())));
        Ok(Tensors {
            tensors: tensors.collect(),
            origin,
        })
    }

    /// The values of a tensor.
    ///
    /// # Errors
    /// When there is no such tensor, or it holds something else; so have the other methods of this kind.
    pub fn f32s(&self, name: &str) -> Result<Vec<f32>, Error> {
        let (values, _) = self.bytes(name, Dtype::F32)?.as_chunks();
        Ok(values.iter().map(|x| f32::from_le_bytes(*x)).collect())
    }

    /// The values of a tensor.
    ///
    /// # Errors
    /// As [`Tensors::f32s`].
    pub fn u8s(&self, name: &str) -> Result<&[u8], Error> {
        self.bytes(name, Dtype::U8)
    }

    /// The values of a tensor.
    ///
    /// # Errors
    /// As [`Tensors::f32s`].
    pub fn u32s(&self, name: &str) -> Result<Vec<u32>, Error> {
        let (values, _) = self.bytes(name, Dtype::U32)?.as_chunks();
        Ok(values.iter().map(|x| u32::from_le_bytes(*x)).collect())
    }

    fn bytes(&self, name: &str, expected: Dtype) -> Result<&[u8], Error> {
        let wrong = |reason: String| Error::damaged(&self.origin, reason);
        match self.tensors.get(name) {
            Some((dtype, bytes)) if *dtype == expected => Ok(bytes),
            Some((dtype, _)) => Err(wrong(format!(
                "the tensor `{name}` holds {dtype:?}, expected {expected:?}; was it written by another program?"
            ))),
            None => Err(wrong(format!(
                "there is no tensor `{name}`; was it written by another program?"
            ))),
        }
    }
}
