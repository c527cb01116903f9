//! A dueling double DQN with a prioritised memory, as an agent for CartPole has it.

use shardgraph_components::autodiff::{Ctx, Params, Plan, Recorder};
use shardgraph_components::environments::space::Space;
use shardgraph_components::{
    DqnBatch, DqnLoss, DqnOutput, Error, Initialiser, QNetwork, QNetworkShape, TdLoss,
};
use shardgraph_replay::{ColumnLayout, ElementKind, Prioritization, PrioritizedMemory};

/// Transitions in a batch.
const BATCH: usize = 128;

/// Everything that an update needs.
#[derive(Debug)]
pub(crate) struct Dqn {
    pub(crate) params: Params,
    online: QNetwork,
    target: QNetwork,
    memory: PrioritizedMemory,
}

impl Dqn {
    /// Two networks and an empty memory of 10 000 transitions.
    pub(crate) fn build() -> Result<Dqn, Error> {
        let (observation, action) = (Space::boxed(&[4], -1.0, 1.0)?, Space::discrete(2)?);
        let shape = QNetworkShape {
            hidden: vec![120],
            dueling: Some(vec![84]),
        };
        let (mut params, start) = (Params::new(), Initialiser::default());
        let spaces = (&observation, &action);
        let online = QNetwork::build(&mut params, "online", spaces, &shape, start)?;
        params.freeze_rest();
        let target = QNetwork::build(&mut params, "target", spaces, &shape, start)?;
        let columns = [
            ("observation", ElementKind::F32, 4),
            ("action", ElementKind::U32, 1),
            ("reward", ElementKind::F32, 1),
            ("discount", ElementKind::F32, 1),
            ("next_observation", ElementKind::F32, 4),
        ];
        let memory = ColumnLayout::new(&columns)
            .and_then(|layout| PrioritizedMemory::new(layout, 10_000, Prioritization::default()));
        Ok(Dqn {
            params,
            online,
            target,
            memory: memory.expect("the columns and the capacity are right"),
        })
    }

    /// Transitions that the memory has room for.
    pub(crate) fn capacity(&self) -> usize {
        self.memory.capacity()
    }

    /// The loss of a batch of importance-weighted transitions.
    pub(crate) fn loss(&self, ctx: &mut dyn Ctx) -> Result<DqnOutput, Error> {
        let batch = DqnBatch::inputs(ctx, BATCH, &self.online, true)?;
        let loss = DqnLoss {
            td_loss: TdLoss::Huber { delta: 1.0 },
            double: true,
        };
        loss.of_networks(ctx, (&self.online, &self.target), &batch)
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
