//! REINFORCE with a baseline: one step after the other, each decided by the settings, the graphs, and the weights before it.

use std::path::Path;

use serde::Serialize;
use shardgraph_agents::policy_gradient;
use shardgraph_brkga::BetaTables;
#[cfg(test)]
use shardgraph_components::autodiff::Gradient;
use shardgraph_components::autodiff::collectives::{Comm, Timeout};
use shardgraph_components::autodiff::device::Device;
use shardgraph_components::autodiff::{Eager, Params};
use shardgraph_components::environments::space::Space;
use shardgraph_components::{Initialiser, Optimiser};
use shardgraph_costgraph::Graph;
use shardgraph_job::{Checkpoint, Ranks, RunRecorder, Tensors, tags};
use shardgraph_random::KeyedRng;
use shardgraph_storage::{hash, hash_numbers};

use super::TrainConfig;
use super::instance::{Instances, RewardJob};
use super::loss::{Batch, Learner};
use super::queue::{SearchPool, SearchQueue};
use super::run::{POLICY, RUN, RunFile, STATE, VERSION};
use crate::error::Error;
use crate::policy::{Actions, BaselineNetwork, Contexts, Policy, PolicyNetwork};

/// What a step was like. Rewards are minus what proposals reached, divided by what uniform keys reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StepReport {
    /// Steps taken, this one included.
    pub step: u64,
    /// The mean reward of the batch: above -1 where proposals are worth something. Absent where the step imitated and searched nothing.
    pub reward: Option<f32>,
    /// The mean of what the baseline expected, squared errors.
    pub baseline_error: f32,
    /// What was descended.
    pub loss: f32,
    /// The entropy of the decisions about an op, in nats.
    pub entropy: f32,
    /// The gradient's norm before it was cut.
    pub gradient_norm: f32,
}

/// A training run between two steps.
///
/// # Determinism
/// Equal settings and graphs give the same bits for any number of threads, and on from any checkpoint.
///
/// # Complexity
/// A step: a search for each graph and sample of the batch, in parallel, and a pass of the networks over their ops and uses forward and
/// one back. A graph's first use takes the search of its features besides, and its first reward those of its denominator.
///
/// ```
/// use shardgraph_costgraph::generate::{Synthetic, synthetic};
/// use shardgraph_regal::{Preset, TrainConfig, Trainer};
///
/// let graphs = [synthetic(&Synthetic { min_nodes: 8, max_nodes: 9, ..Synthetic::default() }, 7, 0)?];
/// let mut config = TrainConfig::preset(Preset::Synthetic);
/// (config.reward_evaluations, config.policy.feature_evaluations) = (60, 60);
/// let mut trainer = Trainer::new(&config, &graphs, 2)?;
/// let report = trainer.step()?;
/// assert!(report.step == 1 && report.reward < Some(0.0) && report.entropy > 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Trainer<'g> {
    config: TrainConfig,
    instances: Instances<'g>,
    graphs_hash: u64,
    space: Space,
    tables: BetaTables,
    network: PolicyNetwork,
    baseline: BaselineNetwork,
    /// The policy's, then the baseline's.
    params: Params,
    n_of_policy: usize,
    optimiser: Optimiser,
    device: Device,
    pool: SearchPool,
    n_steps: u64,
}

