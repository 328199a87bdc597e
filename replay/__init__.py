"""Writing more arms and comparing them: prompts, lockstep, divergence, experiments."""
