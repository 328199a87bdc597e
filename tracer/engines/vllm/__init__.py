"""Engine ``vllm``: vLLM's server over HTTP, attached or launched."""
