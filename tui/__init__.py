"""The screen. It presents; it computes nothing of its own."""
