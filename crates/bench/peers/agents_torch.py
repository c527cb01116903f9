"""PPO and DQN on cart and pole in PyTorch, and vectors of environments: peers of rlgraph/ppo, rlgraph/dqn and rlgraph/steps.

The request is one JSON object. `task = "learn"`: `peer` is `loop`, which is a loop as CleanRL's ppo.py and dqn.py have it with the
given hyper-parameters on Gymnasium's vectorised environments, or `stable-baselines3`, whose class takes them. `task = "steps"`: random
actions in the vectors of Gymnasium and of EnvPool.

Prints one JSON object a row, as the figure's own measure does, or SKIPPED: with the reason where a package is not installed.
"""

import json
import sys
import time
from collections import deque

import numpy as np


def skip(why):
    print(f"SKIPPED:not run: {why}", flush=True)
    sys.exit(0)


class Goal:
    """The mean return, and when it first came to the goal: of the last 100 episodes, or of greedy ones each so many steps."""

    def __init__(self, goal, evaluation=None):
        self.goal, self.returns, self.reached = goal, deque(maxlen=100), None
        self.n_episodes, self.begin = 0, time.perf_counter()
        self.evaluation, self.greedy = evaluation, None

    def is_over(self, step, seed, act):
        """Plays greedy episodes where they are due, outside of the time; whether they came to the goal."""
        if self.evaluation is None or step % self.evaluation["every"]:
            return False
        begin, n = time.perf_counter(), self.evaluation["episodes"]
        envs, seen = vector(n, seed + 1000)
        returns, alive = np.zeros(n), np.ones(n, bool)
        while alive.any():
            seen, reward, terminated, truncated, _ = envs.step(act(seen))
            returns += reward * alive
            alive &= ~(terminated | truncated)
        self.greedy = float(returns.mean())
        self.begin += time.perf_counter() - begin
        if self.greedy >= self.goal:
            self.reached = (step, time.perf_counter() - self.begin)
        return self.reached is not None

    def ended(self, episodic_return, step):
        self.returns.append(episodic_return)
        self.n_episodes += 1
        if self.evaluation is None and self.reached is None and self.mean() >= self.goal:
            self.reached = (step, time.perf_counter() - self.begin)

    def mean(self):
        if self.evaluation is not None:
            return self.greedy
        return float(np.mean(self.returns)) if self.returns else 0.0

    def row(self, peer, seed, n_steps):
        seconds = time.perf_counter() - self.begin
        steps, to_goal = self.reached or (None, None)
        return {
            "what": peer, "peer_seed": seed, "mean_return": self.mean(), "episodes": self.n_episodes, "seconds": seconds,
            "frames_per_s": n_steps / seconds, "steps_to_goal": steps, "seconds_to_goal": to_goal,
        }


def layers(torch, widths, last_gain):
    """Linear layers with tanh between, orthogonal as CleanRL has them."""
    parts = []
    for i, (n_in, n_out) in enumerate(zip(widths, widths[1:])):
        layer = torch.nn.Linear(n_in, n_out)
        is_last = i + 2 == len(widths)
        torch.nn.init.orthogonal_(layer.weight, last_gain if is_last else 2 ** 0.5)
        torch.nn.init.zeros_(layer.bias)
        parts += [layer] if is_last else [layer, torch.nn.Tanh()]
    return torch.nn.Sequential(*parts)


def vector(n, seed):
    import gymnasium

    same_step = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
    envs = gymnasium.make_vec("CartPole-v1", num_envs=n, vectorization_mode="sync", vector_kwargs=same_step)
    return envs, envs.reset(seed=seed)[0]


