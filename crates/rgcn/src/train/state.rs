//! All parameters of a run in one place, in an order that does not depend on the ranks: what a checkpoint holds.

use shardgraph_collectives::Op;
use shardgraph_runs::{Checkpoint, Tensors, fnv1a64};

use crate::model::kernel::largest_magnitude;
use crate::model::network::{Network, Peers};
use crate::{Error, ErrorKind};

/// The parameters and the optimiser's means of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    pub(super) epochs_done: u32,
    /// Tensors by name: those of the input first, which ranks share out, then those that all ranks have alike.
    tensors: Vec<(String, Vec<f32>)>,
}

const TENSORS: &str = "state.safetensors";
/// How many of the tensors ranks share out: rows and their two means.
const N_SHARED_OUT: usize = 3;

/// The tensors of a network, with their names, in the order of [`State`].
fn tensors<'n>(network: &'n mut Network<'_>) -> Vec<(String, &'n mut Vec<f32>)> {
    let input = &mut network.input;
    let mut tensors = vec![
        ("input.rows".to_owned(), &mut input.rows),
        ("input.first".to_owned(), &mut input.moments.first),
        ("input.second".to_owned(), &mut input.moments.second),
    ];
    for (idx, layer) in network.layers.iter_mut().enumerate() {
        if let Some(relations) = &mut layer.coefficients {
            tensors.push((format!("layer{idx}.relations"), &mut relations.params));
            tensors.push((
                format!("layer{idx}.relations.first"),
                &mut relations.moments.first,
            ));
            tensors.push((
                format!("layer{idx}.relations.second"),
                &mut relations.moments.second,
            ));
        }
        tensors.push((format!("layer{idx}.bias"), &mut layer.bias));
        tensors.push((
            format!("layer{idx}.bias.first"),
            &mut layer.bias_moments.first,
        ));
        tensors.push((
            format!("layer{idx}.bias.second"),
            &mut layer.bias_moments.second,
        ));
    }
    tensors
}

/// The numbers that each rank has of one number of its own.
fn counts_of_ranks(count: usize, peers: &mut Peers<'_>) -> Result<Vec<usize>, Error> {
    let own = [count as u64];
    let mut all = vec![0u64; peers.comm.size() as usize];
    peers.run(Op::AllGather {
        send: (&own).into(),
        recv: (&mut all).into(),
    })?;
    Ok(all.into_iter().map(|count| count as usize).collect())
}

/// The whole state on rank 0, none elsewhere.
pub(super) fn gather(
    network: &mut Network<'_>,
    epochs_done: u32,
    peers: &mut Peers<'_>,
) -> Result<Option<State>, Error> {
    let is_first = peers.comm.rank() == 0;
    let mut gathered = Vec::new();
    for (idx, (name, values)) in tensors(network).into_iter().enumerate() {
        let whole = match idx < N_SHARED_OUT {
            true => gather_rows(values, peers)?,
            false => values.clone(),
        };
        gathered.push((name, whole));
    }
    Ok(is_first.then_some(State {
        epochs_done,
        tensors: gathered,
    }))
}

/// The numbers of all ranks in rank order, on rank 0.
fn gather_rows(values: &[f32], peers: &mut Peers<'_>) -> Result<Vec<f32>, Error> {
    let counts = counts_of_ranks(values.len(), peers)?;
    let is_first = peers.comm.rank() == 0;
    let mut send_counts = vec![0; counts.len()];
    send_counts[0] = values.len();
    let recv_counts = match is_first {
        true => counts,
        false => vec![0; send_counts.len()],
    };
    let mut whole = vec![0.0; recv_counts.iter().sum()];
    peers.run(Op::AllToAllV {
        send: values.into(),
        send_counts: &send_counts,
        recv: (&mut whole).into(),
        recv_counts: &recv_counts,
    })?;
    Ok(whole)
}

