"""What was appended is read again, whatever moment a run was killed at."""

import numpy as np
import pytest

from specdemo.distill.corpus import CorpusMismatch, CorpusWriter, Header, Row, is_held_out, read_rows, tokens_file

HELD_OUT = [100, 110, 125]  # of the prompts [n, 1, 2]: the rule may not change, or old corpora would leak
HEADER = Header("tiny", "abc", 300, seed=0)


def rows(count: int, start: int = 0) -> list[Row]:
    draw = np.random.default_rng(start)
    return [
        Row(start + i, "chat", 0.7, draw.integers(0, 300, 5 + i % 7).tolist(), draw.integers(0, 300, 9).tolist())
        for i in range(count)
    ]


def plain(row: Row) -> tuple:
    return row.seed, row.kind, row.temperature, [int(i) for i in row.prompt], [int(i) for i in row.answer]


def write(folder, some: list[Row], **kwargs) -> None:
    writer = CorpusWriter(folder, HEADER, **kwargs)
    for row in some:
        writer.append(row)


@pytest.mark.parametrize("vocab_size", [300, 65536])
def test_rows_come_back_as_they_were_written(tmp_path, vocab_size):
    writer = CorpusWriter(tmp_path, Header("tiny", "abc", vocab_size, 0))
    for row in rows(20):
        writer.append(row)
    assert list(map(plain, read_rows(tmp_path))) == list(map(plain, rows(20)))
    size = sum(path.stat().st_size for path in tmp_path.glob("*.tokens"))
    assert size == sum(len(r.prompt) + len(r.answer) for r in rows(20)) * (2 if vocab_size < 65536 else 4)


def test_a_full_shard_is_followed_by_another(tmp_path):
    write(tmp_path, rows(30), shard_bytes=200)
    shards = sorted(tmp_path.glob("*.tokens"))
    assert len(shards) > 3 and all(shard.stat().st_size < 300 for shard in shards)
    assert list(map(plain, read_rows(tmp_path))) == list(map(plain, rows(30)))


def test_a_writer_goes_on_where_the_last_one_stopped(tmp_path):
    for start in range(0, 30, 10):
        write(tmp_path, rows(10, start), shard_bytes=400)
    wanted = [row for start in range(0, 30, 10) for row in rows(10, start)]
    assert list(map(plain, read_rows(tmp_path))) == list(map(plain, wanted))


@pytest.mark.parametrize("cut", range(0, 60, 3))
def test_a_run_killed_while_appending_costs_at_most_the_row_being_written(tmp_path, cut):
    write(tmp_path, rows(6))
    index = next(tmp_path.glob("*.jsonl"))
    whole = index.read_bytes()
    index.write_bytes(whole[: len(whole) - cut])  # lines lost, tokens there: the order in which append writes
    kept = list(read_rows(tmp_path))
    assert len(kept) >= 6 - cut // 15 - 1
    write(tmp_path, rows(3, 50))
    assert list(map(plain, read_rows(tmp_path))) == list(map(plain, [*kept, *rows(3, 50)]))


@pytest.mark.parametrize("left", [b"", b'{"target": "ti'])
def test_a_run_killed_while_opening_a_shard_leaves_nothing_in_the_way(tmp_path, left):
    (tmp_path / "rows-0000.jsonl").write_bytes(left)
    tokens_file(tmp_path / "rows-0000.jsonl").write_bytes(b"")
    write(tmp_path, rows(4))
    assert list(map(plain, read_rows(tmp_path))) == list(map(plain, rows(4)))


def test_writers_side_by_side_make_one_corpus_in_the_order_of_their_appends(tmp_path):
    writers = [CorpusWriter(tmp_path, HEADER, shard_bytes=150) for _ in range(2)]
    for i, row in enumerate(rows(20)):
        writers[i % 2].append(row)
    assert list(map(plain, read_rows(tmp_path))) == list(map(plain, rows(20)))


def test_rows_of_another_vocabulary_are_refused(tmp_path):
    write(tmp_path, rows(2))
    with pytest.raises(CorpusMismatch, match="rows of tiny"):
        CorpusWriter(tmp_path, Header("other", "xyz", 300, 0))


def test_what_is_held_out_depends_on_the_prompt_alone_and_never_changes():
    assert [n for n in range(200) if is_held_out([n, 1, 2])] == HELD_OUT
    for row in rows(300):
        assert row.held_out == is_held_out(np.asarray(row.prompt, np.uint16)) == is_held_out(list(row.prompt))


def test_about_one_prompt_in_thirty_two_is_held_out():
    draw = np.random.default_rng(1)
    share = np.mean([is_held_out(draw.integers(0, 999, 8)) for _ in range(6000)])
    assert 0.02 < share < 0.045
