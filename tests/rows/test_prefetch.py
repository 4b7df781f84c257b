"""Working ahead must not change what comes, nor its order."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rafm.errors import DataFormatError
from rafm.rows.prefetch import map_ahead, share_out


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(threads):
    first_waits = threading.Event()

    def work(item):
        if item == 1:
            first_waits.set()
        if item == 0 and threads > 1:
            assert first_waits.wait(10)  # the second is done before the first
        return item * item

    assert list(map_ahead(work, range(20), threads)) == [item * item for item in range(20)]


@pytest.mark.parametrize("failure", [DataFormatError("cut off"), OSError("unplugged")], ids=str)
def test_a_failure_of_the_items_comes_after_the_results_before_it(failure):
    def items():
        yield from "abc"
        raise failure

    results = map_ahead(str.upper, items(), 2)
    assert [next(results) for _ in range(3)] == ["A", "B", "C"]
    with pytest.raises(type(failure), match=str(failure)):
        next(results)


def test_no_more_items_are_taken_than_threads_can_work_on():
    taken = []
    results = map_ahead(str, (taken.append(item) or item for item in range(100)), 2)
    assert next(results) == "0"
    assert len(taken) == 3
    results.close()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_shared_items_are_all_done_and_keep_their_order(threads):
    with ThreadPoolExecutor(threads) as pool:
        assert share_out(pool, str, range(100), threads) == [str(item) for item in range(100)]
        assert share_out(pool, str, [], threads) == []


def test_of_failures_at_the_same_time_the_first_item_tells():
    second_fails, begun = threading.Event(), []

    def work(item):
        begun.append(item)
        if item == 0:
            assert second_fails.wait(10)
        second_fails.set()
        raise DataFormatError(f"item {item}")

    with ThreadPoolExecutor(2) as pool, pytest.raises(DataFormatError, match="item 0"):
        share_out(pool, work, range(100), 2)
    assert len(begun) == 2


def test_closing_early_does_not_wait_for_work_under_way():
    may_end = threading.Event()
    results = map_ahead(lambda item: item == 0 or may_end.wait(60), range(9), 2)
    assert next(results) is True
    closing = threading.Thread(target=results.close)
    closing.start()
    closing.join(10)
    may_end.set()
    assert not closing.is_alive()
