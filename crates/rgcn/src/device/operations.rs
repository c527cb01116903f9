//! The operations of an R-GCN on a device, for autodiff: messages and their weighted sums.

use std::fmt;
use std::sync::Arc;

use shardgraph_autodiff::{Adjoint, Ctx, Error, Operation, Run, Shape, Var, World};
use shardgraph_device::{self as device, Buffer, Device};
use shardgraph_ops::{Adjacency, ResidentAdjacency, SparseProduct, sparse_product};

use crate::kernels::{PairLists, Terms};
use crate::layer::plan::LayerPlan;
use crate::model::csr::Csr;

/// A sparse matrix and its transpose in a device's memory.
#[derive(Debug)]
pub(super) struct Matrix {
    lists: ResidentAdjacency,
    transposed: ResidentAdjacency,
    n_rows: usize,
    n_columns: usize,
}

/// A sparse matrix by rows.
pub(super) struct Lists {
    /// The first entry of each row, and the end of the last.
    pub(super) starts: Vec<u64>,
    pub(super) columns: Vec<u32>,
    pub(super) weights: Vec<f32>,
    pub(super) n_columns: usize,
}

impl Lists {
    /// Pairs by targets: the weights with which a plan's messages are added.
    pub(super) fn of_plan(plan: &LayerPlan, n_targets: usize) -> Lists {
        Lists {
            starts: plan.send_starts.iter().copied().map(u64::from).collect(),
            columns: plan.sends.iter().map(|send| send.target).collect(),
            weights: plan.sends.iter().map(|send| send.weight).collect(),
            n_columns: n_targets,
        }
    }
}

impl Matrix {
    pub(super) fn lists(&self) -> &ResidentAdjacency {
        &self.lists
    }

    pub(super) fn transposed(&self) -> &ResidentAdjacency {
        &self.transposed
    }

    pub(super) fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// Makes both another stream's, behind their copies.
    pub(super) fn adopt(&mut self, stream: &Device) -> Result<(), device::Error> {
        self.lists.adopt(stream)?;
        self.transposed.adopt(stream)
    }

    /// Uploads both.
    ///
    /// # Complexity
    /// O(entries); 16 bytes an entry on the device.
    pub(super) fn upload(device: &Device, lists: &Lists) -> Result<Matrix, device::Error> {
        let n_rows = lists.starts.len() - 1;
        let rows = (0u32..).zip(lists.starts.windows(2));
        let rows = rows.flat_map(|(row, ends)| (ends[0]..ends[1]).map(move |_| row));
        let rows: Vec<u32> = rows.collect();
        let by_column = Csr::group(lists.n_columns, &lists.columns);
        let (mut starts, mut order) = (vec![0u64], Vec::new());
        for column in 0..lists.n_columns {
            order.extend_from_slice(by_column.members(column));
            starts.push(order.len() as u64);
        }
        let entries = order.iter().map(|&entry| entry as usize);
        let columns: Vec<u32> = entries.clone().map(|entry| rows[entry]).collect();
        let weights: Vec<f32> = entries.map(|entry| lists.weights[entry]).collect();
        let upload = |row_ptr: &[u64], columns: &[u32], weights: &[f32]| {
            let values = Some(weights);
            let lists = Adjacency::Csr {
                row_ptr,
                columns,
                values,
            };
            ResidentAdjacency::upload(device, lists)
        };
        Ok(Matrix {
            lists: upload(&lists.starts, &lists.columns, &lists.weights)?,
            transposed: upload(&starts, &columns, &weights)?,
            n_rows,
            n_columns: lists.n_columns,
        })
    }
}

/// The product of a constant sparse matrix, or its transpose, with a dense one.
#[derive(Debug, Clone)]
pub(super) struct Product {
    pub(super) matrix: Arc<Matrix>,
    pub(super) is_transposed: bool,
}

impl Product {
    fn sides(&self) -> [usize; 2] {
        let Matrix {
            n_rows, n_columns, ..
        } = *self.matrix;
        match self.is_transposed {
            false => [n_rows, n_columns],
            true => [n_columns, n_rows],
        }
    }
}

