"""The files for more than one machine: nothing runs them here, so they are parsed."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import launch_command_parser
from torch.distributed.run import get_args_parser

from authoring.project import ROOT
from helpers import configs

FOLDER = configs.folder()
YAMLS = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("file", sorted(FOLDER.iterdir()), ids=lambda file: file.name)
def test_every_line_is_explained_and_the_file_says_that_it_was_not_run(file):
    text = file.read_text()
    assert "NOT RUN by this course" in text
    lines = [line for line in text.splitlines() if line.strip() not in ("", ")")]
    bare = [line for line in lines if not re.search(r"#|^options=\($", line)]
    assert not bare
    assert all(len(line) <= 88 for line in lines)


@pytest.mark.parametrize("file", YAMLS, ids=lambda file: file.name)
def test_accelerate_knows_every_key(file):
    config = load_config_from_file(str(file))
    assert config.num_processes == 8
    inner = config.fsdp_config or config.deepspeed_config
    options = {action.dest for action in launch_command_parser()._actions}
    assert inner and not {*inner} - options


def test_an_unknown_key_would_be_noticed(tmp_path):
    file = tmp_path / "wrong.yaml"
    file.write_text(YAMLS[0].read_text() + "\nnum_procs: 8\n")
    with pytest.raises(ValueError, match="num_procs"):
        load_config_from_file(str(file))


def test_torchrun_takes_the_options_of_the_script():
    text = (FOLDER / "torchrun_nodes.sh").read_text()
    block = re.search(r"options=\((.*?)\n\)", text, re.DOTALL)[1]
    words = shlex.split(block.replace("$HEAD", "10.0.0.1"), comments=True)
    taken = get_args_parser().parse_args([*words, "train.py", "--own", "3"])
    assert (taken.nnodes, taken.nproc_per_node) == ("2", "8")
    assert taken.rdzv_endpoint == "10.0.0.1:29500"
    assert taken.training_script_args == ["--own", "3"]


def test_a_lesson_can_show_each_of_them():
    assert FOLDER == ROOT / "configs" and len(configs.names()) == 3
    for name in configs.names():
        assert configs.text(name) == (FOLDER / name).read_text()
    with pytest.raises(FileNotFoundError, match="there are accelerate_deepspeed"):
        configs.text("no.yaml")


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash here")
def test_the_shell_reads_the_script():
    file = FOLDER / "torchrun_nodes.sh"
    assert (
        subprocess.run(["bash", "-n", str(file)], capture_output=True).returncode == 0
    )
