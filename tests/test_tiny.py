import itertools
import random

import numpy as np
import pytest
import torch
import transformers

from helpers.equivalence import tiny

CASES = [
    ("distilbert", "sequence-classification"),
    ("gpt2", "sequence-classification"),
    ("bart", "sequence-classification"),
    ("bert", "token-classification"),
    ("qwen3", "token-classification"),
    ("roberta", "masked-lm"),
    ("llama", "causal-lm"),
    ("mixtral", "causal-lm"),
    ("mamba", "causal-lm"),
    ("electra", "multiple-choice"),
    ("t5", "seq2seq-lm"),
    ("vit", "image-classification"),
    ("resnet", "image-classification"),
    ("albert", "question-answering"),
]
TOKEN_TASKS = ("token-classification", "masked-lm", "causal-lm", "seq2seq-lm")


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def case(request):
    model_type, task = request.param
    return tiny.build(model_type, task), model_type, task


def loss_of(model, model_type, task, seed=1):
    return model(**tiny.batch(model, model_type, task, 3, seed=seed)).loss


def test_the_cases_cover_every_task():
    assert {task for _, task in CASES} == set(tiny.TASKS)


def test_it_is_small_and_has_no_dropout(case):
    model, model_type, task = case
    assert sum(p.numel() for p in model.parameters()) < 1_000_000
    assert model.training and model.config.model_type == model_type
    if task not in ("question-answering", "masked-lm", "causal-lm", "seq2seq-lm"):
        assert model.config.num_labels == 3
    state = {name: value.clone() for name, value in model.state_dict().items()}
    first, again = loss_of(*case), loss_of(*case)
    assert first == again
    model.load_state_dict(state)  # batch normalisation has counted


def test_its_loss_is_finite_and_has_a_gradient(case):
    loss = loss_of(*case)
    assert loss.ndim == 0 and loss.isfinite()
    names, weights = zip(*case[0].named_parameters(), strict=True)
    slopes = torch.autograd.grad(loss, weights, allow_unused=True)
    assert any(slope is not None and slope.any() for slope in slopes), names


def test_it_takes_float64(case):
    model, model_type, task = case
    loss = loss_of(model, model_type, task).item()
    made = tiny.batch(model, model_type, task, 3, seed=1)
    wide = {k: v.double() if v.is_floating_point() else v for k, v in made.items()}
    twin = tiny.build(model_type, task).double()
    assert twin(**wide).loss.item() == pytest.approx(loss, abs=1e-4)


def test_the_seed_decides_the_weights_and_the_batch(case):
    model, model_type, task = case
    weights = [p.detach() for p in model.parameters()]
    for seed, same in ((0, True), (1, False)):
        other = list(tiny.build(model_type, task, seed=seed).parameters())
        assert all(map(torch.equal, weights, other)) == same
        first, second = (
            tiny.batch(model, model_type, task, 3, seed=s) for s in (0, seed)
        )
        assert all(torch.equal(first[name], second[name]) for name in first) == same


def test_every_row_of_tokens_has_targets_and_their_number_differs(case):
    model, model_type, task = case
    made = [tiny.batch(model, model_type, task, 3, seed=seed) for seed in range(9)]
    if task not in TOKEN_TASKS:
        shapes = {name: tensor.shape for name, tensor in made[0].items()}
        assert all(shape[0] == 3 for shape in shapes.values())
        if task != "question-answering":
            assert shapes["labels"] == (3,)
        return
    counts = [(one["labels"] != -100).sum(1) for one in made]
    assert all(len(set(count.tolist())) > 1 for count in counts)
    totals = [int(count.sum()) for count in counts]
    assert all(a != b for a, b in itertools.pairwise(totals))
    shifted = [(one["labels"][:, 1:] != -100).sum(1) for one in made]
    assert all(count.min() >= 1 for count in shifted)


def test_the_random_numbers_of_the_caller_are_left_alone():
    def draw():
        return random.random(), np.random.rand(), torch.rand(1).item()

    def start():
        random.seed(5)
        np.random.seed(5)
        torch.manual_seed(5)

    start()
    expected = draw()
    start()
    model = tiny.build("distilbert", "sequence-classification", seed=7)
    tiny.batch(model, "distilbert", "sequence-classification", 2, seed=3)
    assert draw() == expected


def test_architectures_are_those_of_transformers():
    found = tiny.architectures("sequence-classification")
    assert found == sorted(found) and {"bert", "distilbert", "gpt2"} <= set(found)
    assert all(tiny.architectures(task) for task in tiny.TASKS)


@pytest.mark.parametrize(
    "model_type, task, near",
    [
        ("distillbert", "sequence-classification", "distilbert"),
        ("vit", "masked-lm", "no masked-lm head"),
        ("bert", "sequence-clasification", "sequence-classification"),
        ("bert", "zzz", "sequence-classification"),
    ],
)
def test_an_unknown_name_is_met_with_near_ones(model_type, task, near):
    with pytest.raises(ValueError, match=near) as caught:
        tiny.build(model_type, task)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_unknown_tasks_are_refused_everywhere():
    with pytest.raises(ValueError, match="no task 'x'"):
        tiny.architectures("x")
    model = torch.nn.Linear(1, 1)
    with pytest.raises(ValueError, match="no task 'x'"):
        tiny.batch(model, "bert", "x", 2, seed=0)


@pytest.mark.parametrize(
    "model_type, task, why",
    [("lxmert", "question-answering", "regions of an image")],
)
def test_what_cannot_be_built_is_said_in_one_sentence(model_type, task, why):
    with pytest.raises(tiny.CannotBuild, match=why) as caught:
        tiny.build(model_type, task)
    said = str(caught.value)
    assert said.startswith(f"No tiny {model_type} for {task}: ")
    assert said.endswith(".") and "\n" not in said and ". " not in said


def test_a_model_over_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(tiny, "MOST_WEIGHTS", 1000)
    with pytest.raises(tiny.CannotBuild, match=r"smallest .* has \d\d,\d+ weights"):
        tiny.build("bert", "masked-lm")


def test_a_head_without_a_loss_is_refused(monkeypatch):
    monkeypatch.setattr(
        transformers.BertForMaskedLM, "forward", lambda self, **batch: {}
    )
    with pytest.raises(tiny.CannotBuild, match="gives no loss"):
        tiny.build("bert", "masked-lm")


def test_a_gentler_configuration_is_tried(monkeypatch):
    asked = []
    real = tiny.configuration

    def fussy(outer, inner, task, gentle):
        asked.append(gentle)
        if not gentle:
            raise RuntimeError("too small. Really")
        return real(outer, inner, task, gentle)

    monkeypatch.setattr(tiny, "configuration", fussy)
    assert tiny.build("bert", "masked-lm") and asked == [False, True]
