"""The modules of ``torch.nn``: each is a function of its input and of its parameters.

A line has the modules and the operation that they call, then their own tensors: unknown unless the call gives them.
"""

from __future__ import annotations

from typing import Final

MODULES: Final = """
Identity: clone
Linear LazyLinear: linear weight bias
Bilinear: bilinear weight bias
Conv1d LazyConv1d: conv1d weight bias
Conv2d LazyConv2d: conv2d weight bias
Conv3d LazyConv3d: conv3d weight bias
ConvTranspose1d LazyConvTranspose1d: conv_transpose1d weight bias
ConvTranspose2d LazyConvTranspose2d: conv_transpose2d weight bias
ConvTranspose3d LazyConvTranspose3d: conv_transpose3d weight bias
Embedding: embedding weight
EmbeddingBag: embedding_bag weight
LayerNorm: layer_norm weight bias
RMSNorm: rms_norm weight
GroupNorm: group_norm weight bias
BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d: layer_norm weight bias
InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d
LazyInstanceNorm3d: layer_norm weight bias
LocalResponseNorm CrossMapLRN2d: local_response_norm
ReLU: relu
ReLU6: relu6
GELU: gelu
SiLU: silu
Mish: mish
ELU: elu
SELU: selu
CELU: celu
Softplus: softplus
LeakyReLU: leaky_relu
PReLU: prelu weight
RReLU: dropout
Hardswish: hardswish
Hardsigmoid: hardsigmoid
Hardtanh: hardtanh
Hardshrink: hardshrink
Softshrink: softshrink
Tanhshrink: tanhshrink
Softsign: softsign
LogSigmoid: logsigmoid
Threshold: threshold
Sigmoid: sigmoid
Tanh: tanh
GLU: glu
Softmax Softmax2d: softmax
LogSoftmax: log_softmax
Softmin: softmin
AdaptiveLogSoftmaxWithLoss: multi_head_attention_forward weight
Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout: dropout
AvgPool1d: avg_pool1d
AvgPool2d: avg_pool2d
AvgPool3d: avg_pool3d
AdaptiveAvgPool1d: adaptive_avg_pool1d
AdaptiveAvgPool2d: adaptive_avg_pool2d
AdaptiveAvgPool3d: adaptive_avg_pool3d
MaxPool1d: max_pool1d
MaxPool2d: max_pool2d
MaxPool3d: max_pool3d
AdaptiveMaxPool1d: adaptive_max_pool1d
AdaptiveMaxPool2d: adaptive_max_pool2d
AdaptiveMaxPool3d: adaptive_max_pool3d
FractionalMaxPool2d: fractional_max_pool2d
FractionalMaxPool3d: fractional_max_pool3d
LPPool1d: lp_pool1d
LPPool2d: lp_pool2d
LPPool3d: lp_pool3d
MaxUnpool1d: max_unpool1d
MaxUnpool2d: max_unpool2d
MaxUnpool3d: max_unpool3d
Upsample UpsamplingBilinear2d UpsamplingNearest2d: interpolate
PixelShuffle: pixel_shuffle
PixelUnshuffle: pixel_unshuffle
ChannelShuffle: channel_shuffle
Flatten: flatten
Unflatten: unflatten
Fold: fold
Unfold: unfold
ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d CircularPad1d
CircularPad2d CircularPad3d ZeroPad1d ZeroPad2d ZeroPad3d: fold
ConstantPad1d ConstantPad2d ConstantPad3d: constant_pad
CosineSimilarity: cosine_similarity
PairwiseDistance: pairwise_distance
CrossEntropyLoss: cross_entropy
LinearCrossEntropyLoss: linear_cross_entropy linear_weight linear_bias
NLLLoss NLLLoss2d: nll_loss
CTCLoss: ctc_loss
MSELoss: mse_loss
L1Loss: l1_loss
SmoothL1Loss: smooth_l1_loss
HuberLoss: huber_loss
BCELoss: binary_cross_entropy
BCEWithLogitsLoss: binary_cross_entropy_with_logits
KLDivLoss: kl_div
PoissonNLLLoss: poisson_nll_loss
GaussianNLLLoss: gaussian_nll_loss
HingeEmbeddingLoss: hinge_embedding_loss
MarginRankingLoss: margin_ranking_loss
CosineEmbeddingLoss: cosine_embedding_loss
MultiMarginLoss: multi_margin_loss
MultiLabelMarginLoss: multilabel_margin_loss
MultiLabelSoftMarginLoss: multilabel_soft_margin_loss
SoftMarginLoss: soft_margin_loss
TripletMarginLoss: triplet_margin_loss
TripletMarginWithDistanceLoss: triplet_margin_with_distance_loss
MultiheadAttention: multi_head_attention_forward weight
RNN LSTM GRU RNNCell LSTMCell GRUCell: lstm weight
Transformer TransformerEncoder TransformerDecoder TransformerEncoderLayer
TransformerDecoderLayer: multi_head_attention_forward weight
SyncBatchNorm: empty
"""

# Forward's parameter where its name is not the function's.
RENAMED: Final = {
    "RMSNorm": (("x", "input"),),
    "PoissonNLLLoss": (("log_input", "input"),),
}
