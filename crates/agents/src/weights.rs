//! Weights as a safetensors file: tensors by the names of their scopes, with the version of the form in the header.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use shardgraph_autodiff::Params;
use shardgraph_storage::{hash_numbers, write_atomic};

use crate::config::SCHEMA_VERSION;
use crate::error::{Call, Error, ErrorKind};

/// The header key of the version.
const HEADER_KEY: &str = "shardgraph.agent";
/// A bound on what a malformed file can make us read.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// A hash of weights' bits: the XXH3 hash of their little-endian bytes.
pub(crate) fn hash_of(weights: &[f32]) -> u64 {
    hash_numbers(weights.iter().copied())
}

/// Refuses weights of another number than a component's own, or that no number stands for.
pub(crate) fn check(
    component: &'static str,
    n_weights: usize,
    weights: &[f32],
) -> Result<(), Error> {
    let call = Call::new(component, "set_weights");
    if weights.len() != n_weights {
        return Err(call.mismatch("the number of weights", n_weights, weights.len()));
    }
    match weights.iter().position(|x| !x.is_finite()) {
        None => Ok(()),
        Some(at) => Err(call.mismatch(format!("weight {at}"), "a finite number", weights[at])),
    }
}

/// Refuses what diverged at the last update, before a file has it.
pub(crate) fn check_learned(weights: &[f32]) -> Result<(), Error> {
    match weights.iter().all(|x| x.is_finite()) {
        true => Ok(()),
        false => Err(ErrorKind::Diverged("a weight".to_owned()).into()),
    }
}

/// Writes the trained parameters, atomically.
pub(crate) fn write(path: &Path, params: &Params) -> Result<(), Error> {
    let tensors: BTreeMap<&str, (Vec<usize>, Vec<u8>)> = params
        .trained_ids()
        .map(|id| {
            let shape = params.shape(id);
            let bytes = params.values_of(id).iter().flat_map(|x| x.to_le_bytes());
            (
                params.name(id),
                (vec![shape.rows, shape.cols], bytes.collect()),
            )
        })
        .collect();
    let refused = |e| Error::internal(format!("safetensors refused: {e}"));
    let mut views = Vec::with_capacity(tensors.len());
    for (name, (shape, bytes)) in &tensors {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes).map_err(refused)?;
        views.push((*name, view));
    }
    // A hash map in the library's interface; with one entry its order is fixed.
    let header = [(HEADER_KEY.to_owned(), SCHEMA_VERSION.to_string())];
    let bytes =
        safetensors::serialize(views, Some(header.into_iter().collect())).map_err(refused)?;
    write_atomic(path, |out| out.write_all(&bytes)).map_err(Error::io(path))
}

/// The values of the trained parameters, checked for names, shapes and type.
pub(crate) fn read(path: &Path, params: &Params) -> Result<Vec<f32>, Error> {
    let wrong = |why: String| Error::input(format!("{}: {why}", path.display()));
    let metadata = std::fs::metadata(path).map_err(Error::io(path))?;
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        let limit = MAX_FILE_BYTES >> 20;
        return Err(wrong(format!(
            "expected a file of weights of at most {limit} MiB"
        )));
    }
    let bytes = std::fs::read(path).map_err(Error::io(path))?;
    let (_, header) = SafeTensors::read_metadata(&bytes)
        .map_err(|e| wrong(format!("this is no safetensors file: {e}")))?;
    let version = header
        .metadata()
        .as_ref()
        .and_then(|metadata| metadata.get(HEADER_KEY));
    if version != Some(&SCHEMA_VERSION.to_string()) {
        return Err(wrong(format!(
            "expected weights that `agent train` wrote, with `{HEADER_KEY}` {SCHEMA_VERSION} in the header, given {}",
            version.map_or("none", String::as_str)
        )));
    }
    let tensors = SafeTensors::deserialize(&bytes).map_err(|e| wrong(e.to_string()))?;
    values(&tensors, params).map_err(wrong)
}

fn values(tensors: &SafeTensors<'_>, params: &Params) -> Result<Vec<f32>, String> {
    let n_expected = params.trained_ids().count();
    let mut values = Vec::with_capacity(params.trained_len());
    for id in params.trained_ids() {
        let (name, shape) = (params.name(id), params.shape(id));
        let view = tensors.tensor(name).map_err(|_| {
            format!("the tensor `{name}` {shape} is missing: the weights belong to another network")
        })?;
        if view.dtype() != Dtype::F32 || view.shape() != [shape.rows, shape.cols] {
            return Err(format!(
                "`{name}`: expected F32 {shape}, given {:?} {:?}: the weights belong to another network",
                view.dtype(),
                view.shape()
            ));
        }
        let (words, _) = view.data().as_chunks();
        values.extend(words.iter().map(|word| f32::from_le_bytes(*word)));
        let own = &values[values.len() - words.len()..];
        if let Some(at) = own.iter().position(|x| !x.is_finite()) {
            return Err(format!(
                "`{name}`, element {at}: expected a finite number, given {}",
                own[at]
            ));
        }
    }
    match tensors.len() == n_expected {
        true => Ok(values),
        false => Err(format!(
            "expected {n_expected} tensors, given {}: the weights belong to another network",
            tensors.len()
        )),
    }
}
