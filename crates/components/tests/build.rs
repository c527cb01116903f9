//! What a dueling double DQN is built of.

#[path = "../benches/dqn/mod.rs"]
mod dqn;

use dqn::{Dqn, cartpole, of_43_components};

#[test]
fn a_dueling_double_dqn_has_so_many_parts() {
    let dqn = Dqn::build(&cartpole()).unwrap();
    let scopes: Vec<&str> = dqn.params.ids().map(|id| dqn.params.name(id)).collect();
    assert_eq!(scopes.len(), 2 * 5 * 2, "{scopes:?}"); // two networks of five layers
    assert_eq!(dqn.size(), (10_000, 2, 0, 1.0));
    dqn.check_shapes().unwrap();
    let plan = dqn.plan().unwrap();
    assert_eq!((plan.n_recorded(), plan.n_steps()), (113, 111));
}

/// RLgraph builds 43 components for its dueling DQN with prioritised replay.
#[test]
fn the_deeper_one_has_as_many_components_as_the_papers() {
    let dqn = Dqn::build(&of_43_components()).unwrap();
    assert_eq!(dqn.n_components(), 43);
    dqn.check_shapes().unwrap();
    assert!(dqn.plan().unwrap().n_recorded() > 200);
}