impl Operation for Product {
    fn name(&self) -> &'static str {
        "sparse_product"
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Result<Shape, String> {
        let [n_rows, n_columns] = self.sides();
        match operands[0].rows == n_columns {
            true => Ok(Shape::new(n_rows, operands[0].cols)),
            false => Err(format!("{n_columns} rows are expected")),
        }
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let [n_rows, n_columns] = self.sides();
        let lists = match self.is_transposed {
            false => &self.matrix.lists,
            true => &self.matrix.transposed,
        };
        let product = SparseProduct {
            adjacency: Adjacency::Resident(lists),
            n_rows,
            n_columns,
            width: run.out.shape.cols,
        };
        let x = run.operands[0].values;
        Ok(sparse_product(run.device(), product, x, run.out.values)?)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let transpose = Product {
            matrix: Arc::clone(&self.matrix),
            is_transposed: !self.is_transposed,
        };
        Ok(vec![Some(ctx.apply(Arc::new(transpose), &[at.dy])?)])
    }
}

/// What rows of sources and of relations give: messages, or sums of them.
pub(super) trait RelationMap: fmt::Debug + Send + Sync + 'static {
    /// Name of the operation.
    const NAME: &'static str;

    /// Rows of sources, of relations, and of what they give.
    fn n_rows(&self) -> [usize; 3];

    /// Writes a result, of the operands that [`RelationResult`] names.
    ///
    /// # Errors
    /// The device's.
    fn compute(
        &self,
        device: &Device,
        terms: Terms,
        result: RelationResult,
        operands: [&Buffer; 2],
        out: &mut Buffer,
    ) -> Result<(), device::Error>;
}

/// The result of a [`RelationMap`], and its two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RelationResult {
    /// What the sources' and the relations' rows give.
    Value,
    /// The gradient of the sources' rows, of the relations' rows and the value's gradient.
    SourceGradient,
    /// The gradient of the relations' rows, of the sources' rows and the value's gradient.
    RelationGradient,
}

/// A [`RelationMap`] as an operation, or a gradient of it.
#[derive(Debug)]
pub(super) struct RelationOperation<M> {
    map: Arc<M>,
    terms: Terms,
    result: RelationResult,
}

impl<M> RelationOperation<M> {
    pub(super) fn value(map: Arc<M>, terms: Terms) -> RelationOperation<M> {
        let result = RelationResult::Value;
        RelationOperation { map, terms, result }
    }
}

impl<M: RelationMap> Operation for RelationOperation<M> {
    fn name(&self) -> &'static str {
        M::NAME
    }

    fn shape(&self, operands: &[Shape], _world: World) -> Result<Shape, String> {
        let ([n_sources, n_relations, n_values], terms) = (self.map.n_rows(), self.terms);
        let sources = Shape::new(n_sources, terms.source_len);
        let relations = Shape::new(n_relations, terms.relation_len());
        let values = Shape::new(n_values, terms.width);
        let (expected, result) = match self.result {
            RelationResult::Value => ([sources, relations], values),
            RelationResult::SourceGradient => ([relations, values], sources),
            RelationResult::RelationGradient => ([sources, values], relations),
        };
        match operands == expected {
            true => Ok(result),
            false => Err(format!("{} and {} are expected", expected[0], expected[1])),
        }
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let operands: [&Buffer; 2] = [run.operands[0].values, run.operands[1].values];
        let (terms, result, out) = (self.terms, self.result, &mut *run.out.values);
        let device = run.comm.device();
        Ok(self.map.compute(device, terms, result, operands, out)?)
    }

    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        if self.result != RelationResult::Value {
            return Err(Error::NoAdjoint(self.name()));
        }
        let [x, table] = [at.operands[0], at.operands[1]];
        let of = [
            (RelationResult::SourceGradient, [table, at.dy]),
            (RelationResult::RelationGradient, [x, at.dy]),
        ];
        let mut gradients = Vec::new();
        for (operand, (result, operands)) in of.into_iter().enumerate() {
            let (map, terms) = (Arc::clone(&self.map), self.terms);
            let gradient = RelationOperation { map, terms, result };
            gradients.push(match at.wants(operand) {
                true => Some(ctx.apply(Arc::new(gradient), &operands)?),
                false => None,
            });
        }
        Ok(gradients)
    }
}

/// The messages of a layer.
impl RelationMap for PairLists {
    const NAME: &'static str = "relation_messages";

    fn n_rows(&self) -> [usize; 3] {
        [self.n_sources, self.n_relations, self.n_pairs]
    }

    fn compute(
        &self,
        device: &Device,
        terms: Terms,
        result: RelationResult,
        [a, b]: [&Buffer; 2],
        out: &mut Buffer,
    ) -> Result<(), device::Error> {
        match result {
            RelationResult::Value => self.messages(device, terms, a, b, out),
            RelationResult::SourceGradient => self.source_gradient(device, terms, a, b, out),
            RelationResult::RelationGradient => self.relation_gradient(device, terms, a, b, out),
        }
    }
}
