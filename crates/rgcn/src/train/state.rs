//! All parameters of a run in one place, in an order that does not depend on the ranks: what a
//! checkpoint holds.

use shardgraph_collectives::Op;
use shardgraph_job::{Checkpoint, Tensors};
use shardgraph_storage::hash_numbers;

use crate::layer::optimiser::Moments;
use crate::layer::values::largest_magnitude;
use crate::memory::Held;
use crate::model::comm::RankComm;
use crate::model::network::Network;
use crate::{Config, Error};

/// The parameters and the optimiser's means of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    pub(crate) epochs_done: u32,
    /// Tensors by name: those of the input first, which ranks share out, then those that all ranks
    /// have alike.
    tensors: Vec<(String, Vec<f32>)>,
}

const TENSORS: &str = "state.safetensors";
/// The name of the input's rows.
const INPUT: &str = "input.rows";
/// Tensors of a parameter: itself and its two means.
const N_OF_PARAMETER: usize = 3;
/// Before the names of parameters that were kept because they were the best.
const BEST: &str = "best.";

/// A tensor of a network, and its name in files.
struct Tensor<'n> {
    name: String,
    values: &'n mut [f32],
    /// True where ranks share the numbers out, false where all have them alike.
    is_shared_out: bool,
}

/// Adds parameters and their two means.
fn push<'n>(
    tensors: &mut Vec<Tensor<'n>>,
    name: &str,
    params: &'n mut [f32],
    moments: &'n mut Moments,
) {
    let is_shared_out = name == INPUT;
    let stem = name.strip_suffix(".rows").unwrap_or(name);
    let means = [
        (".first", &mut moments.first[..]),
        (".second", &mut moments.second[..]),
    ];
    tensors.push(Tensor {
        name: name.to_owned(),
        values: params,
        is_shared_out,
    });
    tensors.extend(means.map(|(suffix, values)| Tensor {
        name: format!("{stem}{suffix}"),
        values,
        is_shared_out,
    }));
}

/// The tensors of a network, in the order of [`State`]; given features are none.
fn tensors<'n>(network: &'n mut Network<'_>) -> Vec<Tensor<'n>> {
    let (input, mut tensors) = (&mut network.input, Vec::new());
    if !input.is_fixed {
        push(&mut tensors, INPUT, &mut input.rows, &mut input.moments);
    }
    for (idx, layer) in network.layers.iter_mut().enumerate() {
        if let Some(relations) = &mut layer.coefficients {
            let name = format!("layer{idx}.relations");
            push(
                &mut tensors,
                &name,
                &mut relations.params,
                &mut relations.moments,
            );
        }
        let name = format!("layer{idx}.bias");
        push(
            &mut tensors,
            &name,
            &mut layer.bias,
            &mut layer.bias_moments,
        );
    }
    tensors
}

/// One of the numbers that a parameter has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Params = 0,
    /// The optimiser's first mean.
    First = 1,
    /// Its second mean.
    Second = 2,
}

/// A number of each parameter of a network, tensor by tensor.
pub(crate) fn flat(network: &mut Network<'_>, part: Part) -> Vec<f32> {
    let tensors = tensors(network).into_iter().skip(part as usize);
    let values = tensors.step_by(N_OF_PARAMETER);
    values.flat_map(|tensor| tensor.values.to_vec()).collect()
}

/// Takes numbers over from a run like that of [`flat`].
pub(crate) fn set_flat(network: &mut Network<'_>, part: Part, mut run: &[f32]) {
    let tensors = tensors(network).into_iter().skip(part as usize);
    for tensor in tensors.step_by(N_OF_PARAMETER) {
        let (own, rest) = run.split_at(tensor.values.len());
        tensor.values.copy_from_slice(own);
        run = rest;
    }
    network.input.largest = largest_magnitude(&network.input.rows);
}

/// A count of each rank.
fn counts_of_ranks(count: usize, ranks: &mut RankComm<'_>) -> Result<Vec<usize>, Error> {
    let all = ranks.gather(&[count as u64])?;
    Ok(all.into_iter().map(|count| count as usize).collect())
}

