//! Which exit code an error has.

use std::fmt;

use shardgraph_collectives::CommError;
use shardgraph_regal::ErrorKind;
use shardgraph_solver::Fault;

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

const NO_ANSWER: u8 = 1;
const BAD_INPUT: u8 = 2;
const MISSING_DEVICE: u8 = 3;
const LOST_RANK: u8 = 4;

/// The code of the first error in the chain that has one, else 1: no answer.
pub(crate) fn code(error: &anyhow::Error) -> u8 {
    let codes = error.chain().find_map(|cause| {
        if let Some(error) = cause.downcast_ref::<shardgraph_solver::Error>() {
            return Some(of_fault(error.fault()));
        }
        if let Some(error) = cause.downcast_ref::<shardgraph_agents::Error>() {
            return Some(of_agent(error));
        }
        if let Some(error) = cause.downcast_ref::<shardgraph_device::Error>() {
            return Some(of_fault(Fault::of_device(error)));
        }
        if let Some(error) = cause.downcast_ref::<shardgraph_regal::Error>() {
            return Some(of_placement(error));
        }
        if let Some(error) = cause.downcast_ref::<shardgraph_costgraph::Error>() {
            return Some(of_cost_graph(error));
        }
        if let Some(error) = cause.downcast_ref::<shardgraph_line::Error>() {
            return Some(error.class().exit_code());
        }
        if let Some(error) = cause.downcast_ref::<shardgraph_rgcn::Error>() {
            return Some(of_relational(error));
        }
        if let Some(error) = cause.downcast_ref::<CommError>() {
            return Some(of_comm(error));
        }
        if let Some(elsewhere) = cause.downcast_ref::<FailedElsewhere>() {
            return Some(elsewhere.code);
        }
        let is_input = cause.is::<BadInput>()
            || cause.is::<shardgraph_graph::Error>()
            || cause.is::<shardgraph_shard::Error>();
        is_input.then_some(BAD_INPUT)
    });
    codes.unwrap_or(NO_ANSWER)
}

/// Whether another rank prints this error.
pub(crate) fn is_told_elsewhere(error: &anyhow::Error) -> bool {
    let elsewhere = error.downcast_ref::<FailedElsewhere>();
    elsewhere.is_some_and(|elsewhere| elsewhere.is_silent)
}

fn of_fault(fault: Fault) -> u8 {
    match fault {
        Fault::Input => BAD_INPUT,
        Fault::MissingDevice => MISSING_DEVICE,
        Fault::LostRank => LOST_RANK,
        Fault::NoAnswer => NO_ANSWER,
    }
}

fn of_comm(error: &CommError) -> u8 {
    error.class().exit_code()
}

fn of_agent(error: &shardgraph_agents::Error) -> u8 {
    match (error.comm_error(), error.device_error()) {
        (Some(error), _) => of_comm(error),
        (None, Some(error)) => of_fault(Fault::of_device(error)),
        (None, None) if error.is_input() => BAD_INPUT,
        (None, None) if error.is_lost_rank() => LOST_RANK,
        (None, None) => NO_ANSWER,
    }
}

fn of_relational(error: &shardgraph_rgcn::Error) -> u8 {
    error.class().exit_code()
}

fn of_placement(error: &shardgraph_regal::Error) -> u8 {
    match error.kind() {
        ErrorKind::Ranks(error) => of_comm(error),
        ErrorKind::LostRank(_) => LOST_RANK,
        _ if error.is_input() => BAD_INPUT,
        _ => NO_ANSWER,
    }
}

/// A schedule that breaks the rules is none of the user's.
fn of_cost_graph(error: &shardgraph_costgraph::Error) -> u8 {
    match error.kind() {
        shardgraph_costgraph::ErrorKind::Schedule => NO_ANSWER,
        _ => BAD_INPUT,
    }
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
