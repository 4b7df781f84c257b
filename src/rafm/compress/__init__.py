"""Make a trained model smaller: rotate its vectors to principal axes, choose the length of each, and cut."""
