"""The page's replacement of parts of Llama computes what torch does, and keeps the model whole for the compiler."""

import copy
import importlib
import re

import pytest
from paths import ROOT
from skips import needed

torch = needed("torch", "torch")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}


@pytest.fixture
def llama():
    """The layers, in a module that is loaded again after each test, because tests replace its methods."""
    module = importlib.import_module("benchmarks.llama")
    yield module
    importlib.reload(module)


def use_numbacc(llama):
    """Run the code of `docs/torch.md`."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "torch.md").read_text(), re.DOTALL | re.MULTILINE)
    (code,) = [each for each in blocks if "def use_numbacc" in each]
    assert len([line for line in code.splitlines() if line]) <= 20
    space = {}
    exec(code, space)
    space["use_numbacc"](llama)


def run(layer, x, embeddings):
    x = x.detach().requires_grad_()
    y = layer(x, embeddings)
    y.square().mean().backward()
    return [y, x.grad, *(p.grad for p in layer.parameters())]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("how", [None, "aot_eager", "inductor"])
def test_a_layer_of_llama(llama, how, device):
    torch.manual_seed(2)
    config = llama.Config(**SIZES)
    layer = llama.LlamaDecoderLayer(config).to(device)
    x = torch.randn(2, 10, config.hidden_size, device=device)
    embeddings = llama.position_embeddings(config, 2, 10, x)
    wanted = run(copy.deepcopy(layer), x, embeddings)
    use_numbacc(llama)
    layer.self_attn.config = config._replace(attn_implementation="numbacc")
    if how:
        torch.compiler.reset()
        layer = torch.compile(layer, fullgraph=True, backend=how)
    for one, other in zip(run(layer, x, embeddings), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
