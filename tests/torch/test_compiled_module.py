"""The result of ``from_torch`` is a ``torch.nn.Module``: PyTorch does with it whatever it does with modules."""

import copy
import inspect
import io

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils import _pytree as pytree

import zenith
from zenith.errors import UnsupportedError, ZenithError

X = torch.linspace(-1, 1, 24).reshape(3, 8)


def backbone():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Dropout(0.5))


class Net(nn.Module):
    """A module with a backbone as its submodule."""

    def __init__(self, inner):
        super().__init__()
        self.backbone = inner
        torch.manual_seed(1)
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        return self.head(self.backbone(x))


@pytest.fixture
def plain():
    return Net(backbone())


@pytest.fixture
def net():
    return Net(zenith.from_torch(backbone(), (X,)))


def same(one, other):
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_a_submodule_of_a_model(net, plain):
    """Its parameters and buffers have the plain module's names, and checkpoints load in both directions."""
    assert isinstance(net.backbone, nn.Module)
    assert list(net.state_dict()) == list(plain.state_dict())
    assert [n for n, _ in net.named_parameters()] == [n for n, _ in plain.named_parameters()]
    assert [n for n, _ in net.named_buffers()] == [n for n, _ in plain.named_buffers()]
    with torch.no_grad():
        for p in plain.parameters():
            p += 0.25
    assert not net.load_state_dict(plain.state_dict()).missing_keys
    same(net.eval()(X), plain.eval()(X))
    plain.load_state_dict(net.state_dict(), assign=True)
    same(net(X), plain(X))


def test_modes_reach_it(net):
    net.eval()
    assert not net.backbone.training and not net.backbone.module[3].training
    assert torch.equal(net(X), net(X))  # nothing is dropped
    net.train()
    assert net.backbone.training and not torch.equal(net(X), net(X))
    net.backbone[3].eval()
    net.backbone.training = False
    assert not net.backbone.module.training


def test_training_moves_it(net, plain):
    for model in (net, plain):
        model.eval()
        step = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            step.zero_grad()
            model(X).square().sum().backward()
            step.step()
    for one, other in zip(net.parameters(), plain.parameters(), strict=True):
        same(one, other)


def test_conversion():
    fast = zenith.from_torch(nn.Linear(8, 2), (X,))
    weight = fast.weight
    assert fast.double() is fast and fast.module.weight.dtype == torch.float64 and fast.weight is weight
    same(fast(X.double()), fast.module(X.double()))
    nn.Sequential(fast).float()
    same(fast(X), fast.module(X))
    assert next(fast.to("meta").parameters()).is_meta


def test_attributes_are_the_modules():
    module = backbone()
    module.note = "a note"
    fast = zenith.from_torch(module, (X,))
    assert fast.note == "a note" and len(fast) == 4 and fast[0] is module[0] and list(fast) == list(module)
    fast.note = "changed"
    assert module.note == "changed" and "note" in dir(fast)
    del fast.note
    assert not hasattr(module, "note") and not hasattr(fast, "note")
    with pytest.raises(AttributeError, match=r"Sequential.*no attribute 'nothing'"):
        fast.nothing  # noqa: B018
    assert [type(c) for c in fast.children()] == [type(c) for c in module.children()]
    assert inspect.signature(fast.forward) == inspect.signature(module.forward)
    assert fast.get_parameter("0.weight") is module[0].weight and fast.get_submodule("3") is module[3]


def test_apply_reaches_each_submodule_once(net, plain):
    seen, expected = [], []
    net.apply(lambda m: seen.append(type(m)))
    plain.apply(lambda m: expected.append(type(m)))
    assert seen == expected


def test_new_weights_and_children():
    """What is assigned to it is the module's; programs follow."""
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    fast = zenith.from_torch(module, (X,))
    with torch.no_grad():
        fast(X)
        fast[0].weight = nn.Parameter(torch.eye(8))
        fast[0].bias = None
        same(fast(X), X.relu())
        fast[1] = nn.Tanh()
        same(fast(X), X.tanh())


