"""Measures a function that embeds a list of texts as package internal/speed does, and prints the figures as JSON."""

import itertools, json, os, resource, threading, time

LEAST = 0.7


def processor_time():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(callers, calls, embed):
    for call in calls:
        embed(call)
    took, following = [], itertools.count()
    used, began = processor_time(), time.perf_counter()

    def caller():
        first = True
        while first or time.perf_counter() - began < LEAST:
            first = False
            call = calls[next(following) % len(calls)]
            start = time.perf_counter()
            embed(call)
            took.append((time.perf_counter() - start, len(call)))

    threads = [threading.Thread(target=caller) for _ in range(callers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    wall, cpu = time.perf_counter() - began, processor_time() - used
    n, durations = sum(size for _, size in took), sorted(d for d, _ in took)
    return {"Wall": n / wall, "CPU": n / cpu, "P50": durations[len(durations) // 2], "P99": durations[len(durations) * 99 // 100]}


def report(texts, threads, embed):
    """Threads are those of a call, 0 for the library's default: with one, as many callers send batches as there are processors."""
    batches, alone = [texts[i : i + 32] for i in range(0, len(texts), 32)], [[t] for t in texts]
    figures = {"batches": measure(os.cpu_count() if threads == 1 else 1, batches, embed)}
    for callers in (1, 8, 64):
        figures[f"callers={callers}"] = measure(callers, alone, embed)
    print(json.dumps(figures))
