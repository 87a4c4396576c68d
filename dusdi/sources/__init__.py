"""Sources of reward: what a component of a skill is paid for. Methods are made of them."""