HOOKS = {
    "pre": (lambda f: f.register_forward_pre_hook(lambda m, args: (args[0] * 2,)), lambda m: m(X * 2)),
    "forward": (lambda f: f.register_forward_hook(lambda m, args, result: result + 1), lambda m: m(X) + 1),
    "always": (
        lambda f: f.register_forward_hook(lambda m, args, kwargs, result: result * 3, with_kwargs=True),
        lambda m: m(X) * 3,
    ),
    "everywhere": (lambda f: nn.modules.module.register_module_forward_hook(_add_to_compiled), lambda m: m(X) + 1),
}


def _add_to_compiled(module, args, result):
    return result + 1 if isinstance(module, zenith.torch.CompiledModule) else None


@pytest.mark.parametrize("kind", HOOKS)
def test_hooks_on_it_run(kind):
    register, expected = HOOKS[kind]
    fast = zenith.from_torch(nn.Linear(8, 2), (X,))
    same(fast(X), fast.module(X))
    misses = fast.cache_info().misses
    handle = register(fast)
    same(fast(X), expected(fast.module))
    handle.remove()
    same(fast(X), fast.module(X))
    assert fast.cache_info().misses == misses  # hooks run around the programs


def test_backward_hooks_run():
    fast, seen = zenith.from_torch(nn.Linear(8, 2), (X,)), []
    fast.register_full_backward_hook(lambda m, given, wanted: seen.append((given[0].shape, wanted[0].shape)))
    x = X.clone().requires_grad_()
    fast(x).sum().backward()
    assert seen == [(x.shape, (3, 2))]


def test_forward_that_was_replaced():
    """As Accelerate does: a forward of the user's around the old one, and back."""
    fast = zenith.from_torch(nn.Linear(8, 2), (X,))
    old = fast.forward
    fast.forward = lambda x: old(x) * 2
    same(fast(X), fast.module(X) * 2)
    del fast.forward
    same(fast(X), fast.module(X))


@pytest.mark.parametrize("method", ["deepcopy", "save"])
def test_copies(method, net):
    if method == "deepcopy":
        other = copy.deepcopy(net)
    else:
        file = io.BytesIO()
        torch.save(net, file)
        other = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
    net.eval(), other.eval()
    assert torch.equal(net(X), other(X))
    with torch.no_grad():
        for p in other.parameters():
            p.zero_()
    assert not other(X).any() and net(X).any()


def test_moving_averages():
    fast = zenith.from_torch(nn.Linear(8, 2), (X,))
    average = AveragedModel(fast, multi_avg_fn=get_ema_multi_avg_fn(0.5))
    average.update_parameters(fast)  # the first one copies
    begin = fast.weight.detach().clone()
    for _ in range(2):
        with torch.no_grad():
            fast.weight += 1
        average.update_parameters(fast)
    same(average.module.weight, begin + 1.25)
    same(average(X), nn.functional.linear(X, average.module.weight, average.module.bias))


def test_functional_call():
    fast = zenith.from_torch(nn.Linear(8, 2), (X,))
    other = {"weight": torch.ones(2, 8), "bias": torch.zeros(2)}
    same(torch.func.functional_call(fast, other, (X,)), X.sum(1, keepdim=True).expand(3, 2))
    same(fast(X), fast.module(X))


def test_sequences_and_lists():
    fast = zenith.from_torch(nn.Linear(8, 8), (X,))
    chain = nn.Sequential(fast, nn.ReLU(), nn.ModuleList([fast])[0])
    same(chain(X), fast.module(fast.module(X).relu()))
    assert len(list(chain.parameters())) == 2
    assert "from_torch of Linear" in repr(chain)


def test_an_export_around_it(net, plain):
    """Its weights are the outer module's, also in programs that were made for it as a submodule."""
    fast = zenith.from_torch(net.eval(), (X,))
    with torch.no_grad():
        for model in (net, plain.eval()):
            model.backbone[0].weight.mul_(2)
        same(fast(X), plain(X))