impl<'g> Trainer<'g> {
    /// Before the first step.
    ///
    /// # Errors
    /// As [`TrainConfig::check`]; `Options` for no graphs or 0 threads, `Graph` where a graph and the devices do not fit together.
    pub fn new(
        config: &TrainConfig,
        graphs: &'g [Graph],
        n_threads: usize,
    ) -> Result<Trainer<'g>, Error> {
        config.check()?;
        let policy = &config.policy;
        let mut params = Params::new();
        let start = Initialiser {
            seed: config.seed,
            ..Initialiser::default()
        };
        let network = PolicyNetwork::build(&mut params, policy, start)?;
        PolicyNetwork::level(&mut params)?;
        let n_of_policy = params.flat().len();
        let baseline = BaselineNetwork::build(&mut params, policy, start)?;
        Ok(Trainer {
            instances: Instances::new(config, graphs)?,
            graphs_hash: hash_of(graphs),
            space: policy.space()?,
            tables: network.actions().tables()?,
            optimiser: Optimiser::new(config.optimiser, params.trained_len())?,
            network,
            baseline,
            params,
            n_of_policy,
            device: Device::host(),
            pool: SearchPool::new(n_threads)?,
            n_steps: 0,
            config: config.clone(),
        })
    }

    /// The same run with its networks on another device. Kinds of devices differ in the last bits of what they compute.
    #[must_use]
    pub fn on_device(mut self, device: &Device) -> Self {
        self.device = device.clone();
        self
    }

    /// Takes the weights of a policy to go on from: of one that was trained for fewer evaluations, say.
    ///
    /// # Errors
    /// `Policy` where it is of another config than the settings'.
    pub fn begin_with(&mut self, policy: &Policy) -> Result<(), Error> {
        if *policy.config() != self.config.policy {
            return Err(Error::policy(format!(
                "{}: the policy to begin with has another config than the run: the same features, devices, levels and network are needed",
                policy.source()
            )));
        }
        let mut weights = self.params.flat().to_vec();
        weights[..self.n_of_policy].copy_from_slice(policy.params().flat());
        Ok(self.params.set_flat(&weights)?)
    }

    /// From a checkpoint, whose settings it has.
    ///
    /// # Errors
    /// As [`Trainer::new`]; `Run` or `Options` where the checkpoint is of something else, or the graphs are not those of the run.
    pub fn of_checkpoint(
        checkpoint: &Checkpoint,
        graphs: &'g [Graph],
        n_threads: usize,
    ) -> Result<Trainer<'g>, Error> {
        let file: RunFile = checkpoint.json(RUN, VERSION)?;
        let mut trainer = Trainer::new(&file.config, graphs, n_threads)?;
        let wrong = |what: &str| Error::options(format!("{}: {what}", checkpoint.origin()));
        if file.graphs_hash != format!("{:016x}", trainer.graphs_hash) {
            return Err(wrong(
                "the graphs are not those that the run began with: put them back, or start a new run",
            ));
        }
        if file.step != checkpoint.step() {
            return Err(wrong(
                "run.json is of another step: give the folder back its name",
            ));
        }
        let state = checkpoint.tensors(STATE)?;
        let weights = state.f32s("weights")?;
        if weights.iter().any(|x| !x.is_finite()) {
            return Err(wrong("the weights are not finite"));
        }
        let restored = trainer.params.set_flat(&weights).map_err(Error::from);
        restored.map_err(|error| wrong(&error.to_string()))?;
        let restored = trainer.optimiser.restore(state.u8s("optimiser")?);
        restored.map_err(|error| wrong(&error.to_string()))?;
        trainer.n_steps = file.step;
        Ok(trainer)
    }

    /// A hash of everything that decides how the run goes on.
    pub(super) fn fingerprint(&self) -> Result<u64, Error> {
        Ok(hash(&self.to_checkpoint()?.to_bytes()))
    }

    /// Everything that decides how the run goes on.
    ///
    /// # Errors
    /// `Run` where it has no form as a file.
    pub fn to_checkpoint(&self) -> Result<Checkpoint, Error> {
        let optimiser = self.optimiser.to_bytes();
        let mut tensors = Tensors::new();
        tensors.add_f32("weights", self.params.flat())?;
        tensors.add_u8("optimiser", &optimiser)?;
        let mut checkpoint = Checkpoint::new(self.n_steps);
        checkpoint.add(STATE, tensors.to_bytes()?)?;
        let file = RunFile {
            config: self.config.clone(),
            step: self.n_steps,
            graphs_hash: format!("{:016x}", self.graphs_hash),
            device: self.device.kind().family().to_owned(),
        };
        checkpoint.add_json(RUN, VERSION, &file)?;
        Ok(checkpoint)
    }

    /// Steps taken.
    #[must_use]
    pub fn n_steps(&self) -> u64 {
        self.n_steps
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// The policy of this moment.
    ///
    /// # Errors
    /// None that its building did not have.
    pub fn policy(&self) -> Result<Policy, Error> {
        let policy = Policy::untrained(self.config.policy.clone(), self.config.seed)?;
        self.params.sync()?;
        let source = format!("after {} steps", self.n_steps);
        policy.with_weights(&self.params.flat()[..self.n_of_policy], &source)
    }

    /// Draws a batch of graphs and proposals, searches with them, and takes a step.
    ///
    /// # Errors
    /// `Diverged` or `Learning` where logits or gradients are no longer finite: the weights are then those before the step.
    pub fn step(&mut self) -> Result<StepReport, Error> {
        self.step_on(&mut Ranks::new(&mut Comm::solo(), Timeout::default()))
    }

    /// As [`Trainer::step`] of one rank of several, each of which has the same settings and graphs, takes the same steps, and makes its part
    /// of the searches behind features, denominators and rewards: each goes to the rank that would be through with it first.
    ///
    /// # Errors
    /// As [`Trainer::step`]; `Ranks` where another rank is gone, or comes later than the ranks' timeout.
    ///
    /// # Determinism
    /// The same bits for any number of ranks: what a search finds is made by one of them and handed to the others as it is.
    pub fn step_on(&mut self, ranks: &mut Ranks<'_>) -> Result<StepReport, Error> {
        let pool = std::mem::take(&mut self.pool);
        let mut queue = SearchQueue { ranks, pool };
        let report = self.step_with(&mut queue);
        self.pool = queue.pool;
        report
    }

    fn step_with(&mut self, queue: &mut SearchQueue<'_, '_>) -> Result<StepReport, Error> {
        let learner = Learner {
            network: &self.network,
            baseline: &self.baseline,
            config: &self.config,
        };
        let (graphs, contexts) = self.draw(queue)?;
        let mut comm = Comm::solo();
        // The logits that are sampled are those that the loss differentiates: one pass.
        let mut ctx = Eager::new(&self.device, &mut comm, &self.params);
        let logits = self.network.logits(&mut ctx, &contexts)?;
        let of_graphs = logits.graphs.map(|var| ctx.values(var)).transpose()?;
        let of_graphs = of_graphs.unwrap_or_default();
        let of_ops = ctx.values(logits.ops)?;
        let batch = self.batch(&graphs, contexts, &of_ops, &of_graphs, queue)?;
        let parts = learner.loss(&mut ctx, logits, &batch)?;
        let (update, mut gradient) = policy_gradient(&mut ctx, &parts)?;
        let (device, params) = (&self.device, &mut self.params);
        let gradient_norm = self.optimiser.step_with(device, params, &mut gradient)?;
        self.n_steps += 1;
        Ok(StepReport {
            step: self.n_steps,
            reward: (!batch.rewards.is_empty())
                .then(|| batch.rewards.iter().sum::<f32>() / batch.rewards.len() as f32),
            baseline_error: update.baseline.unwrap_or(0.0),
            loss: update.loss,
            entropy: batch.entropy,
            gradient_norm,
        })
    }

    /// The graphs of the next step and what the networks read of them, by the seed and the number of the step.
    fn draw(&self, queue: &mut SearchQueue<'_, '_>) -> Result<(Vec<usize>, Contexts), Error> {
        let n = self.instances.len() as u64;
        let mut draw = KeyedRng::new(self.config.seed, "regal graphs", self.n_steps);
        let graphs = (0..self.config.batch_graphs).map(|_| draw.below(n) as usize);
        let graphs: Vec<usize> = graphs.collect();
        let contexts = Contexts::new(&self.space, &self.instances.read(&graphs, queue)?)?;
        Ok((graphs, contexts))
    }

    /// What the next step learns from, by the seed, the number of the step and the logits of these graphs.
    fn batch(
        &self,
        graphs: &[usize],
        contexts: Contexts,
        logits: &[f32],
        of_graphs: &[f32],
        queue: &mut SearchQueue<'_, '_>,
    ) -> Result<Batch, Error> {
        let space = self.network.actions();
        let entropy = space.entropy(logits) as f32;
        if self.n_steps < self.config.imitation_steps {
            return Ok(Batch {
                samples: vec![self.by_hand(graphs)],
                crossovers: Vec::new(),
                rewards: Vec::new(),
                contexts,
                entropy,
            });
        }
        let mut draw = KeyedRng::new(self.config.seed, "regal actions", self.n_steps);
        let n_samples = self.config.samples_per_graph;
        let samples = (0..n_samples).map(|_| space.sample(logits, &mut draw));
        let samples: Vec<Actions> = samples.collect::<Result<_, Error>>()?;
        let crossovers = match self.network.crossover() {
            None => Vec::new(),
            Some(crossover) => {
                let levels = (0..n_samples).map(|_| crossover.sample(of_graphs, &mut draw));
                levels.collect::<Result<_, Error>>()?
            }
        };
        let rewards = self.rewards(graphs, &contexts, &samples, &crossovers, queue)?;
        Ok(Batch {
            contexts,
            samples,
            crossovers,
            rewards,
            entropy,
        })
    }

    /// What these graphs' ops are decided to imitate.
    fn by_hand(&self, graphs: &[usize]) -> Actions {
        let space = self.network.actions();
        let of_graph = |&graph: &usize| space.by_hand(self.instances.by_hand(graph));
        let parts: Vec<Actions> = graphs.iter().map(of_graph).collect();
        let heads = 0..space.heads().len();
        let by_hand = heads.map(|head| parts.iter().flat_map(|of| &of[head]).copied().collect());
        by_hand.collect()
    }

    /// Sample by sample, in each graph by graph. The samples of a graph are searched with the same random numbers: what differs is what
    /// is proposed.
    fn rewards(
        &self,
        graphs: &[usize],
        contexts: &Contexts,
        samples: &[Actions],
        crossovers: &[Vec<u32>],
        queue: &mut SearchQueue<'_, '_>,
    ) -> Result<Vec<f32>, Error> {
        let mut draw = KeyedRng::new(self.config.seed, "regal rewards", self.n_steps);
        let seeds: Vec<u64> = graphs.iter().map(|_| draw.next_u64()).collect();
        let mut jobs = Vec::new();
        for (sample, actions) in samples.iter().enumerate() {
            for (at, first) in contexts.starts().enumerate() {
                let problem = self.instances.problem(graphs[at]);
                let level = crossovers.get(sample).and_then(|levels| levels.get(at));
                let crossover = self.network.crossover();
                jobs.push(RewardJob {
                    problem: graphs[at],
                    choices: self.network.actions().choices(problem, actions, first),
                    rho: crossover.zip(level).map(|(of, &level)| of.rho(level)),
                    seed: seeds[at],
                });
            }
        }
        self.instances.rewards(&jobs, &self.tables, queue)
    }
}

