"""The screens: the trace, a prompt, the list of episodes, help, and small dialogues."""
