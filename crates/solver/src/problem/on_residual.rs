//! Episodes of problems whose state is a residual graph.

use shardgraph_environments::{Environment, ResidualGraph};

use super::Episode;
use crate::Error;

/// An environment over a residual graph as the solver's episode; the two functions read the picks and the members of the answer.
#[derive(Debug, Clone)]
pub struct OnResidual<E> {
    /// The environment.
    pub environment: E,
    /// Its picks, in order.
    pub picks: fn(&E) -> &[u32],
    /// Which nodes are in its answer.
    pub members: fn(&E) -> &[bool],
}

impl<E> Episode for OnResidual<E>
where
    E: Environment<State = ResidualGraph> + Clone + Send + Sync + 'static,
{
    fn pick(&mut self, node: u32) -> Result<f32, Error> {
        Ok(self.environment.step(node)?.reward)
    }

    fn is_done(&self) -> bool {
        self.environment.is_done()
    }

    fn is_candidate(&self, node: u32) -> bool {
        self.environment.is_candidate(node)
    }

    fn picks(&self) -> &[u32] {
        (self.picks)(&self.environment)
    }

    fn in_answer(&self, node: u32) -> bool {
        (self.members)(&self.environment)[node as usize]
    }

    fn is_present(&self, node: u32) -> bool {
        !self.environment.state().removed()[node as usize]
    }

    fn degrees(&self) -> &[u32] {
        self.environment.state().degrees()
    }

    fn copy(&self) -> Box<dyn Episode> {
        Box::new(self.clone())
    }
}
