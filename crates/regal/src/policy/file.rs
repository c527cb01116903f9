//! A policy's file: the weights as safetensors, by the names of their scopes, with the config in the header.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use shardgraph_components::autodiff::Params;
use shardgraph_storage::write_atomic;

use super::{Policy, PolicyConfig};
use crate::error::Error;

/// The header key of the config.
const HEADER_KEY: &str = "shardgraph.regal";
/// A bound on what a malformed file can make us read.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// What the header may take of it.
const MAX_HEADER_BYTES: u64 = 1 << 20;

/// Refuses networks whose file [`read`] would refuse.
pub(super) fn check_size(n_weights: usize) -> Result<(), Error> {
    let most = (MAX_FILE_BYTES - MAX_HEADER_BYTES) / 4;
    match n_weights as u64 <= most {
        true => Ok(()),
        false => Err(Error::policy(format!(
            "the network has {n_weights} weights: expected at most {most}, the most that a policy's file may hold; make it narrower"
        ))),
    }
}

pub(super) fn write(policy: &Policy, path: &Path) -> Result<(), Error> {
    let refused = |why: String| Error::policy(format!("{}: {why}", path.display()));
    let config = serde_json::to_string(&policy.config).map_err(|e| refused(e.to_string()))?;
    let params = &policy.params;
    let tensors: Vec<(&str, Vec<usize>, Vec<u8>)> = params
        .ids()
        .map(|id| {
            let (shape, values) = (params.shape(id), params.values_of(id));
            let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            (params.name(id), vec![shape.rows, shape.cols], bytes)
        })
        .collect();
    let mut views = BTreeMap::new();
    for (name, shape, bytes) in &tensors {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes);
        views.insert(*name, view.map_err(|e| refused(e.to_string()))?);
    }
    // A hash map in the library's interface; with one entry its order is fixed.
    let header = [(HEADER_KEY.to_owned(), config)].into_iter().collect();
    let bytes = safetensors::serialize(views, Some(header)).map_err(|e| refused(e.to_string()))?;
    write_atomic(path, |out| out.write_all(&bytes)).map_err(Error::io(path))
}

pub(super) fn read(path: &Path) -> Result<Policy, Error> {
    let no_policy = |why: &str| {
        let names = super::SHIPPED.map(|(name, _)| name).join(", ");
        Error::policy(format!(
            "{}: {why}, and no policy of that name: expected a policy file, or one of {names}",
            path.display()
        ))
    };
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => no_policy("there is no such file"),
        _ => Error::io(path)(error),
    })?;
    if metadata.is_dir() {
        return Err(no_policy("this is a folder"));
    }
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Err(Error::policy(format!(
            "{}: expected a policy file of at most {} MiB",
            path.display(),
            MAX_FILE_BYTES >> 20
        )));
    }
    let bytes = std::fs::read(path).map_err(Error::io(path))?;
    of_bytes(&bytes, &path.display().to_string())
}

pub(super) fn of_bytes(bytes: &[u8], source: &str) -> Result<Policy, Error> {
    let wrong = |why: String| Error::policy(format!("{source}: {why}"));
    let (_, header) = SafeTensors::read_metadata(bytes)
        .map_err(|e| wrong(format!("this is no safetensors file: {e}")))?;
    let config = header.metadata().as_ref().and_then(|of| of.get(HEADER_KEY));
    let config = config.ok_or_else(|| {
        wrong(format!(
            "the header has no `{HEADER_KEY}`: these weights are no policy of `shardgraph place train`"
        ))
    })?;
    let config: PolicyConfig =
        serde_json::from_str(config).map_err(|e| wrong(format!("the policy's config: {e}")))?;
    let policy = Policy::untrained(config, 0).map_err(|e| wrong(e.to_string()))?;
    let tensors = SafeTensors::deserialize(bytes).map_err(|e| wrong(e.to_string()))?;
    let weights = values(&tensors, policy.params()).map_err(wrong)?;
    policy.with_weights(&weights, source)
}

/// The values of the parameters, checked for names, shapes and type.
fn values(tensors: &SafeTensors<'_>, params: &Params) -> Result<Vec<f32>, String> {
    let mut values = Vec::with_capacity(params.flat().len());
    for id in params.ids() {
        let (name, shape) = (params.name(id), params.shape(id));
        let view = tensors.tensor(name).map_err(|_| {
            format!("the tensor `{name}` {shape} is missing: the weights are not those of the config in the header")
        })?;
        if view.dtype() != Dtype::F32 || view.shape() != [shape.rows, shape.cols] {
            return Err(format!(
                "`{name}`: expected F32 {shape} for the features, devices, levels and network of the config in the header, given {:?} {:?}",
                view.dtype(),
                view.shape()
            ));
        }
        let (words, _) = view.data().as_chunks();
        let own = words.iter().map(|word| f32::from_le_bytes(*word));
        if let Some((at, x)) = own.clone().enumerate().find(|(_, x)| !x.is_finite()) {
            return Err(format!(
                "`{name}`, element {at}: expected a finite number, given {x}"
            ));
        }
        values.extend(own);
    }
    match (tensors.len(), params.ids().count()) {
        (n, expected) if n == expected => Ok(values),
        (n, expected) => Err(format!(
            "expected {expected} tensors, given {n}: the weights are not those of the config in the header"
        )),
    }
}

#[cfg(test)]
mod tests;
