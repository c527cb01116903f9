//! What a dueling double DQN is built of.

#[path = "../benches/dqn/mod.rs"]
mod dqn;

use dqn::Dqn;

#[test]
fn a_dueling_double_dqn_has_so_many_parts() {
    let dqn = Dqn::build().unwrap();
    let scopes: Vec<&str> = dqn.params.ids().map(|id| dqn.params.name(id)).collect();
    assert_eq!(scopes.len(), 2 * 5 * 2, "{scopes:?}"); // two networks of five layers
    assert_eq!(dqn.capacity(), 10_000);
    let plan = dqn.plan().unwrap();
    assert_eq!((plan.n_recorded(), plan.n_steps()), (113, 111));
}
