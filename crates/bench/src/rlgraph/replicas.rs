//! Figure 7: seconds of an update by the number of learners that share its batch, and that the weights have the same bits.

use serde::Deserialize;
use serde_json::json;
use shardgraph_agents::{
    Agent, DqnAgent, DqnConfig, EnvironmentConfig, Environments, transition_layout,
};
use shardgraph_collectives::{Comm, Op, Timeout, threads};
use shardgraph_device::{Device, Timer};
use shardgraph_random::KeyedRng;
use shardgraph_replay::{LeafRef, Rows};

use crate::measure::Context;
use crate::report::{Failure, Report, ensure};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Transitions in a batch.
    batches: Vec<usize>,
    /// Numbers of replicas; each is a thread.
    ranks: Vec<u32>,
    updates: usize,
    runs: usize,
}

pub(crate) fn run(_: &Context<'_>, request: &Request, out: &mut Report) -> Result<(), Failure> {
    for &batch_size in &request.batches {
        let mut hashes = Vec::new();
        for &n_ranks in &request.ranks {
            let mut per_update = Vec::new();
            for _ in 0..request.runs {
                let (seconds, hash) = measure(request, batch_size, n_ranks)?;
                per_update.push(seconds / request.updates as f64);
                hashes.push(hash);
            }
            out.row(json!({"batch": batch_size, "replicas": n_ranks, "update_s": per_update, "weights": format!("{:016x}", hashes[0])}));
        }
        ensure(hashes.iter().all(|hash| *hash == hashes[0]), || {
            format!("batches of {batch_size}: the weights depend on the replicas: {hashes:x?}")
        })?;
    }
    Ok(())
}

/// The seconds of the slowest rank, and the hash of the weights that all ranks have.
fn measure(request: &Request, batch_size: usize, n_ranks: u32) -> Result<(f64, u64), Failure> {
    let n_blocks = request.ranks.iter().copied().max().unwrap_or(1);
    let config = DqnConfig {
        batch_size,
        gradient_blocks: n_blocks as usize,
        ..DqnConfig::default()
    };
    let batch = batch(batch_size)?;
    let results = threads::run(n_ranks, |mut comm| {
        replica(&config, &batch, request.updates, &mut comm)
    });
    let (mut slowest, mut hashes) = (0.0_f64, Vec::new());
    for result in results {
        let (seconds, hash) = result??;
        slowest = slowest.max(seconds);
        hashes.push(hash);
    }
    ensure(hashes.iter().all(|hash| *hash == hashes[0]), || {
        format!("the replicas have other weights than each other: {hashes:x?}")
    })?;
    Ok((slowest, hashes[0]))
}

fn replica(
    config: &DqnConfig,
    batch: &Rows,
    n_updates: usize,
    comm: &mut Comm,
) -> Result<(f64, u64), Failure> {
    let carts = Environments::named(&EnvironmentConfig::named("cartpole", 1))?;
    let mut agent = DqnAgent::new(config, carts.spaces(), 1, &Device::host())?;
    let deadline = Timeout::default();
    agent.update((batch, None), comm, deadline)?; // warms caches up
    comm.run(Op::Barrier, deadline)?;
    let timer = Timer::wall();
    for _ in 0..n_updates {
        agent.update((batch, None), comm, deadline)?;
    }
    Ok((timer.elapsed_s(), agent.weights_hash()))
}

/// Transitions of random numbers: what is in them costs the same.
fn batch(n: usize) -> Result<Rows, Failure> {
    let mut rows = Rows::new(transition_layout(4)?);
    let mut stream = KeyedRng::new(1, "figure 7", 0);
    for _ in 0..n {
        let mut observation = || -> [f32; 4] { std::array::from_fn(|_| stream.uniform_f32()) };
        let (seen, next) = (observation(), observation());
        let action = stream.below_u32(2);
        rows.push(&[
            LeafRef::F32(&seen),
            LeafRef::U32(&[action]),
            LeafRef::F32(&[1.0]),
            LeafRef::F32(&next),
            LeafRef::F32(&[0.99]),
        ])?;
    }
    Ok(rows)
}
