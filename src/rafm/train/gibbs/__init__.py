"""Training by Gibbs sampling: the engine, runs of sweeps, and the distillation of samples into one model."""