def ppo_loop(torch, h, seed, tracked):
    """CleanRL's ppo.py: GAE, clipped surrogate, annealed step size, minibatches."""
    torch.manual_seed(seed)
    rng, n, t_max = np.random.default_rng(seed), h["n_environments"], h["rollout_steps"]
    envs, seen = vector(n, seed)
    actor = layers(torch, [4, *h["hidden"], 2], 0.01)
    critic = layers(torch, [4, *h["hidden"], 1], 1.0)
    params = [*actor.parameters(), *critic.parameters()]
    optimiser = torch.optim.Adam(params, lr=h["learning_rate"], eps=1e-5)
    returns, n_updates = np.zeros(n), h["steps"] // (n * t_max)
    shape = (t_max, n)
    observations = torch.zeros(*shape, 4)
    actions, log_probs, rewards, dones, values = (torch.zeros(shape) for _ in range(5))
    step = 0
    for update in range(n_updates):
        for group in optimiser.param_groups:
            group["lr"] = h["learning_rate"] * (1 - update / n_updates)
        for t in range(t_max):
            observations[t] = torch.from_numpy(seen)
            with torch.no_grad():
                distribution = torch.distributions.Categorical(logits=actor(observations[t]))
                action = distribution.sample()
                values[t], log_probs[t] = critic(observations[t]).flatten(), distribution.log_prob(action)
            seen, reward, terminated, truncated, _ = envs.step(action.numpy())
            done = terminated | truncated
            actions[t], rewards[t] = action, torch.from_numpy(reward.astype(np.float32))
            dones[t] = torch.from_numpy(done.astype(np.float32))
            step += n
            returns += reward
            for i in np.flatnonzero(done):
                tracked.ended(returns[i], step)
                returns[i] = 0
        with torch.no_grad():
            advantages, last, after = torch.zeros(shape), 0, critic(torch.from_numpy(seen)).flatten()
            for t in reversed(range(t_max)):
                alive = 1 - dones[t]
                delta = rewards[t] + h["gamma"] * after * alive - values[t]
                advantages[t] = last = delta + h["gamma"] * h["gae_lambda"] * alive * last
                after = values[t]
            targets = advantages + values
        flat = [x.reshape(t_max * n, *x.shape[2:]) for x in (observations, actions, log_probs, advantages, targets)]
        for _ in range(h["n_epochs"]):
            for rows in np.array_split(rng.permutation(t_max * n), h["n_minibatches"]):
                o, a, old, gain, target = (x[rows] for x in flat)
                distribution = torch.distributions.Categorical(logits=actor(o))
                ratio = (distribution.log_prob(a) - old).exp()
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                surrogate = torch.max(-gain * ratio, -gain * ratio.clamp(0.8, 1.2)).mean()
                loss = surrogate + 0.25 * (critic(o).flatten() - target).pow(2).mean()
                loss = loss - h["entropy_coefficient"] * distribution.entropy().mean()
                optimiser.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(params, 0.5)
                optimiser.step()
    return step


