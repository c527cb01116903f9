//! Tests of the agent with a policy: what does not fit it, what it remembers, and how it draws.

use shardgraph_random::KeyedRng;

use super::PolicyAgent;
use crate::agent::Agent;
use crate::config::AgentConfig;
use crate::error::Error;
use crate::observations::{ActionBuffer, Seen};
use crate::run_options::RunOptions;

fn policy_agent(network: &str) -> PolicyAgent {
    let text = format!(
        "environment = {{ name = 'cartpole' }}\nalgorithm = {{ name = 'impala', network = {network} }}"
    );
    let config = AgentConfig::from_toml(&text).unwrap();
    PolicyAgent::of_config(&config, &RunOptions::default()).unwrap()
}

#[test]
fn what_does_not_fit_a_policy_is_named() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("w.safetensors");
    let mut agent = policy_agent("{ hidden = [16] }");
    let said = |result: Result<(), Error>| result.unwrap_err().to_string();
    let mut actions = ActionBuffer::default();
    let broken = [0.0, f32::NAN, 0.0, 0.0];
    let message = said(agent.act_greedily(Seen::from(&broken), &mut actions));
    let expected = "PolicyAgent::act: element 1 of the observation of environment 0: expected a finite number, given NaN";
    assert_eq!(message, expected);
    let message = said(agent.act_greedily(Seen::from(&[0.0; 3]), &mut actions));
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
        &RunOptions::default(),
    )
    .unwrap_err();
    let expected = "agent settings: `algorithm.name`: expected impala, ppo or reinforce, given dqn";
    assert_eq!(error.to_string(), expected);
}

