"""``from_torch``: modules of every supported kind against PyTorch itself, sizes, refusals."""

import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import zenith
from tests.threads import in_threads
from zenith.errors import TraceError, UnsupportedError, ZenithError


class Mlp(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Structured(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("factor", torch.full((4,), 2.0), persistent=False)
        self.plain = torch.arange(4.0)

    def forward(self, x, tree, *, scale=1.0, flag=True):
        h = self.linear(x) * self.factor + self.plain + torch.tensor([1.0, 2.0, 3.0, 4.0])
        if flag:
            h = h * scale
        return {"h": h + tree["m"][0], "rest": (x.shape[0], None, 3, h.mean())}


class Branching(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] == 1 else x + 1 if x.shape[0] % 2 else x - 1


class Attention(nn.Module):
    def __init__(self, width=16, heads=4):
        super().__init__()
        self.project, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.project(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5).softmax(-1)
        return self.out((scores @ v).transpose(1, 2).reshape(b, t, d))


def compare(fast, module, *args, **kwargs):
    """Call both and compare values, types and structure."""
    with torch.no_grad():
        expected, found = module(*args, **kwargs), fast(*args, **kwargs)
    torch.testing.assert_close(found, expected)
    return found


@pytest.fixture
def mlp():
    torch.manual_seed(0)
    return Mlp().eval()


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_one_program_for_every_batch_size(mlp, backend):
    fast = zenith.from_torch(mlp, (torch.zeros(4, 16),), backend=backend)
    for n in (5, 1, 0, 7, 64, 1, 0, 2, 33):
        compare(fast, mlp, torch.randn(n, 16))
    info = fast.cache_info()
    assert (info.misses, info.hits) == (1, 8)


@pytest.mark.parametrize("example", [0, 1, 3])
def test_the_examples_size_does_not_matter(mlp, example):
    fast = zenith.from_torch(mlp, (torch.zeros(example, 16),), backend="reference")
    for n in (6, 2, 9):
        compare(fast, mlp, torch.randn(n, 16))
    assert fast.cache_info().misses == 1


def test_several_free_axes():
    module = nn.Sequential(nn.Linear(4, 4), nn.Softmax(dim=1))
    fast = zenith.from_torch(module, (torch.zeros(1, 1, 4),), backend="reference")
    for shape in ((2, 3, 4), (5, 2, 4), (1, 3, 4), (2, 1, 4), (1, 1, 4), (1, 7, 4)):
        compare(fast, module, torch.randn(shape))
    assert fast.cache_info().misses == 1


def test_choices_of_strides_inside_torch_are_no_guards():
    module = Attention()
    fast = zenith.from_torch(module, (torch.zeros(2, 3, 16),), backend="reference")
    for shape in ((2, 3), (5, 7), (3, 3), (4, 4), (16, 2), (2, 16), (8, 4)):
        compare(fast, module, torch.randn(*shape, 16))
    assert fast.cache_info().misses == 1


def test_sizes_that_the_module_fixes_are_constants(mlp):
    fast = zenith.from_torch(mlp, (torch.zeros(4, 16),), backend="reference")
    compare(fast, mlp, torch.randn(4, 16))
    assert str(fast.graph.inputs[0].type) == "f32[x0, 16]"


def test_dynamic_shapes_may_be_said(mlp):
    for shapes in ({"x": {0: torch.export.Dim("rows", max=8)}}, ({0: torch.export.Dim("rows", max=8)},)):
        fast = zenith.from_torch(mlp, (torch.zeros(4, 16),), dynamic_shapes=shapes, backend="reference")
        for n in (5, 2, 8):
            compare(fast, mlp, torch.randn(n, 16))
        assert fast.cache_info().misses == 1
        compare(fast, mlp, torch.randn(9, 16))
        assert "<= 8" in fast.cache_info().reasons[-1].reason
    with pytest.raises(ZenithError, match="an entry for each of x"):
        zenith.from_torch(mlp, (torch.zeros(4, 16),), dynamic_shapes={"y": None})


class Collecting(nn.Module):
    def forward(self, x, *more, scale=1, **options):
        x = x * options["factor"] * scale if options.get("on") else x
        return sum(more, x) + options.get("bias", 0)


def test_arguments_that_a_module_collects():
    module, x = Collecting(), torch.randn(3, 2)
    fast = zenith.from_torch(module, (x,), backend="reference")
    for _ in range(2):
        compare(fast, module, x, x, x + 1, bias=x, on=True, factor=3)
        compare(fast, module, x[:2], x[:2], scale=2.0, on=True, factor=x[0])
        compare(fast, module, torch.randn(5, 2))
    assert fast.cache_info().misses == 3


def test_an_axis_that_squeeze_would_remove():
    class Squeezing(nn.Module):
        def forward(self, x):
            return x.squeeze(0) + 1, x.squeeze()

    module = Squeezing()
    fast = zenith.from_torch(module, (torch.zeros(3, 4),), backend="reference")
    for shape in ((5, 2), (1, 3), (2, 1), (1, 1), (7, 7)):
        compare(fast, module, torch.randn(shape))
    assert "!= 1 is assumed (torch.squeeze would remove the axis)" in fast.cache_info().reasons[1].reason


def test_branches_on_sizes_are_guards():
    module = Branching()
    fast = zenith.from_torch(module, (torch.zeros(4, 2),), backend="reference")
    for n in (4, 3, 1, 2, 5, 8):
        compare(fast, module, torch.randn(n, 2))
    assert fast.cache_info().misses == 3


def test_structure_keywords_constants_and_buffers():
    module = Structured()
    x, tree = torch.randn(3, 4), {"m": [torch.randn(3, 4)]}
    fast = zenith.from_torch(module, (x, tree), {"scale": 2.0}, backend="reference")
    found = compare(fast, module, x, tree, scale=2.0)
    assert type(found["rest"][0]) is int and found["rest"][1:3] == (None, 3)
    compare(fast, module, x[:2], {"m": [x[:2]]}, scale=2.0)
    assert fast.cache_info().misses == 1
    compare(fast, module, x, tree, scale=3.0, flag=False)
    assert fast.cache_info().misses == 2
    names = [fast.graph.node(v.node).params["name"] for v in fast.graph.inputs]
    assert names == ["x", "tree_m_0", "scale"]  # a number that varies is an input


def test_results_share_memory_with_nothing():
    class Same(nn.Module):
        def forward(self, x):
            return x, x.T

    x = torch.randn(3, 4)
    same, transposed = compare(zenith.from_torch(Same(), (x,), backend="reference"), Same(), x)
    assert len({t.untyped_storage().data_ptr() for t in (x, same, transposed)}) == 3


def test_strided_inputs(mlp):
    fast = zenith.from_torch(mlp, (torch.zeros(4, 16),))
    compare(fast, mlp, torch.randn(16, 6).T)
    compare(fast, mlp, torch.randn(6, 32)[:, ::2])
    compare(fast, mlp, torch.randn(1, 16).expand(5, 16))


def test_gradients_are_never_lost_in_silence(mlp):
    """Calls record them, and a program without a backward pass says so."""
    fast = zenith.from_torch(mlp, (torch.zeros(4, 16),), backend="reference")
    x = torch.randn(4, 16)
    assert fast(x).requires_grad
    program = fast.lower(x).compile()
    with pytest.raises(UnsupportedError, match=r"weight norm.weight requires a gradient(.|\n)*torch.no_grad\(\)"):
        program(x)
    mlp.requires_grad_(False)
    torch.testing.assert_close(fast(x), mlp(x))
    assert not fast(x).requires_grad and fast(x.clone().requires_grad_()).requires_grad
    with pytest.raises(UnsupportedError, match="x requires a gradient"):
        program(x.clone().requires_grad_())
    with torch.inference_mode():
        torch.testing.assert_close(fast(x), mlp(x))


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_calls_without_tensors_give_tensors(backend):
    class Steps(nn.Module):
        def forward(self, start, half):
            steps = start + torch.arange(4.0)
            return steps.bfloat16() if half else {"steps": steps, "even": torch.arange(4) % 2 == 0}

    module = Steps()
    fast = zenith.from_torch(module, (1.5, False), backend=backend)
    compare(fast, module, 1.5, False)
    compare(fast, module, 2.5, True)


# --- refusals ------------------------------------------------------------------------------------------------------


def test_unknown_operators_are_listed_with_counts():
    class Unknown(nn.Module):
        def forward(self, x):
            return torch.special.airy_ai(torch.special.airy_ai(x)) + torch.special.zeta(x, x)

    with pytest.raises(
        UnsupportedError, match=r"special_airy_ai.default \(2 times\), aten.special_zeta.default \(1 times\)"
    ):
        zenith.from_torch(Unknown(), (torch.zeros(3),))


def test_modules_that_torch_cannot_export():
    class OnValues(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(ZenithError, match=r"torch.export cannot export OnValues for shapes \(4, 3\)"):
        zenith.from_torch(OnValues(), (torch.zeros(4, 3),))


def test_shapes_that_the_module_refuses(mlp):
    fast = zenith.from_torch(mlp, (torch.zeros(4, 16),), backend="reference")
    with torch.no_grad(), pytest.raises(ZenithError, match=r"for shapes \(4, 5\)"):
        fast(torch.zeros(4, 5))
    compare(fast, mlp, torch.randn(3, 16))
    assert fast.cache_info().misses == 1


def test_arguments_that_are_no_tensors(mlp):
    fast = zenith.from_torch(mlp, (torch.zeros(4, 16),), backend="reference")
    with torch.no_grad(), pytest.raises(TraceError, match=r"x is a ndarray(.|\n)*torch.as_tensor\(x\)"):
        fast(torch.zeros(4, 16).numpy())


# --- the rest ------------------------------------------------------------------------------------------------------


def test_it_reports_about_itself(mlp, capsys):
    fast = zenith.from_torch(mlp, (torch.zeros(4, 16),))
    compare(fast, mlp, torch.randn(4, 16))
    assert "test_from_torch.py:" in fast.show("graph") and "F.gelu(self.up(self.norm(x)))" in capsys.readouterr().out
    assert "Mlp: 1 compilations" in str(fast.explain())
    assert repr(fast) == "<zenith.from_torch of Mlp>"


def test_eight_threads_compile_once(mlp):
    fast = zenith.from_torch(mlp, (torch.zeros(4, 16),))
    barrier = threading.Barrier(8)

    def work(n):
        barrier.wait()
        compare(fast, mlp, torch.randn(n + 2, 16))

    in_threads(8, work)
    assert fast.cache_info().misses == 1


def test_what_is_no_module_or_writes_to_arguments_or_parameters_is_refused(capfd):
    class Writes(nn.Module):
        def forward(self, x):
            return x.add_(1)

    class Scales(nn.Linear):
        def forward(self, x):
            with torch.no_grad():
                self.weight.mul_(2)
            return super().forward(x)

    with pytest.raises(ZenithError, match=r"takes a torch.nn.Module, not a function(.|\n)*zenith.jit"):
        zenith.from_torch(lambda x: x, (torch.zeros(2),))
    with pytest.raises(UnsupportedError, match=r"writes to its arguments(.|\n)*x.clone"):
        zenith.from_torch(Writes(), (torch.zeros(2),))
    with pytest.raises(UnsupportedError, match=r"writes to its parameters weight(.|\n)*first call only(.|\n)*buffer"):
        zenith.from_torch(Scales(2, 3), (torch.zeros(4, 2),))
    zenith.from_torch(nn.Linear(1, 3), (torch.zeros(4, 1),))
    assert "Error" not in capfd.readouterr().err, "attempts that fail leave no log"


def test_autocast_is_refused_for_the_tensors_own_device():
    """An export does not show what autocast casts; that of another device casts nothing here."""
    module, x = nn.Linear(4, 3), torch.randn(2, 4)
    fast = zenith.from_torch(module, (x,), backend="reference")
    refused = pytest.raises(UnsupportedError, match=r"called under torch.autocast(.|\n)*enabled=False")
    with torch.no_grad(), refused, torch.autocast("cpu"):
        fast(x)
    with torch.autocast("cpu"), torch.autocast("cpu", enabled=False):
        compare(fast, module, x)
    torch.set_autocast_enabled("cuda", True)
    try:
        compare(fast, module, x)
    finally:
        torch.set_autocast_enabled("cuda", False)
