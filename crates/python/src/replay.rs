//! Replay memories, uniform and prioritised, over columns of numpy arrays.

use numpy::{IntoPyArray as _, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use shardgraph_random::KeyedRng;
use shardgraph_replay::{
    ColumnLayout, ElementKind, Error, ItemId, LeafRef, Prioritization, PrioritizedBatch,
    PrioritizedMemory, Rows, UniformMemory,
};

use crate::errors::{IntoPyErr, capacity};
use crate::job::detached;

enum Memory {
    Uniform(UniformMemory),
    Prioritized(PrioritizedMemory),
}

/// Columns of a block of rows, borrowed.
enum Column<'py> {
    F32(PyReadonlyArray1<'py, f32>),
    U32(PyReadonlyArray1<'py, u32>),
    U8(PyReadonlyArray1<'py, u8>),
}

/// A memory of rows; columns are flat arrays, row after row.
#[pyclass(module = "shardgraph._shardgraph")]
pub(crate) struct NativeReplay {
    memory: Memory,
    layout: ColumnLayout,
    rng: KeyedRng,
}

/// Flat columns, the rows' numbers and their importance weights.
type Batch<'py> = (
    Bound<'py, PyList>,
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<f32>>,
);

#[pymethods]
impl NativeReplay {
    /// Columns are names, kinds (f32, u32 or u8) and widths; without an alpha draws are uniform.
    #[new]
    fn new(
        py: Python<'_>,
        columns: Vec<(String, String, usize)>,
        capacity: usize,
        alpha: Option<f32>,
        seed: u64,
    ) -> PyResult<NativeReplay> {
        let mut parts = Vec::new();
        for (name, kind, width) in &columns {
            let kind = match kind.as_str() {
                "f32" => ElementKind::F32,
                "u32" => ElementKind::U32,
                "u8" => ElementKind::U8,
                other => {
                    let message = format!("column {name} of {other}: expected f32, u32 or u8");
                    return Err(PyTypeError::new_err(message));
                }
            };
            parts.push((name.as_str(), kind, *width));
        }
        let made = ColumnLayout::new(&parts).and_then(|layout| {
            let memory = match alpha {
                None => Memory::Uniform(UniformMemory::new(layout.clone(), capacity)?),
                Some(alpha) => {
                    let rule = Prioritization {
                        alpha,
                        ..Prioritization::default()
                    };
                    Memory::Prioritized(PrioritizedMemory::new(layout.clone(), capacity, rule)?)
                }
            };
            Ok((layout, memory))
        });
        let (layout, memory) = made.map_err(|error| error.into_py(py))?;
        Ok(NativeReplay {
            memory,
            layout,
            rng: KeyedRng::new(seed, "python replay", 0),
        })
    }

    fn __len__(&self) -> usize {
        match &self.memory {
            Memory::Uniform(memory) => memory.len(),
            Memory::Prioritized(memory) => memory.len(),
        }
    }

    /// Inserts rows in their order; their numbers.
    fn insert<'py>(
        &mut self,
        py: Python<'py>,
        n_rows: usize,
        columns: &Bound<'py, PyList>,
        td_errors: Option<PyReadonlyArray1<'py, f32>>,
    ) -> PyResult<Bound<'py, PyArray1<u64>>> {
        let block = self.block(n_rows, columns)?;
        let td_errors = td_errors.as_ref();
        let td_errors = td_errors.map(PyReadonlyArray1::as_slice).transpose()?;
        let memory = &mut self.memory;
        let first = detached(py, || match (memory, td_errors) {
            (Memory::Uniform(memory), _) => memory.insert_rows(&block),
            (Memory::Prioritized(memory), Some(errors)) => memory.insert_rows_with(&block, errors),
            (Memory::Prioritized(memory), None) => {
                let before = memory.n_inserted();
                for row in 0..n_rows {
                    let columns = 0..block.layout().columns().len();
                    let cells: Vec<LeafRef<'_>> = columns.map(|c| block.cell(c, row)).collect();
                    memory.insert(&cells)?;
                }
                Ok(ItemId(before))
            }
        })?;
        let ids = first.0..first.0 + n_rows as u64;
        Ok(ids.collect::<Vec<u64>>().into_pyarray(py))
    }

    /// Draws rows with replacement: columns, numbers and importance weights.
    fn sample<'py>(&mut self, py: Python<'py>, n_rows: usize, beta: f32) -> PyResult<Batch<'py>> {
        let (memory, rng, layout) = (&mut self.memory, &mut self.rng, &self.layout);
        let mut rows = Rows::new(layout.clone());
        let batch = detached(py, || {
            let mut batch = PrioritizedBatch::default();
            match memory {
                Memory::Uniform(memory) => {
                    memory.sample_into(n_rows, &mut |n| rng.below(n), &mut batch.ids)?;
                    memory.gather_into(&batch.ids, &mut rows)?;
                    batch.weights = vec![1.0; n_rows];
                }
                Memory::Prioritized(memory) => {
                    memory.sample_into(n_rows, beta, &mut || rng.uniform_f64(), &mut batch)?;
                    memory.gather_into(&batch.ids, &mut rows)?;
                }
            }
            Ok::<_, Error>(batch)
        })?;
        let columns = layout.columns().iter().enumerate();
        let columns = columns.map(|(idx, column)| match column.kind {
            ElementKind::F32 => PyArray1::from_slice(py, rows.f32s(idx)).into_any(),
            ElementKind::U32 => PyArray1::from_slice(py, rows.u32s(idx)).into_any(),
            ElementKind::U8 => PyArray1::from_slice(py, rows.u8s(idx)).into_any(),
        });
        let columns = PyList::new(py, columns.collect::<Vec<_>>())?;
        let ids: Vec<u64> = batch.ids.iter().map(|id| id.0).collect();
        Ok((
            columns,
            ids.into_pyarray(py),
            batch.weights.into_pyarray(py),
        ))
    }

    /// Gives rows the priorities of new TD errors; the number of rows that were still there.
    fn update(
        &mut self,
        py: Python<'_>,
        ids: PyReadonlyArray1<'_, u64>,
        td_errors: PyReadonlyArray1<'_, f32>,
    ) -> PyResult<usize> {
        let Memory::Prioritized(memory) = &mut self.memory else {
            let message = "a uniform memory has no priorities: make one with prioritized=True";
            return Err(PyValueError::new_err(message));
        };
        let ids: Vec<ItemId> = ids.as_slice()?.iter().map(|&id| ItemId(id)).collect();
        let td_errors = td_errors.as_slice()?;
        detached(py, || memory.update(&ids, td_errors))
    }
}

