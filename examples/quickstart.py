import torch.nn.functional as F
from torch import nn

from spmd_runtime import DP, TP, I, P, Parameter, R, Tensor, V, all_reduce


class MLP(nn.Module):
    up: Parameter[V[TP]]  # its rows are split over the tensor-parallel ranks
    down: Parameter[V[TP]]  # and its columns
    bias: Parameter[I[TP]]  # every rank has the same one

    def forward(self, x: Tensor[V[DP], I[TP]]) -> Tensor[V[DP], I[TP]]:
        h = F.gelu(F.linear(x, self.up))
        y: Tensor[V[DP], P[TP]] = F.linear(h, self.down)
        return all_reduce(y + self.bias, TP, src=P, dst=I)


def loss(y: Tensor[V[DP], I[TP]], target: Tensor[V[DP], I[TP]]) -> Tensor[R[DP], I[TP]]:
    total: Tensor[P[DP], I[TP]] = F.mse_loss(y, target, reduction="sum")
    return all_reduce(total.sqrt(), DP, src=P, dst=R)
