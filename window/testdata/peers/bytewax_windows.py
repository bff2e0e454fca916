"""bytewax_windows.py CASE KEYS EVENTS: runs bytewax's event-time windows over generated events in one worker, and prints a line of JSON.

The events are one a millisecond, shuffled inside blocks of 256, of uniform keys; they are made before the time is taken.
"""
import json
import sys
import time
from datetime import datetime, timedelta, timezone

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import TestingSource, run_main

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MASK = (1 << 64) - 1


def event(i, keys):
    z = (i + 0x9E3779B97F4A7C15) & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    z ^= z >> 31
    at = i & ~255 | i * 89 + 17 & 255
    return str((z >> 1) % keys), (EPOCH + timedelta(milliseconds=at), z & 15)


class Totals(DynamicSink, StatelessSinkPartition):
    results = sum = 0

    def build(self, step_id, worker_index, worker_count):
        return self

    def write_batch(self, items):
        for _key, (_window, value) in items:
            self.results += 1
            self.sum += value


def main(case, keys, count):
    windower = {
        "tumbling": win.TumblingWindower(length=timedelta(seconds=10), align_to=EPOCH),
        "sliding": win.SlidingWindower(length=timedelta(seconds=60), offset=timedelta(seconds=5), align_to=EPOCH),
        "session": win.SessionWindower(gap=timedelta(milliseconds=500)),
    }[case]
    totals = Totals()
    flow = Dataflow("windows")
    stream = op.input("events", flow, TestingSource([event(i, keys) for i in range(count)], batch_size=1000))
    # Its watermark also moves with the clock of the wall; with this one it does not.
    clock = win.EventClock(lambda v: v[0], timedelta(seconds=2), now_getter=lambda: EPOCH)
    sums = win.fold_window("sum", stream, clock, windower, lambda: 0, lambda acc, v: acc + v[1], lambda a, b: a + b)
    op.output("totals", sums.down, totals)
    began = time.perf_counter()
    run_main(flow)
    seconds = time.perf_counter() - began
    print(json.dumps({"events": count, "results": totals.results, "sum": totals.sum, "seconds": seconds}))


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