/// With a memory actions follow from all that was seen since the episodes began, and from nothing before.
#[test]
fn a_policy_remembers_its_episode() {
    let mut agent = policy_agent("{ hidden = [8], lstm = 6 }");
    // Large weights, so that what is remembered tells.
    let weights: Vec<f32> = agent.weights().iter().map(|w| 40.0 * w).collect();
    agent.set_weights(&weights).unwrap();
    let mut stream = KeyedRng::new(1, "test", 0);
    let seen: Vec<Vec<f32>> = (0..40)
        .map(|_| (0..4 * 64).map(|_| stream.normal() as f32).collect())
        .collect();
    let play = |agent: &mut PolicyAgent, from: usize| {
        agent.begin_episodes(64).unwrap();
        let mut act = |seen: &Vec<f32>| {
            let mut actions = ActionBuffer::default();
            agent
                .act_greedily(Seen::from(&seen[..]), &mut actions)
                .unwrap();
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
        let mut actions = ActionBuffer::default();
        let mut stream = KeyedRng::new(1, "test", index);
        agent.begin_episodes(4000).unwrap();
        agent
            .act_sampled(Seen::from(&[0.5; 4 * 4000]), &mut stream, &mut actions)
            .unwrap();
        match actions {
            ActionBuffer::Discrete(actions) => actions,
            ActionBuffer::Continuous(_) => panic!("a discrete policy"),
        }
    };
    let actions = draw(&mut agent, 0);
    let n_ones = actions.iter().filter(|&&action| action == 1).count();
    assert!((2850..3150).contains(&n_ones), "{n_ones} of 4000"); // three of four
    assert_eq!(draw(&mut agent, 0), actions);
    assert_ne!(draw(&mut agent, 1), actions);
}

/// As many observations as episodes began; a call that is refused begins none.
#[test]
fn another_number_of_observations_is_named() {
    let mut agent = policy_agent("{ hidden = [8] }");
    let mut actions = ActionBuffer::default();
    let mut said = |agent: &mut PolicyAgent, n_numbers: usize| {
        let zeros = vec![0.0; n_numbers];
        let error = agent.act_greedily(Seen::from(&zeros[..]), &mut actions);
        let error = error.unwrap_err();
        assert!(error.is_input(), "{error}");
        error.to_string()
    };
    let message = said(&mut agent, 6);
    assert!(
        message.ends_with("expected rows of 4, given 6 numbers"),
        "{message}"
    );
    let none =
        "PolicyAgent::begin_episodes: the number of environments: expected at least 1, given 0";
    assert_eq!(said(&mut agent, 0), none);
    assert_eq!(agent.begin_episodes(0).unwrap_err().to_string(), none);
    agent
        .act_greedily(Seen::from(&[0.0; 8]), &mut ActionBuffer::default())
        .unwrap(); // two of them, though 6 numbers were refused
    let message = |n: usize| {
        format!(
            "PolicyAgent::act: the number of observations: expected 2, as episodes began, given {n}"
        )
    };
    for n in [0, 1, 3] {
        assert_eq!(said(&mut agent, 4 * n), message(n));
    }
    agent
        .act_greedily(Seen::from(&[0.0; 8]), &mut ActionBuffer::default())
        .unwrap();
    agent.begin_episodes(3).unwrap();
    agent
        .act_greedily(Seen::from(&[0.0; 12]), &mut ActionBuffer::default())
        .unwrap();
}

/// The memory of an environment whose episode has ended is that of one that begins; the others keep theirs.
#[test]
fn an_episode_ends_for_one_environment_alone() {
    let mut agent = policy_agent("{ hidden = [8], lstm = 6 }");
    let message = agent.end_episode(0).unwrap_err().to_string();
    let expected = "PolicyAgent::end_episode: the environment: expected below 0, given 0";
    assert_eq!(message, expected);
    let weights: Vec<f32> = agent.weights().iter().map(|w| 40.0 * w).collect();
    agent.set_weights(&weights).unwrap();
    let mut stream = KeyedRng::new(1, "test", 0);
    let seen: Vec<Vec<f32>> = (0..40)
        .map(|_| (0..4 * 64).map(|_| stream.normal() as f32).collect())
        .collect();
    let play = |agent: &mut PolicyAgent, from: usize, ended_at_20: &[usize]| {
        agent.begin_episodes(64).unwrap();
        let mut say = |(step, seen): (usize, &Vec<f32>)| -> Vec<u32> {
            if step == 20 {
                let ended = ended_at_20.iter();
                ended.for_each(|&idx| agent.end_episode(idx).unwrap());
            }
            let logits = agent.logits(Seen::from(&seen[..])).unwrap().logits;
            logits.iter().map(|x| x.to_bits()).collect()
        };
        let steps = seen.iter().enumerate().skip(from);
        steps.map(&mut say).collect::<Vec<_>>()
    };
    let (whole, late) = (play(&mut agent, 0, &[]), play(&mut agent, 20, &[]));
    let even: Vec<usize> = (0..64).step_by(2).collect();
    let mixed = play(&mut agent, 0, &even);
    let of = |steps: &[Vec<u32>], first: usize| -> Vec<u32> {
        let rows = steps
            .iter()
            .flat_map(|step| step.chunks(2).skip(first).step_by(2));
        rows.flatten().copied().collect()
    };
    assert_eq!(mixed[..20], whole[..20]);
    assert_eq!(of(&mixed[20..], 0), of(&late, 0));
    assert_eq!(of(&mixed[20..], 1), of(&whole[20..], 1));
    assert_ne!(of(&late, 0), of(&whole[20..], 0), "the first steps count");
    assert!(agent.end_episode(64).is_err());
}

/// A run on the device that failed has dropped the weights there: the next one takes them again.
#[test]
fn a_policy_acts_again_after_a_run_that_failed() {
    let mut agent = policy_agent("{ hidden = [8] }");
    let act = |agent: &mut PolicyAgent| {
        let mut actions = ActionBuffer::default();
        let acted = agent.act_greedily(Seen::from(&[0.1, -0.2, 0.3, -0.4]), &mut actions);
        acted.map(|()| actions)
    };
    let expected = act(&mut agent).unwrap();
    let device = agent.device.clone();
    let episodes = agent.episodes.as_mut().unwrap();
    episodes.program.drop_weights(&device);
    assert!(act(&mut agent).is_err());
    assert_eq!(act(&mut agent).unwrap(), expected);
}
