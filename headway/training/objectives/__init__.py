"""What is asked of a model: one function per task, from the tensors of a batch to sums of losses."""
