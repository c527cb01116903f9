//! Which exit code an error has.

use std::fmt;

use shardgraph_collectives::CommError;
use shardgraph_error::Class;

use crate::world::FailedElsewhere;

/// What the user gave cannot be right: exit code 2.
#[derive(Debug)]
pub(crate) struct BadInput(pub(crate) String);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// The code of the first error in the chain that has a class, else 1: no answer.
pub(crate) fn code(error: &anyhow::Error) -> u8 {
    error
        .chain()
        .find_map(|cause| match cause.downcast_ref::<FailedElsewhere>() {
            Some(elsewhere) => Some(elsewhere.code),
            None => class(cause).map(Class::exit_code),
        })
        .unwrap_or(Class::NoAnswer.exit_code())
}

fn class(cause: &(dyn std::error::Error + 'static)) -> Option<Class> {
    macro_rules! first_of {
        ($($error:ty),* $(,)?) => {
            None$(.or_else(|| cause.downcast_ref::<$error>().map(|error| error.class())))*
        };
    }
    if cause.is::<BadInput>() {
        return Some(Class::Input);
    }
    first_of!(
        shardgraph_solver::Error,
        shardgraph_agents::Error,
        shardgraph_device::Error,
        shardgraph_regal::Error,
        shardgraph_costgraph::Error,
        shardgraph_job::Error,
        shardgraph_line::Error,
        shardgraph_rgcn::Error,
        shardgraph_graph::Error,
        shardgraph_shard::Error,
        CommError,
    )
}

/// Whether another rank prints this error.
pub(crate) fn is_told_elsewhere(error: &anyhow::Error) -> bool {
    let elsewhere = error.downcast_ref::<FailedElsewhere>();
    elsewhere.is_some_and(|elsewhere| elsewhere.is_silent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardgraph_collectives::{Launch, Op, Timeout, threads};
    use shardgraph_device::{Device, DeviceKind};
    use shardgraph_solver::{Error, ErrorKind};
    use std::time::Duration;

    fn lost_rank() -> CommError {
        let results = threads::run(2, |mut comm| match comm.rank() {
            0 => comm.run(Op::Barrier, Timeout::after(Duration::from_secs(60))),
            _ => Ok(()), // leaves without its peer
        });
        let first = results.into_iter().next().unwrap();
        first.unwrap().unwrap_err()
    }

    #[test]
    fn every_kind_of_error_has_its_code() {
        let solver = |kind: ErrorKind| code(&Error::from(kind).into());
        assert_eq!(solver(ErrorKind::Input("?".into())), 2);
        assert_eq!(solver(ErrorKind::Verification("edge".into())), 1);
        assert_eq!(solver(ErrorKind::Internal("?".into())), 1);
        assert_eq!(solver(ErrorKind::Comm(lost_rank())), 4);
        let model = shardgraph_solver::Error::from(lost_rank());
        assert_eq!(code(&anyhow::Error::from(model).context("training")), 4);
        let missing = Device::open(DeviceKind::Cuda(0)).unwrap_err();
        assert_eq!(code(&missing.into()), 3);
        let graph = "er:1:2".parse::<shardgraph_graph::generate::GeneratorSpec>();
        assert_eq!(code(&graph.unwrap_err().into()), 2);
        assert_eq!(code(&BadInput("?".into()).into()), 2);
        assert_eq!(code(&lost_rank().into()), 4);
        let half = Launch::from_vars([("RANK", "0")]).unwrap_err();
        assert_eq!(code(&half.into()), 2);
        let agent = |error: shardgraph_agents::Error| code(&error.into());
        let settings = shardgraph_agents::AgentConfig::from_toml("");
        assert_eq!(agent(settings.unwrap_err()), 2);
        assert_eq!(agent(lost_rank().into()), 4);
        assert_eq!(
            agent(Device::open(DeviceKind::Cuda(0)).unwrap_err().into()),
            3
        );
        let diverged = shardgraph_agents::ErrorKind::Diverged("?".into());
        assert_eq!(agent(diverged.into()), 1);
        let schedule = shardgraph_costgraph::ErrorKind::Schedule;
        let wrong = || shardgraph_costgraph::Error::new(schedule, "?");
        assert_eq!(code(&wrong().into()), 1);
        let placement = anyhow::Error::new(shardgraph_regal::Error::from(wrong()));
        assert_eq!(code(&placement.context("a graph")), 1);
        let devices = shardgraph_costgraph::DeviceSet::uniform(0, None);
        assert_eq!(code(&devices.unwrap_err().into()), 2);
        let method = "genetic".parse::<shardgraph_regal::Method>();
        assert_eq!(code(&method.unwrap_err().into()), 2);
        assert_eq!(code(&anyhow::anyhow!("anything else")), 1);
    }
}