/// The whole state on rank 0, none elsewhere.
pub(crate) fn gather(
    network: &mut Network<'_>,
    epochs_done: u32,
    ranks: &mut RankComm<'_>,
) -> Result<Option<State>, Error> {
    let is_first = ranks.comm.rank() == 0;
    let mut gathered = Vec::new();
    for tensor in tensors(network) {
        let whole = match tensor.is_shared_out {
            true => gather_rows(tensor.values, ranks)?,
            false => tensor.values.to_vec(),
        };
        gathered.push((tensor.name, whole));
    }
    Ok(is_first.then_some(State {
        epochs_done,
        tensors: gathered,
    }))
}

/// The numbers of all ranks in rank order, on rank 0.
fn gather_rows(values: &[f32], ranks: &mut RankComm<'_>) -> Result<Vec<f32>, Error> {
    let counts = counts_of_ranks(values.len(), ranks)?;
    let is_first = ranks.comm.rank() == 0;
    let mut send_counts = vec![0; counts.len()];
    send_counts[0] = values.len();
    let recv_counts = match is_first {
        true => counts,
        false => vec![0; send_counts.len()],
    };
    let mut whole = vec![0.0; recv_counts.iter().sum()];
    ranks.run(Op::AllToAllV {
        send: values.into(),
        send_counts: &send_counts,
        recv: (&mut whole).into(),
        recv_counts: &recv_counts,
    })?;
    Ok(whole)
}

/// One rank's parameters without the optimiser's means, as they were after some epoch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params {
    tensors: Vec<Vec<f32>>,
    _held: Held,
}

impl Params {
    /// Those that a network has now.
    pub(crate) fn of(network: &mut Network<'_>) -> Params {
        let params = tensors(network).into_iter().step_by(N_OF_PARAMETER);
        Params {
            tensors: params.map(|tensor| tensor.values.to_vec()).collect(),
            _held: network.hold_params(),
        }
    }

    /// Gives them back to a network of the same layout.
    pub(crate) fn restore(&self, network: &mut Network<'_>) {
        let params = tensors(network).into_iter().step_by(N_OF_PARAMETER);
        for (tensor, kept) in params.zip(&self.tensors) {
            tensor.values.copy_from_slice(kept);
        }
        network.input.largest = largest_magnitude(&network.input.rows);
    }

    /// Adds them as the best ones to a state, which rank 0 has; all ranks give their rows.
    pub(crate) fn gather_into(
        &self,
        network: &mut Network<'_>,
        state: Option<&mut State>,
        ranks: &mut RankComm<'_>,
    ) -> Result<(), Error> {
        let params = tensors(network).into_iter().step_by(N_OF_PARAMETER);
        let mut best = Vec::new();
        for (tensor, kept) in params.zip(&self.tensors) {
            let whole = match tensor.is_shared_out {
                true => gather_rows(kept, ranks)?,
                false => kept.clone(),
            };
            best.push((format!("{BEST}{}", tensor.name), whole));
        }
        if let Some(state) = state {
            state.tensors.extend(best);
        }
        Ok(())
    }
}

/// A hash of all parameters, the same on all ranks and for every number of them: of the hashes of
/// the blocks' rows, then of the rest.
pub(crate) fn params_hash(
    network: &mut Network<'_>,
    ranks: &mut RankComm<'_>,
) -> Result<u64, Error> {
    let blocks = network.input_blocks().into_iter();
    let own: Vec<u64> = blocks.map(hash_of).collect();
    let counts = counts_of_ranks(own.len(), ranks)?;
    let mut all = vec![0u64; counts.iter().sum()];
    ranks.run(Op::AllGatherV {
        send: (&own).into(),
        recv: (&mut all).into(),
        counts: &counts,
    })?;
    let params = tensors(network).into_iter().step_by(N_OF_PARAMETER);
    let alike = params.filter(|tensor| !tensor.is_shared_out);
    all.extend(alike.map(|tensor| hash_of(tensor.values)));
    Ok(hash_numbers(all))
}

fn hash_of(values: &[f32]) -> u64 {
    hash_numbers(values.iter().copied())
}

impl State {
    /// Zeros in tensors of these names and lengths.
    pub(crate) fn empty(epochs_done: u32, tensors: Vec<(String, usize)>) -> State {
        let tensors = tensors.into_iter();
        State {
            epochs_done,
            tensors: tensors.map(|(name, n)| (name, vec![0.0; n])).collect(),
        }
    }

    /// The names and numbers of all tensors.
    #[cfg(test)]
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (&str, &[f32])> {
        let tensors = self.tensors.iter();
        tensors.map(|(name, values)| (name.as_str(), values.as_slice()))
    }