impl NativeReplay {
    /// Rows of flat columns.
    fn block(&self, n_rows: usize, columns: &Bound<'_, PyList>) -> PyResult<Rows> {
        let kinds = self.layout.columns();
        let mut arrays = Vec::new();
        for (column, array) in kinds.iter().zip(columns.iter()) {
            let (given, expected) = (array.len()?, n_rows * column.width);
            if given != expected {
                let name = &column.name;
                let message = format!("column {name} has {given} elements: expected {expected}");
                return Err(PyValueError::new_err(message));
            }
            arrays.push(match column.kind {
                ElementKind::F32 => Column::F32(array.extract()?),
                ElementKind::U32 => Column::U32(array.extract()?),
                ElementKind::U8 => Column::U8(array.extract()?),
            });
        }
        let mut rows = Rows::new(self.layout.clone());
        let mut cells = Vec::with_capacity(kinds.len());
        for row in 0..n_rows {
            cells.clear();
            for (column, array) in kinds.iter().zip(&arrays) {
                let range = row * column.width..(row + 1) * column.width;
                cells.push(match array {
                    Column::F32(array) => LeafRef::F32(&array.as_slice()?[range]),
                    Column::U32(array) => LeafRef::U32(&array.as_slice()?[range]),
                    Column::U8(array) => LeafRef::U8(&array.as_slice()?[range]),
                });
            }
            rows.push(&cells)
                .map_err(|error| error.into_py(columns.py()))?;
        }
        Ok(rows)
    }
}

impl IntoPyErr for Error {
    fn into_py(self, py: Python<'_>) -> PyErr {
        match self {
            Error::NoRoom { .. } => capacity(py, &self.to_string()),
            // Every other error is about an argument.
            _ => PyValueError::new_err(self.to_string()),
        }
    }
}
