//! A dueling double DQN with a prioritised memory: everything that an agent builds before its first
//! step.

use std::collections::BTreeSet;

use shardgraph_components::autodiff::{Ctx, Params, Plan, Recorder};
use shardgraph_components::environments::space::Space;
use shardgraph_components::{
    DqnBatch, DqnLoss, DqnOutput, EnvironmentSpaces, EpsilonSchedule, Error, Initialiser,
    Optimiser, OptimiserConfig, OptimiserRule, QNetwork, QNetworkShape, TdLoss,
};
use shardgraph_replay::{
    ColumnLayout, ElementKind, NStepAssembler, Prioritization, PrioritizedMemory,
};

/// Transitions in a batch.
const BATCH: usize = 128;

/// The parts without parameters.
const OTHERS: [&str; 5] = [
    "loss",
    "memory",
    "optimiser",
    "exploration",
    "n-step folder",
];

/// Everything that an agent needs.
#[derive(Debug)]
pub(crate) struct Dqn {
    pub(crate) params: Params,
    online: QNetwork,
    target: QNetwork,
    loss: DqnLoss,
    memory: PrioritizedMemory,
    optimiser: Optimiser,
    exploration: EpsilonSchedule,
    folder: NStepAssembler<[f32; 4]>,
}

/// The network for CartPole: 4-120, then two streams of 84.
pub(crate) fn cartpole() -> QNetworkShape {
    QNetworkShape {
        hidden: vec![120],
        dueling: Some(vec![84]),
    }
}

/// A deeper one, with which the agent has as many components as the paper's.
pub(crate) fn of_43_components() -> QNetworkShape {
    QNetworkShape {
        hidden: vec![64; 6],
        dueling: Some(vec![64; 3]),
    }
}

impl Dqn {
    /// Two networks, an empty memory of 10 000 transitions of three steps, and the rest.
    pub(crate) fn build(shape: &QNetworkShape) -> Result<Dqn, Error> {
        let (observation, action) = (Space::boxed(&[4], -1.0, 1.0)?, Space::discrete(2)?);
        let (mut params, start) = (Params::new(), Initialiser::default());
        let spaces = EnvironmentSpaces::new(&observation, &action);
        let online = QNetwork::build(&mut params, "online", spaces, shape, start)?;
        params.freeze_rest();
        let target = QNetwork::build(&mut params, "target", spaces, shape, start)?;
        params.copy_trained_to_frozen()?;
        let columns = [
            ("observation", ElementKind::F32, 4),
            ("action", ElementKind::U32, 1),
            ("reward", ElementKind::F32, 1),
            ("discount", ElementKind::F32, 1),
            ("next_observation", ElementKind::F32, 4),
        ];
        let memory = ColumnLayout::new(&columns)
            .and_then(|layout| PrioritizedMemory::new(layout, 10_000, Prioritization::default()));
        let config = OptimiserConfig {
            rule: OptimiserRule::ADAM,
            learning_rate: 2.5e-4,
            max_gradient_norm: Some(10.0),
        };
        Ok(Dqn {
            optimiser: Optimiser::new(config, params.trained_len())?,
            params,
            online,
            target,
            loss: DqnLoss {
                td_loss: TdLoss::Huber { delta: 1.0 },
                double: true,
            },
            memory: memory.expect("the columns and the capacity are right"),
            exploration: EpsilonSchedule::Linear {
                start: 1.0,
                end: 0.05,
                n_steps: 250_000,
            },
            folder: NStepAssembler::new(3, 0.99),
        })
    }

    /// A component for each scope of the parameters, and those without parameters.
    pub(crate) fn n_components(&self) -> usize {
        let mut scopes = BTreeSet::new();
        for id in self.params.ids() {
            let name = self.params.name(id);
            scopes.extend(name.match_indices('/').map(|(end, _)| &name[..end]));
        }
        scopes.len() + OTHERS.len()
    }

    /// What depends on the parts without parameters, so that none of them is left out.
    pub(crate) fn size(&self) -> (usize, usize, usize, f32) {
        let n_pending = self.folder.pending().count();
        let n_slots = self.optimiser.slots().len();
        (
            self.memory.capacity(),
            n_slots,
            n_pending,
            self.exploration.at(0),
        )
    }

    /// The loss of a batch of importance-weighted transitions.
    pub(crate) fn loss(&self, ctx: &mut dyn Ctx) -> Result<DqnOutput, Error> {
        let batch = DqnBatch::inputs(ctx, BATCH, &self.online, true)?;
        self.loss
            .of_networks(ctx, &self.online, &self.target, &batch)
    }

    /// True if all shapes fit, before anything else is done.
    pub(crate) fn check_shapes(&self) -> Result<DqnOutput, Error> {
        self.loss(&mut Recorder::new(&self.params, 0, 1))
    }

    /// The update's program: loss, TD errors and gradient.
    pub(crate) fn plan(&self) -> Result<Plan, Error> {
        let mut record = Recorder::new(&self.params, 0, 1);
        let out = self.loss(&mut record)?;
        record.output("loss", out.loss);
        record.output("td_errors", out.td_errors);
        record.output_param_gradient(out.loss)?;
        Ok(record.plan())
    }
}
