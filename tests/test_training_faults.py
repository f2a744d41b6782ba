"""What the loop says when it is given something it cannot train on."""

import gc
import weakref

import pytest
import torch

from helpers import training
from tests import toys


def sgd(net):
    return torch.optim.SGD(net.parameters(), lr=0.1)


def train(net, loader, **options):
    options.setdefault("optimizer", sgd(net))
    return training.train(net, loader, progress=False, **options)


@pytest.mark.parametrize("k", [0, -1, 2.5, "4", None, True])
def test_accumulation_steps_must_be_a_whole_number_from_1(k):
    with pytest.raises(ValueError, match=r"accumulation_steps is .*at least 1"):
        training.windows([toys.rows(2)], k)
    with pytest.raises(ValueError, match="accumulation_steps"):
        train(toys.model(), [toys.rows(2)], accumulation_steps=k)


@pytest.mark.parametrize("epochs", [0, 1.5])
def test_epochs_must_be_a_whole_number_from_1(epochs):
    with pytest.raises(ValueError, match="epochs"):
        train(toys.model(), [toys.rows(2)], epochs=epochs)


def test_an_empty_loader_is_refused():
    with pytest.raises(ValueError, match="length 0"):
        train(toys.model(), [])


def test_a_loader_that_can_be_read_once_only_is_named():
    with pytest.raises(ValueError, match="no micro-batch in epoch 2"):
        train(toys.model(), iter([toys.rows(2)]), epochs=2)


def test_a_batch_without_labels_is_refused():
    with pytest.raises(ValueError, match="has x and no `labels`"):
        train(toys.model(), [{"x": toys.rows(2)["x"]}])


def test_a_window_without_a_target_is_refused_before_any_backward():
    net = toys.model()
    before = [p.clone() for p in net.parameters()]
    with pytest.raises(ValueError, match="every label is -100"):
        train(net, [toys.tokens([0, 0])], accumulation_steps=2)
    assert all(map(torch.equal, before, net.parameters()))


def test_a_model_without_a_loss_is_named():
    class Lossless(toys.RowClassifier):
        def forward(self, x, labels=None):
            return super().forward(x)

    with pytest.raises(ValueError, match="Lossless returned no loss"):
        train(Lossless().double(), [toys.rows(2)])


@pytest.mark.parametrize("label", [2, -1])
def test_labels_out_of_range_are_told_before_they_break_a_device(label):
    from helpers import data, models

    batch = next(iter(data.loader(data.load("tickets"), 4)))
    batch["labels"][1] = label
    with pytest.raises(ValueError, match="the model has 2 classes, 0 to 1"):
        train(models.classifier(), [batch])


def test_an_optimizer_of_another_model_is_refused():
    with pytest.raises(ValueError, match="no weight of this model"):
        train(toys.model(), [toys.rows(2)], optimizer=sgd(toys.model()))


def test_validation_without_rows_is_refused():
    with pytest.raises(ValueError, match="gave no target"):
        training.evaluate(toys.model(), [])


class Hungry(toys.RowClassifier):
    """Runs out of memory on its second micro-batch, in forward or in backward."""

    def __init__(self, where):
        super().__init__()
        self.where, self.calls, self.held = where, 0, []

    def forward(self, x, labels=None):
        self.calls += 1
        output = super().forward(x, labels)
        activation = torch.tanh(output.logits)
        self.held.append(weakref.ref(activation))
        output.loss = output.loss + 0 * activation.sum()
        if self.calls == 2:
            if self.where == "forward":
                raise torch.OutOfMemoryError("device out of memory.")
            output.loss.register_hook(self.fail)
        return output

    def fail(self, gradient):
        raise torch.OutOfMemoryError("device out of memory.")


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_out_of_memory_names_the_micro_batch_and_leaves_nothing(where):
    from accelerate.utils.memory import should_reduce_batch_size

    net = Hungry(where).double()
    batches = toys.cut(toys.rows(12), 4)
    try:
        train(net, batches, accumulation_steps=3)
    except torch.OutOfMemoryError as error:
        assert "Micro-batch 2 of 3 in this window, 4 x 5, ran out of memory." in str(
            error
        )
        assert "micro-batches of 2 rows and 2 times the accumulation" in str(error)
        assert should_reduce_batch_size(error)
        gc.collect()
        assert [ref() for ref in net.held] == [None, None]  # while it is handled
    else:
        pytest.fail("no error")
    assert all(p.grad is None for p in net.parameters())


@pytest.mark.parametrize(("rows", "words"), [(5, "1 rows and 5 times"), (1, "one row")])
def test_the_advice_keeps_the_effective_batch(rows, words):
    net = Hungry("forward").double()
    net.calls = 1
    with pytest.raises(torch.OutOfMemoryError, match=words):
        train(net, [toys.rows(rows)])
