"""Running a model's own code in float64, where that code asks for shorter types here and there."""
import torch
from torch.overrides import TorchFunctionMode


def attention_of(config):
    """The path of transformers' attention that is the model.  For Falcon with ALiBi that is sdpa: the eager one of
    transformers 5 adds the bias twice, in the mask and to the scores (modeling_falcon.py)."""
    return "sdpa" if config.model_type == "falcon" and config.alibi else "eager"


class DoublePrecision(TorchFunctionMode):
    """Every float32 or shorter type that the reference asks for becomes float64, inside its code too."""

    WIDENED = {torch.float32, torch.float16, torch.bfloat16}
    CALLS = {torch.Tensor.float, torch.Tensor.bfloat16, torch.Tensor.half}

    def widen(self, value):
        return torch.float64 if isinstance(value, torch.dtype) and value in self.WIDENED else value

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in self.CALLS:
            function = torch.Tensor.double
        result = function(*map(self.widen, args), **{k: self.widen(v) for k, v in (kwargs or {}).items()})
        if isinstance(result, torch.Tensor) and result.dtype in self.WIDENED:
            raise TypeError(f"{function}: a result in {result.dtype}")
        return result

    def __enter__(self):
        torch.set_default_dtype(torch.float64)
        return super().__enter__()

    def __exit__(self, *error):
        torch.set_default_dtype(torch.float32)
        return super().__exit__(*error)