def dqn_loop(torch, h, seed, tracked):
    """CleanRL's dqn.py: one environment, uniform replay, hard target copies."""
    import gymnasium

    torch.manual_seed(seed)
    rng, env = np.random.default_rng(seed), gymnasium.make("CartPole-v1")
    make = lambda: torch.nn.Sequential(
        torch.nn.Linear(4, h["hidden"][0]), torch.nn.ReLU(), torch.nn.Linear(h["hidden"][0], h["hidden"][1]),
        torch.nn.ReLU(), torch.nn.Linear(h["hidden"][1], 2))
    online, target = make(), make()
    target.load_state_dict(online.state_dict())
    optimiser = torch.optim.Adam(online.parameters(), lr=h["learning_rate"])
    capacity = h["capacity"]
    memory = [np.zeros((capacity, 4), np.float32), np.zeros(capacity, np.int64), np.zeros(capacity, np.float32),
              np.zeros((capacity, 4), np.float32), np.zeros(capacity, np.float32)]
    seen, episodic_return = env.reset(seed=seed)[0], 0.0

    def greedy(seen):
        with torch.no_grad():
            return online(torch.from_numpy(seen)).argmax(1).numpy()

    for step in range(1, h["steps"] + 1):
        fraction = min(1.0, step / (h["exploration_fraction"] * h["steps"]))
        epsilon = 1.0 + fraction * (h["epsilon_end"] - 1.0)
        if rng.random() < epsilon:
            action = int(rng.integers(2))
        else:
            with torch.no_grad():
                action = int(online(torch.from_numpy(seen)).argmax())
        after, reward, terminated, truncated, _ = env.step(action)
        for column, value in zip(memory, (seen, action, reward, after, float(terminated))):
            column[(step - 1) % capacity] = value
        seen, episodic_return = after, episodic_return + reward
        if terminated or truncated:
            tracked.ended(episodic_return, step)
            seen, episodic_return = env.reset()[0], 0.0
        if step >= h["learning_starts"] and step % h["train_every"] == 0:
            rows = rng.integers(0, min(step, capacity), h["batch_size"])
            o, a, r, o2, d = (torch.from_numpy(column[rows]) for column in memory)
            with torch.no_grad():
                y = r + h["gamma"] * target(o2).max(1).values * (1 - d)
            q = online(o).gather(1, a[:, None]).flatten()
            loss = torch.nn.functional.mse_loss(q, y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        if step % h["target_sync_steps"] == 0:
            target.load_state_dict(online.state_dict())
        if tracked.is_over(step, seed, greedy):
            break
    return step


def sb3(torch, algorithm, h, seed, tracked):
    """The class of stable-baselines3 with the hyper-parameters of its model zoo, which the request brings."""
    import stable_baselines3 as library
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    class Watch(BaseCallback):
        def _on_step(self):
            for info in self.locals["infos"]:
                if "episode" in info:
                    tracked.ended(info["episode"]["r"], self.num_timesteps)
            greedy = lambda seen: self.model.predict(seen, deterministic=True)[0]
            return not tracked.is_over(self.num_timesteps, seed, greedy)

    settings = dict(h["sb3"])
    hidden = settings.pop("net_arch", None)
    for name in settings.pop("linear", []):
        first = settings[name]
        settings[name] = lambda left, first=first: left * first
    policy = {"net_arch": hidden} if hidden else {}
    envs = make_vec_env("CartPole-v1", n_envs=settings.pop("n_envs", 1), seed=seed)
    model = {"ppo": library.PPO, "dqn": library.DQN}[algorithm](
        "MlpPolicy", envs, seed=seed, device="cpu", policy_kwargs=policy, **settings)
    tracked.begin = time.perf_counter()
    model.learn(total_timesteps=h["steps"], callback=Watch())
    return model.num_timesteps


def learn(request):
    try:
        import gymnasium
        import torch
    except ImportError as error:
        skip(f"{request['peer']}: {error}")
    torch.set_num_threads(request.get("threads", 1))
    algorithm, peer, h = request["algorithm"], request["peer"], request["settings"]
    name = {"loop": f"a loop as CleanRL's in PyTorch {torch.__version__}"}.get(peer)
    if peer == "stable-baselines3":
        try:
            import stable_baselines3
        except ImportError as error:
            skip(f"{peer}: {error}")
        name = f"{peer} {stable_baselines3.__version__}, PyTorch {torch.__version__}"
    n_reached = 0
    seeds = range(request["first_seed"], request["first_seed"] + request["seeds"])
    for seed in seeds:
        tracked = Goal(request["goal"], request.get("evaluation"))
        if peer == "stable-baselines3":
            n_steps = sb3(torch, algorithm, h, seed, tracked)
        else:
            n_steps = {"ppo": ppo_loop, "dqn": dqn_loop}[algorithm](torch, h, seed, tracked)
        n_reached += tracked.reached is not None
        print(json.dumps(tracked.row(name, seed, n_steps)), flush=True)
    row = {"what": f"{name}: seeds that came to {request['goal']}", "reached": n_reached, "seeds": len(seeds)}
    print(json.dumps(row), flush=True)


def timed(step, n, request):
    rates = []
    for run in range(request["runs"] + 1):
        n_steps, begin = max(1, request["steps"] // n), time.perf_counter()
        for t in range(n_steps):
            step(t)
        if run > 0:  # the first warms caches up
            rates.append(n * n_steps / (time.perf_counter() - begin))
    return rates


def steps(request):
    rng = np.random.default_rng(1)
    for n in request["environments"]:
        actions = rng.integers(0, 2, (64, n))
        try:
            import gymnasium
            from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

            envs = CartPoleVectorEnv(num_envs=n)
            envs.reset(seed=1)
            rates = timed(lambda t: envs.step(actions[t % 64]), n, request)
            name = f"cartpole, Gymnasium {gymnasium.__version__} (NumPy)"
            print(json.dumps({"environment": name, "environments": n, "threads": 1, "steps_per_s": rates}), flush=True)
        except ImportError as error:
            print(f"SKIPPED:not run: Gymnasium: {error}", flush=True)
        for threads in request["threads"]:
            try:
                import envpool
            except ImportError as error:
                print(f"SKIPPED:not run: EnvPool: {error}", flush=True)
                continue
            envs = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=n, num_threads=threads, seed=1)
            envs.reset()
            narrow = actions.astype(np.int32)
            rates = timed(lambda t: envs.step(narrow[t % 64]), n, request)
            name = f"cartpole, EnvPool {envpool.__version__}"
            print(json.dumps({"environment": name, "environments": n, "threads": threads, "steps_per_s": rates}),
                  flush=True)


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    {"learn": learn, "steps": steps}[asked["task"]](asked)
