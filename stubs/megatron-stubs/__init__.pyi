# megatron is a namespace package; what is not here comes from the installed one.