def test_torch_compile_around_it(net, plain, fresh_compiler):
    net.eval(), plain.eval()
    same(torch.compile(net, backend="zenith")(X), plain(X))


@pytest.mark.parametrize(
    "action, message",
    [
        (lambda f: f.compile(), "is compiled by from_torch already"),
        (lambda f: setattr(f, "module", nn.ReLU()), "stays one of the module"),
        (lambda f: f._replicate_for_data_parallel(), "DistributedDataParallel"),
    ],
)
def test_refused(action, message):
    fast = zenith.from_torch(nn.Linear(8, 2), (X,))
    with pytest.raises((UnsupportedError, ZenithError), match=message):
        action(fast)
    same(fast(X), fast.module(X))


# --- Hugging Face ----------------------------------------------------------------------------------------------------

SMALL = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
DECODER = SMALL | {"intermediate_size": 64, "num_key_value_heads": 2, "max_position_embeddings": 64}
IDS = torch.arange(14).reshape(2, 7)


def decoder(transformers, **settings):
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**DECODER, **settings)).eval()


def check_tree(found, expected):
    (one, structure), (other, its) = pytree.tree_flatten(found), pytree.tree_flatten(expected)
    assert structure == its
    same(one, other)


def test_caches_are_results(tmp_path):
    transformers = pytest.importorskip("transformers")
    from zenith.torch.decoder import cache_keyword

    module = decoder(transformers)
    fast = zenith.from_torch(module, (IDS,))
    with torch.no_grad():
        found, expected = fast(IDS[:, :5]), module(IDS[:, :5])
        check_tree(found, expected)
        assert found.past_key_values.get_seq_length() == 5
        name = cache_keyword(module)
        same(module(IDS[:, 5:], **{name: found.past_key_values}).logits, module(IDS).logits[:, 5:])
        fast.save(tmp_path / "decoder.zenith")
        check_tree(zenith.load(tmp_path / "decoder.zenith")(IDS), module(IDS))
        assert torch.equal(fast.generate(IDS, max_new_tokens=3), module.generate(IDS, max_new_tokens=3))
    with pytest.raises(UnsupportedError, match=f"{name} is a DynamicCache, to which the module writes"):
        fast(IDS, **{name: found.past_key_values})


def test_caches_of_encoders_and_decoders():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4)
    module = transformers.T5ForConditionalGeneration(config).eval()
    fast = zenith.from_torch(module, (IDS,), {"decoder_input_ids": IDS})
    with torch.no_grad():
        found, expected = fast(IDS, decoder_input_ids=IDS), module(IDS, decoder_input_ids=IDS)
    check_tree(found, expected)
    assert found.past_key_values.is_updated == expected.past_key_values.is_updated


def test_trainer_of_hugging_face(tmp_path):
    """Trained by transformers' own loop, saved by it, and loaded into a plain model."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    module = transformers.BertForSequenceClassification(
        transformers.BertConfig(**SMALL, intermediate_size=64, hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    )
    plain = copy.deepcopy(module)
    rows = [{"input_ids": row, "labels": row[0] % 2} for row in torch.randint(0, 64, (16, 6))]
    batch = {"input_ids": IDS, "labels": IDS[:, 0] % 2}
    models = {"fast": zenith.from_torch(module, (), batch), "plain": plain}
    losses = {}
    for name, model in models.items():
        arguments = transformers.TrainingArguments(
            str(tmp_path / name), num_train_epochs=1, per_device_train_batch_size=4, learning_rate=1e-3, use_cpu=True,
            report_to=[], save_strategy="no", disable_tqdm=True, seed=0, label_names=["labels"],
        )  # fmt: skip
        trainer = transformers.Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows)
        losses[name] = trainer.train().training_loss, trainer.evaluate()["eval_loss"]
        trainer.save_model(str(tmp_path / name))
    assert losses["fast"] == pytest.approx(losses["plain"], rel=1e-3)
    same(models["fast"].eval()(**batch).logits, plain.eval()(**batch).logits)
