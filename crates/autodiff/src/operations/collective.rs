//! Sums and rows of all ranks.

use std::sync::Arc;

use super::rule::Rule;
use crate::{Adjoint, Ctx, Error, Operation, Role, Run, Shape, Var, World};

/// The rank-order sum of a partial value: one summand on each rank, replicated afterwards.
#[derive(Debug, Clone, Copy)]
pub struct AllReduce;

/// A replicated value handed to work that differs by rank: itself; its adjoint sums over ranks.
#[derive(Debug, Clone, Copy)]
pub struct CopyToRanks;

/// The rows of all ranks, one rank below the other; the result is used by work that differs by rank.
#[derive(Debug, Clone)]
pub struct AllGather {
    /// Rows of each rank.
    pub counts: Arc<[usize]>,
}

/// The sum over ranks of whole tables, of which each rank keeps its own rows: the adjoint of an all-gather.
#[derive(Debug, Clone)]
pub struct ReduceScatter {
    /// Rows of each rank.
    pub counts: Arc<[usize]>,
}

/// The rows of this rank, and those of all.
fn own_and_all(counts: &[usize], world: World) -> Result<(usize, usize), String> {
    match counts.len() == world.size as usize {
        true => Ok((counts[world.rank as usize], counts.iter().sum())),
        false => Err(format!(
            "one row count for each of the {} ranks is expected, {} are given",
            world.size,
            counts.len()
        )),
    }
}

fn with_rows(x: Shape, wanted: usize, result: usize) -> Rule {
    match x.rows == wanted {
        true => Ok(Shape::new(result, x.cols)),
        false => Err(format!("{wanted} rows are expected")),
    }
}

fn elements(counts: &[usize], width: usize) -> Vec<usize> {
    counts.iter().map(|rows| rows * width).collect()
}

fn numbers(counts: &[usize]) -> Vec<u64> {
    counts.iter().map(|&n| n as u64).collect()
}

impl Operation for AllReduce {
    fn name(&self) -> &'static str {
        "all_reduce"
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        run.comm.all_reduce(run.operands[0].values, run.out.values)
    }

    /// Each rank's summand has the derivative of the replicated sum.
    fn adjoint(&self, _ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        Ok(vec![Some(at.dy)])
    }

    fn role(&self) -> Role {
        Role::Exchange
    }
}

impl Operation for CopyToRanks {
    fn name(&self) -> &'static str {
        "copy_to_ranks"
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        Ok(run.device().copy(run.operands[0].values, run.out.values)?)
    }

    /// A replicated value collects the derivatives of the work of all ranks.
    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        Ok(vec![Some(ctx.all_reduce(at.dy)?)])
    }

    fn role(&self) -> Role {
        Role::Alias
    }
}

impl Operation for AllGather {
    fn name(&self) -> &'static str {
        "all_gather"
    }

    fn shape(&self, operands: &[Shape], world: World) -> Rule {
        let (own, all) = own_and_all(&self.counts, world)?;
        with_rows(operands[0], own, all)
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let counts = elements(&self.counts, run.out.shape.cols);
        run.comm
            .all_gather(run.operands[0].values, &counts, run.out.values)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let dx = ctx.reduce_scatter(at.dy, Arc::clone(&self.counts))?;
        Ok(vec![Some(dx)])
    }

    fn numbers(&self) -> Vec<u64> {
        numbers(&self.counts)
    }

    fn role(&self) -> Role {
        Role::Exchange
    }
}

impl Operation for ReduceScatter {
    fn name(&self) -> &'static str {
        "reduce_scatter"
    }

    fn shape(&self, operands: &[Shape], world: World) -> Rule {
        let (own, all) = own_and_all(&self.counts, world)?;
        with_rows(operands[0], all, own)
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let counts = elements(&self.counts, run.out.shape.cols);
        let x = run.operands[0].values;
        run.comm.reduce_scatter(x, &counts, run.out.values)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        Ok(vec![Some(ctx.all_gather(at.dy, Arc::clone(&self.counts))?)])
    }

    fn numbers(&self) -> Vec<u64> {
        numbers(&self.counts)
    }

    fn role(&self) -> Role {
        Role::Exchange
    }
}
