#!/usr/bin/env bash
# The script of lesson 6 on two machines with eight GPUs each, sixteen processes.
# NOT RUN by this course, which has one machine: its tests only parse this file.
# Give the command on every machine, with the same script and the same files there.
#
#     HEAD=10.0.0.1 bash configs/torchrun_nodes.sh train.py
#
# Effective batch: micro-batch x accumulation steps x 16.
set -eu                               # stop at the first error, and at an unset name

options=(
  --nnodes=2                          # machines that take part
  --nproc_per_node=8                  # processes on each, one a GPU
  --rdzv_backend=c10d                 # how they find each other: a store of torch's own
  --rdzv_endpoint="$HEAD:29500"       # address and free port of one of the machines
  --rdzv_id=lesson6                   # the same word for all processes of this run
  --max_restarts=0                    # a process that fails ends the run
)

export OMP_NUM_THREADS=1              # threads of each process on the CPU
export NCCL_DEBUG=WARN                # say why the GPUs cannot reach each other

python -m torch.distributed.run "${options[@]}" "$@"  # the script comes last
