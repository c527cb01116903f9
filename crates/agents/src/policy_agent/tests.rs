//! Tests of the agent with a policy: what does not fit it, what it remembers, and how it draws.

use shardgraph_device::Device;
use shardgraph_graph::random::Stream;

use super::PolicyAgent;
use crate::agent::Agent;
use crate::config::AgentConfig;
use crate::error::Error;

fn policy_agent(network: &str) -> PolicyAgent {
    let text = format!(
        "environment = {{ name = 'cartpole' }}\nalgorithm = {{ name = 'impala', network = {network} }}"
    );
    let config = AgentConfig::from_toml(&text).unwrap();
    PolicyAgent::of_config(&config, &Device::host()).unwrap()
}

#[test]
fn what_does_not_fit_a_policy_is_named() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("w.safetensors");
    let mut agent = policy_agent("{ hidden = [16] }");
    let said = |result: Result<(), Error>| result.unwrap_err().to_string();
    let mut actions = Vec::new();
    let message = said(agent.act_greedily(&[0.0, f32::NAN, 0.0, 0.0], &mut actions));
    let expected = "PolicyAgent::act: element 1 of the observation of environment 0: expected a finite number, given NaN";
    assert_eq!(message, expected);
    let message = said(agent.act_greedily(&[0.0; 3], &mut actions));
    assert!(
        message.contains("expected rows of 4, given 3 numbers"),
        "{message}"
    );
    let n = agent.weights().len();
    let message = said(agent.set_weights(&[0.0]));
    let expected =
        format!("PolicyAgent::set_weights: the number of weights: expected {n}, given 1");
    assert_eq!(message, expected);
    let message = said(agent.set_weights(&vec![f32::INFINITY; n]));
    assert!(
        message.contains("weight 0: expected a finite number, given inf"),
        "{message}"
    );
    agent.export(&path).unwrap();
    let message = said(policy_agent("{ hidden = [17] }").import(&path));
    assert!(
        message.contains("w.safetensors: ") && message.contains("another network"),
        "{message}"
    );
    let mut other = policy_agent("{ hidden = [16] }");
    other.set_weights(&vec![0.5; n]).unwrap();
    other.import(&path).unwrap();
    assert_eq!(other.weights(), agent.weights());
    let error = PolicyAgent::of_config(
        &AgentConfig::named("cartpole-dqn").unwrap(),
        &Device::host(),
    )
    .unwrap_err();
    let expected = "agent settings: `algorithm.name`: expected impala or reinforce, given dqn";
    assert_eq!(error.to_string(), expected);
}

/// With a memory actions follow from all that was seen since the episodes began, and from nothing before.
#[test]
fn a_policy_remembers_its_episode() {
    let mut agent = policy_agent("{ hidden = [8], lstm = 6 }");
    // Large weights, so that what is remembered tells.
    let weights: Vec<f32> = agent.weights().iter().map(|w| 40.0 * w).collect();
    agent.set_weights(&weights).unwrap();
    let mut stream = Stream::new(1, "test", 0);
    let seen: Vec<Vec<f32>> = (0..40)
        .map(|_| (0..4 * 64).map(|_| stream.normal() as f32).collect())
        .collect();
    let play = |agent: &mut PolicyAgent, from: usize| {
        agent.begin_episodes(64).unwrap();
        let mut act = |seen: &Vec<f32>| {
            let mut actions = Vec::new();
            agent.act_greedily(seen, &mut actions).unwrap();
            actions
        };
        seen[from..].iter().map(&mut act).collect::<Vec<_>>()
    };
    let whole = play(&mut agent, 0);
    assert_eq!(
        play(&mut agent, 0),
        whole,
        "nothing is left of the episodes before"
    );
    assert_ne!(play(&mut agent, 20), whole[20..], "the first steps count");
}

/// Drawn actions come as often as the policy says; equal streams give equal ones.
#[test]
fn a_policy_draws_its_actions() {
    let mut agent = policy_agent("{ hidden = [] }");
    let n = agent.weights().len();
    // Only the biases of the policy count: [4, 2] weights, then these two.
    let mut weights = vec![0.0; n];
    weights[9] = 3.0f32.ln();
    agent.set_weights(&weights).unwrap();
    let draw = |agent: &mut PolicyAgent, index: u64| {
        let mut actions = Vec::new();
        let mut stream = Stream::new(1, "test", index);
        agent.begin_episodes(4000).unwrap();
        agent
            .act(&[0.5; 4 * 4000], &mut stream, &mut actions)
            .unwrap();
        actions
    };
    let actions = draw(&mut agent, 0);
    let n_ones = actions.iter().filter(|&&action| action == 1).count();
    assert!((2850..3150).contains(&n_ones), "{n_ones} of 4000"); // three of four
    assert_eq!(draw(&mut agent, 0), actions);
    assert_ne!(draw(&mut agent, 1), actions);
}
