//! The native module `shardgraph._shardgraph`: arrays in, one library call without the GIL, arrays out.
//!
//! The Python files in `python/shardgraph` check types and give names; this crate holds what has to be compiled.
#![forbid(unsafe_code)]

mod agents;
mod brkga;
mod command;
mod components;
mod errors;
mod graph;
mod gym;
mod job;
mod line;
mod place;
mod python_vector;
mod replay;
mod rgcn;
mod settings;
mod solve;
mod train;

use pyo3::prelude::*;

#[pymodule]
fn _shardgraph(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<graph::NativeGraph>()?;
    module.add_function(wrap_pyfunction!(solve::solve, module)?)?;
    module.add_function(wrap_pyfunction!(solve::check, module)?)?;
    module.add_function(wrap_pyfunction!(brkga::minimize, module)?)?;
    module.add_function(wrap_pyfunction!(line::embed, module)?)?;
    module.add_class::<rgcn::NativeTriples>()?;
    module.add_class::<rgcn::NativeLinks>()?;
    module.add_class::<place::NativeCostGraph>()?;
    module.add_function(wrap_pyfunction!(place::plan, module)?)?;
    module.add_class::<gym::NativeVector>()?;
    module.add_class::<gym::NativeCartPole>()?;
    module.add_function(wrap_pyfunction!(gym::environments, module)?)?;
    module.add_class::<agents::NativeAgent>()?;
    module.add_function(wrap_pyfunction!(agents::train_agent, module)?)?;
    module.add_function(wrap_pyfunction!(agents::agent_settings, module)?)?;
    module.add_class::<components::NativeNetwork>()?;
    module.add_class::<replay::NativeReplay>()?;
    module.add_function(wrap_pyfunction!(command::run_command, module)?)?;
    module.add_function(wrap_pyfunction!(train::train, module)?)?;
    Ok(())
}
