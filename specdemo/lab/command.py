"""`python -m specdemo lab NAME`: an experiment from its options to its findings, kept row by row.

Ctrl-C keeps what was measured; the same command with the same `--json FILE` goes on from there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdemo.config import add_config_option, configure
from specdemo.config import options_of as settable
from specdemo.exit_codes import INTERRUPTED, REFUSED
from specdemo.lab.experiment import Experiment, LabRefused, missing
from specdemo.lab.heat_map import draw
from specdemo.lab.options import add_options, read_options
from specdemo.lab.registry import EXPERIMENTS
from specdemo.lab.served import SERVED, refuse_drafts
from specdemo.lab.server_pair import ServerPair
from specdemo.models.pair_options import add_pair_options, pair_spec
from specdemo.race import RequestRefused
from specdemo.remote.faults import RemoteFault
from specdemo.remote.options import Servers, add_server_options, refuse_theirs, servers

if TYPE_CHECKING:
    from specdemo.lab.result import Result
    from specdemo.models.pair import Pair


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `lab`: an experiment's name, then its own options and the pair's."""
    commands = parser.add_subparsers(required=True, metavar="experiment", dest="experiment")
    for name, experiment in EXPERIMENTS.items():
        command = commands.add_parser(name, help=experiment.about, description=experiment.about)
        add_options(command.add_argument_group("the experiment"), experiment.options)
        add_pair_options(command.add_argument_group("the pair"))
        if name in SERVED:
            group = command.add_argument_group("two vLLM servers, in place of a pair here")
            add_server_options(group)
            command.set_defaults(usual=command.get_default)
        kept = command.add_argument_group("the result")
        kept.add_argument("--json", type=Path, metavar="FILE", help="keep every row at once; go on with what is there")
        kept.add_argument("--csv", type=Path, metavar="FILE", help="keep the rows as a table of comma-separated values")
        kept.add_argument("--markdown", type=Path, metavar="FILE", help="keep what is shown here")
        if experiment.pairs:
            about = "then vote blindly on the answers that differ; the votes are kept with the rows"
            kept.add_argument("--vote", action="store_true", help=about)
        add_config_option(command)


def configure_from_file(
    parser: argparse.ArgumentParser, argv: Sequence[str], others: Callable[[], Collection[str]]
) -> None:
    """Take what the file of --config says for the experiment that argv names; raises ConfigRefused.

    parser: to which `add_arguments` has added. others: gives the names that another program knows.
    """
    commands = next(one for one in parser._actions if isinstance(one, argparse._SubParsersAction)).choices
    if argv and argv[0] in commands:
        of_all = {name for command in commands.values() for name in settable(command)}
        configure(commands[argv[0]], argv[1:], others=lambda: {*of_all, *others()})


def main(args: argparse.Namespace) -> int:
    """Measure, show and keep; 0 when all is measured, 2 when it is refused, 130 when it was interrupted."""
    from specdemo.models.errors import ModelUnavailable, PairRefused
    from specdemo.trace_files import Unwritable, refuse_unwritable

    sys.stdout.reconfigure(errors="replace")
    experiment, pair = EXPERIMENTS[args.experiment], None
    try:
        for path in (args.json, args.csv, args.markdown):
            refuse_unwritable(path)
        asked = _servers(args)
        if asked is not None:
            refuse_drafts(experiment, vars(args), args.usual)
            refuse_theirs(args, asked, args.usual)
            experiment = SERVED[args.experiment]
        options = read_options(experiment.options, args)
        cells = experiment.cells(options)
        pair = _load(args) if asked is None else _connect(asked)
        result = _begin(experiment, options, pair, len(cells), args.json)
        whole = _measure(experiment, options, pair, cells, result, args.json)
    except (LabRefused, RequestRefused, ModelUnavailable, PairRefused, RemoteFault, Unwritable) as error:
        print(error, file=sys.stderr)
        return REFUSED
    except OSError as error:
        print(f"The rows could not be kept: {error.filename}: {error.strerror}.", file=sys.stderr)
        return REFUSED
    finally:
        if experiment.served and pair is not None:
            pair.close()
    if whole and experiment.pairs and args.vote:
        _vote(experiment, options, result)
    _show(experiment, result)
    kept = _keep(args, experiment, result)
    return INTERRUPTED if not whole else 0 if kept else REFUSED


def _servers(args: argparse.Namespace) -> Servers | None:
    """The two servers that are named, if any; raises RemoteFault, LabRefused."""
    asked = servers(args) if args.experiment in SERVED else None
    if asked is not None and asked.here is not None:
        raise LabRefused("An experiment compares like with like: name both --baseline-url and --speculative-url.")
    return asked


def _connect(asked: Servers) -> ServerPair:
    from specdemo.remote.racing import connect

    return ServerPair(connect(asked))


def _load(args: argparse.Namespace) -> Pair:
    from specdemo.loading_bar import LoadingBar
    from specdemo.models.pair import load_pair

    with LoadingBar() as progress:
        return load_pair(pair_spec(args), progress)


def _begin(experiment: Experiment, options: Any, pair: Pair, cells: int, path: Path | None) -> Result:
    """A new result, or the one in the file where it is of the same run."""
    from specdemo.lab.measure import empty
    from specdemo.lab.result import read

    if experiment.served:
        facts, machine = pair.known.pair, pair.known.environment
    else:
        from specdemo.environment import environment

        facts, machine = pair.facts, environment(str(pair.target.device))
    result = empty(experiment, options, cells, facts, machine)
    return result.goes_on(read(path), str(path)) if path is not None and path.exists() else result


def _measure(experiment: Experiment, options: Any, pair: Pair, cells: list, result: Result, path: Path | None) -> bool:
    """Fill the missing cells, each kept as it comes; False where Ctrl-C came first."""
    from tqdm import tqdm

    from specdemo.lab.measure import fill

    if done := len(cells) - len(missing(cells, result.rows)):
        print(f"{done} of {len(cells)} rows are in {path} already.", file=sys.stderr)
    filling = fill(experiment, options, pair, cells, result)
    bar = tqdm(total=len(cells), initial=done, desc=experiment.name, unit="row", file=sys.stderr, disable=None)
    try:
        for row in filling:
            if row is None:
                continue
            bar.update()
            if path is not None:
                result.save(path)
    except KeyboardInterrupt:
        return False
    finally:
        filling.close()
        bar.close()
    return True


def _vote(experiment: Experiment, options: Any, result: Result) -> None:
    """Let a person vote on the answers that differ."""
    from specdemo.lab.ballot import Ballot, differs
    from specdemo.lab.voting import hold

    hold(Ballot(result.rows, options.questions()), sum(not differs(row) for row in result.rows))
    result.findings = experiment.findings(result.rows)


def _show(experiment: Experiment, result: Result) -> None:
    from rich.console import Console

    from specdemo.lab.result import table_text

    console = Console(highlight=False, markup=False)
    print(table_text(experiment.table(result.rows)))
    for heat_map in experiment.maps(result.rows):
        console.print("", draw(heat_map), soft_wrap=not console.is_terminal)
    print("", *result.findings, sep="\n")


def _keep(args: argparse.Namespace, experiment: Experiment, result: Result) -> bool:
    """Write what was asked for; whether that worked."""
    from specdemo.trace_files import say_unwritten, write_whole

    texts = {args.csv: result.csv, args.markdown: lambda: result.markdown(experiment)}
    path = args.json
    try:
        if path is not None:
            result.save(path)  # with its findings
        for path, text in texts.items():
            if path is not None:
                write_whole(path, text().encode())
    except OSError as error:
        say_unwritten("result", path, error)
        return False
    return True