/// A hash of all parameters, the same on all ranks and for every number of them: of the hashes of the blocks' rows, then of the rest.
pub(super) fn params_hash(network: &mut Network<'_>, peers: &mut Peers<'_>) -> Result<u64, Error> {
    let own: Vec<u64> = network.input_blocks().into_iter().map(hash_of).collect();
    let counts = counts_of_ranks(own.len(), peers)?;
    let mut all = vec![0u64; counts.iter().sum()];
    peers.run(Op::AllGatherV {
        send: (&own).into(),
        recv: (&mut all).into(),
        counts: &counts,
    })?;
    let shared = tensors(network).into_iter().skip(N_SHARED_OUT);
    all.extend(shared.map(|(_, values)| hash_of(values)));
    Ok(fnv1a64(all.into_iter().flat_map(u64::to_le_bytes)))
}

/// FNV-1a over the words of numbers.
fn hash_of(values: &[f32]) -> u64 {
    values.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, x| {
        (hash ^ u64::from(x.to_bits())).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl State {
    /// Zeros in tensors of these names and lengths.
    pub(super) fn empty(epochs_done: u32, tensors: Vec<(String, usize)>) -> State {
        let tensors = tensors.into_iter();
        State {
            epochs_done,
            tensors: tensors.map(|(name, n)| (name, vec![0.0; n])).collect(),
        }
    }

    /// The names and lengths of all tensors.
    pub(super) fn lengths(&self) -> Vec<(String, usize)> {
        let tensors = self.tensors.iter();
        tensors
            .map(|(name, values)| (name.clone(), values.len()))
            .collect()
    }

    /// The numbers of all tensors.
    pub(super) fn values(&mut self) -> impl Iterator<Item = &mut Vec<f32>> {
        self.tensors.iter_mut().map(|(_, values)| values)
    }

    /// Puts a rank's part into its network; how many epochs are in it.
    ///
    /// # Errors
    /// Where a tensor has not the length that the settings and the graph ask for.
    pub(super) fn load(
        &self,
        network: &mut Network<'_>,
        peers: &mut Peers<'_>,
    ) -> Result<u32, Error> {
        let rank = peers.comm.rank() as usize;
        for (idx, (name, own)) in tensors(network).into_iter().enumerate() {
            let (begin, expected) = match idx < N_SHARED_OUT {
                false => (0, own.len()),
                true => {
                    let counts = counts_of_ranks(own.len(), peers)?;
                    (counts[..rank].iter().sum(), counts.iter().sum())
                }
            };
            let found = self.tensors.iter().find(|(other, _)| *other == name);
            let values = found.map_or(&[][..], |(_, values)| values);
            if values.len() != expected {
                let n = values.len();
                let message =
                    format!("checkpoint: tensor {name} has {n} numbers, expected {expected}");
                return Err(Error::new(ErrorKind::Checkpoint, message));
            }
            let n_own = own.len();
            own.copy_from_slice(&values[begin..][..n_own]);
        }
        network.input.largest = largest_magnitude(&network.input.rows);
        Ok(self.epochs_done)
    }

    /// Adds the tensors and the training nodes to a checkpoint.
    pub(super) fn write(
        &self,
        checkpoint: &mut Checkpoint,
        train_nodes: &[u32],
    ) -> Result<(), Error> {
        let mut tensors = Tensors::new();
        tensors.add_u32("train_nodes", train_nodes)?;
        for (name, values) in &self.tensors {
            tensors.add_f32(name, values)?;
        }
        checkpoint.add(TENSORS, tensors.to_bytes()?)?;
        Ok(())
    }

    /// The state of a checkpoint and its training nodes, for a model of `n_layers`.
    pub(super) fn read(
        checkpoint: &Checkpoint,
        n_layers: usize,
        has_first_table: bool,
    ) -> Result<(State, Vec<u32>), Error> {
        let read = checkpoint.tensors(TENSORS)?;
        let mut names: Vec<String> = vec!["input.rows".into()];
        for layer in 0..n_layers {
            if layer > 0 || has_first_table {
                names.push(format!("layer{layer}.relations"));
            }
            names.push(format!("layer{layer}.bias"));
        }
        let mut tensors = Vec::new();
        for name in names {
            let stem = name.strip_suffix(".rows").unwrap_or(&name).to_owned();
            for name in [name, format!("{stem}.first"), format!("{stem}.second")] {
                let values = read.f32s(&name)?;
                tensors.push((name, values));
            }
        }
        let state = State {
            epochs_done: u32::try_from(checkpoint.step()).unwrap_or(u32::MAX),
            tensors,
        };
        Ok((state, read.u32s("train_nodes")?))
    }
}
