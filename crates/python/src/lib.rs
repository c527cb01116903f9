//! The native module `shardgraph._shardgraph`: arrays in, one library call without the GIL, arrays out.
//!
//! The Python files in `python/shardgraph` check types and give names; this crate holds what has to be compiled.
#![forbid(unsafe_code)]

mod brkga;
mod errors;
mod graph;
mod gym;
mod job;
mod line;
mod place;
mod rgcn;
mod solve;
mod train;

use pyo3::prelude::*;

#[pymodule]
fn _shardgraph(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<graph::NativeGraph>()?;
    module.add_function(wrap_pyfunction!(solve::solve, module)?)?;
    module.add_function(wrap_pyfunction!(solve::evaluate, module)?)?;
    module.add_function(wrap_pyfunction!(brkga::minimize, module)?)?;
    module.add_function(wrap_pyfunction!(line::embed, module)?)?;
    module.add_class::<rgcn::NativeTriples>()?;
    module.add_class::<place::NativeCostGraph>()?;
    module.add_function(wrap_pyfunction!(place::plan, module)?)?;
    module.add_class::<gym::NativeCartPoles>()?;
    module.add_class::<gym::NativeEpisode>()?;
    module.add_function(wrap_pyfunction!(train::train, module)?)?;
    Ok(())
}