impl shardgraph_job::Trainer for Trainer<'_> {
    type Report = StepReport;
    type Error = Error;

    fn step(&self) -> u64 {
        self.n_steps
    }

    fn advance(&mut self, ranks: &mut Ranks<'_>) -> Result<StepReport, Error> {
        self.step_on(ranks)
    }

    fn record(&mut self, report: &StepReport, recorder: &mut RunRecorder) -> Result<(), Error> {
        let mut scalars = vec![
            (tags::LOSS, report.loss),
            (tags::VALUE_LOSS, report.baseline_error),
            (tags::ENTROPY, report.entropy),
            (tags::GRADIENT_NORM, report.gradient_norm),
        ];
        scalars.extend(report.reward.map(|reward| ("train/reward", reward)));
        Ok(recorder.append(report, &scalars)?)
    }

    fn checkpoint(&mut self, ranks: &mut Ranks<'_>) -> Result<Option<Checkpoint>, Error> {
        let checkpoint = || self.to_checkpoint();
        ranks.is_first().then(checkpoint).transpose()
    }

    /// Whoever stops a run has the policy of its last checkpoint.
    fn checkpoint_written(&self, folder: &Path) -> Result<(), Error> {
        self.write_results(folder)
    }

    fn end(&mut self, _: &mut Ranks<'_>) -> Result<(), Error> {
        Ok(self.params.sync()?)
    }

    fn params_hash(&self) -> Option<u64> {
        Some(hash_numbers(self.params.flat().iter().copied()))
    }

    fn write_results(&self, folder: &Path) -> Result<(), Error> {
        self.policy()?.write(&folder.join(POLICY))
    }
}

