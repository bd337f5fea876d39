"""How networks are trained on samples and annotations: what learners and ways to defer share. Needs PyTorch."""