    /// Puts a rank's part into its network; how many epochs are in it.
    ///
    /// # Errors
    /// When a tensor has not the length that the settings and the graph ask for.
    pub(crate) fn load(
        &self,
        network: &mut Network<'_>,
        ranks: &mut RankComm<'_>,
    ) -> Result<u32, Error> {
        for tensor in tensors(network) {
            let part = self.own_part(&tensor.name, &tensor, ranks)?;
            tensor.values.copy_from_slice(part);
        }
        network.input.largest = largest_magnitude(&network.input.rows);
        Ok(self.epochs_done)
    }

    /// A rank's part of the best parameters, where the state has them.
    ///
    /// # Errors
    /// As [`State::load`].
    pub(crate) fn best(
        &self,
        network: &mut Network<'_>,
        ranks: &mut RankComm<'_>,
    ) -> Result<Option<Params>, Error> {
        if !self.tensors.iter().any(|(name, _)| name.starts_with(BEST)) {
            return Ok(None);
        }
        let params = tensors(network).into_iter().step_by(N_OF_PARAMETER);
        let mut best = Vec::new();
        for tensor in params {
            let name = format!("{BEST}{}", tensor.name);
            best.push(self.own_part(&name, &tensor, ranks)?.to_vec());
        }
        Ok(Some(Params {
            tensors: best,
            _held: network.hold_params(),
        }))
    }

    /// A rank's numbers of the tensor that is called `name` here, for its place in the network.
    fn own_part(
        &self,
        name: &str,
        tensor: &Tensor<'_>,
        ranks: &mut RankComm<'_>,
    ) -> Result<&[f32], Error> {
        let rank = ranks.comm.rank() as usize;
        let n_own = tensor.values.len();
        let (begin, expected) = match tensor.is_shared_out {
            false => (0, n_own),
            true => {
                let counts = counts_of_ranks(n_own, ranks)?;
                (counts[..rank].iter().sum(), counts.iter().sum())
            }
        };
        let found = self.tensors.iter().find(|(other, _)| other == name);
        let values = found.map_or(&[][..], |(_, values)| values);
        if values.len() != expected {
            let n = values.len();
            let message = format!("checkpoint: tensor {name} has {n} numbers, expected {expected}");
            return Err(Error::new(Error::Checkpoint, message));
        }
        Ok(&values[begin..][..n_own])
    }

    /// Adds the tensors, and the nodes whose outputs training makes, to a checkpoint.
    pub(crate) fn write(&self, checkpoint: &mut Checkpoint, outputs: &[u32]) -> Result<(), Error> {
        let mut tensors = Tensors::new();
        tensors.add_u32("train_nodes", outputs)?;
        for (name, values) in &self.tensors {
            tensors.add_f32(name, values)?;
        }
        checkpoint.add(TENSORS, tensors.to_bytes()?)?;
        Ok(())
    }

    /// The state of a checkpoint and the nodes whose outputs training makes, for a model of these settings; with the
    /// best parameters beside the last ones where it has them.
    pub(crate) fn read(
        checkpoint: &Checkpoint,
        config: &Config,
        has_best: bool,
    ) -> Result<(State, Vec<u32>), Error> {
        let read = checkpoint.tensors(TENSORS)?;
        let mut names = Vec::new();
        if !config.features {
            names.push(INPUT.to_owned());
        }
        for layer in 0..=config.hidden.len() {
            if layer > 0 || config.has_first_table() {
                names.push(format!("layer{layer}.relations"));
            }
            names.push(format!("layer{layer}.bias"));
        }
        let mut tensors = Vec::new();
        for name in &names {
            let stem = name.strip_suffix(".rows").unwrap_or(name);
            for name in [
                name.clone(),
                format!("{stem}.first"),
                format!("{stem}.second"),
            ] {
                let values = read.f32s(&name)?;
                tensors.push((name, values));
            }
        }
        for name in names.iter().filter(|_| has_best) {
            let name = format!("{BEST}{name}");
            let values = read.f32s(&name)?;
            tensors.push((name, values));
        }
        let state = State {
            epochs_done: u32::try_from(checkpoint.step()).unwrap_or(u32::MAX),
            tensors,
        };
        Ok((state, read.u32s("train_nodes")?))
    }
}