#[cfg(test)]
impl Trainer<'_> {
    /// Searches that this rank has made.
    pub(super) fn n_searches(&self) -> u64 {
        self.pool.n_done
    }

    /// The derivatives of the loss by the biases of the logits of crossover on the first graph, ops deciding what they like; a NaN stands
    /// for 2 more than the baseline's network expects.
    pub(super) fn crossover_derivatives(
        &self,
        mut rewards: Vec<f32>,
        crossovers: Vec<Vec<u32>>,
    ) -> Vec<f32> {
        let mut comm = Comm::solo();
        let mut queue = SearchQueue {
            ranks: &mut Ranks::new(&mut comm, Timeout::default()),
            pool: SearchPool::new(1).unwrap(),
        };
        let read = self.instances.read(&[0], &mut queue).unwrap();
        let contexts = Contexts::new(&self.space, &read).unwrap();
        let mut ctx = Eager::new(&self.device, &mut comm, &self.params);
        let logits = self.network.logits(&mut ctx, &contexts).unwrap();
        let values = ctx.values(logits.ops).unwrap();
        let mut draw = KeyedRng::new(1, "test", 0);
        let space = self.network.actions();
        let sample = |_: &f32| space.sample(&values, &mut draw).unwrap();
        let samples = rewards.iter().map(sample).collect();
        let expected = self.baseline.values(&mut ctx, &contexts).unwrap();
        let expected = ctx.values(expected).unwrap()[0];
        for reward in rewards.iter_mut().filter(|reward| reward.is_nan()) {
            *reward = expected + 2.0;
        }
        let batch = Batch {
            contexts,
            samples,
            crossovers,
            rewards,
            entropy: 0.0,
        };
        let learner = Learner {
            network: &self.network,
            baseline: &self.baseline,
            config: &self.config,
        };
        let parts = learner.loss(&mut ctx, logits, &batch).unwrap();
        let (_, gradient) = policy_gradient(&mut ctx, &parts).unwrap();
        let Gradient::Host(gradient) = gradient else {
            panic!("the trainer is on the host");
        };
        let mut at = 0;
        for id in self.params.ids() {
            let n = self.params.shape(id).len();
            if self.params.name(id) == "policy/crossover/1/b" {
                return gradient[at..at + n].to_vec();
            }
            at += n;
        }
        panic!("no such parameter");
    }
}

/// What tells one list of graphs from another: names, sizes, costs and bytes, in order, each list behind its length.
fn hash_of(graphs: &[Graph]) -> u64 {
    let mut words: Vec<u64> = vec![graphs.len() as u64];
    for graph in graphs {
        words.extend([graph.n_ops() as u64, graph.n_tensors() as u64]);
        words.extend([graph.n_cost_classes() as u64, graph.name().len() as u64]);
        words.extend(graph.name().bytes().map(u64::from));
        for op in 0..graph.n_ops() as u32 {
            let costs = (0..graph.n_cost_classes()).map(|class| graph.cost_ns(class, op));
            words.extend(costs);
            words.extend([graph.internal_bytes(op), graph.persistent_bytes(op)]);
        }
        for tensor in 0..graph.n_tensors() as u32 {
            let is_control = u64::from(graph.is_control(tensor));
            let alias = graph.alias_of(tensor).map_or(u64::MAX, u64::from);
            words.extend([graph.tensor_bytes(tensor), is_control, alias]);
            words.push(u64::from(graph.producer(tensor)));
            words.push(graph.consumers(tensor).len() as u64);
            words.extend(graph.consumers(tensor).iter().map(|&op| u64::from(op)));
        }
    }
    hash_numbers(words)
}
