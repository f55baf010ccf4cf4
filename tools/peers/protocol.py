"""What every peer shares: the protocol of docs/peers.md, timing, and the cases' sizes.

A peer imports this first (compilers print; answers keep standard output to themselves), then its library, and calls
run() with a function that measures one request.
"""

import argparse
import ctypes
import inspect
import json
import math
import os
import signal
import statistics
import sys
import time
from dataclasses import dataclass, field

PROTOCOL = 1

# Compilers write to standard output too; answers keep the pipe to themselves.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


@dataclass
class Request:
    case: str
    config: dict = field(default_factory=dict)
    min_time: float = 1.0
    threads: int = 1


def say(line):
    print(json.dumps({key: _finite(value) for key, value in line.items()}, allow_nan=False), file=answers, flush=True)


def _finite(value):
    """JSON has neither NaN nor infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def absent(peer, module, error):
    """Ends a peer whose library cannot be imported."""
    say({"peer": peer, "protocol": PROTOCOL, "error": f"'import {module}' failed ({error})"})
    sys.exit(1)


def sizes(make, fixed, config):
    """The arguments of `make`: its defaults, the case's `fixed` ones, and those of the request's configuration."""
    axes = {name: p.default for name, p in inspect.signature(make).parameters.items() if isinstance(p.default, (int, str))}
    for axis, value in config.items():
        if axis not in axes:
            raise ValueError(f"no axis '{axis}'; expected one of {', '.join(axes) or 'none'}")
        if isinstance(axes[axis], str):
            continue
        if not str(value).isdigit() or int(value) < 1:
            raise ValueError(f"{axis}: came '{value}', expected a whole number from 1")
    return {**fixed, **{axis: type(axes[axis])(value) for axis, value in config.items()}}


def find_case(cases, name):
    if name not in cases:
        raise ValueError(f"no case '{name}'; expected one of {', '.join(cases)}")
    return cases[name]


def call_ms(call, calls=1):
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) * 1e3 / calls


def samples_ms(call, min_time, least=10, most=1000):
    """As lab/timer.cpp: a sample of a quick function is a batch of calls of at least 50 µs."""
    for _ in range(3):
        call()
    batch = max(1, round(0.05 / max(call_ms(call), 1e-6) + 0.5))
    out, start = [], time.perf_counter()
    while len(out) < most and (len(out) < least or time.perf_counter() - start < min_time):
        out.append(call_ms(call, batch))
    return out


def measured(request, variant, call, first_call_ms, eager, **more):
    """The answer to a request: samples of `call`, and the median of the library's own eager function beside them."""
    samples = samples_ms(call, request.min_time)
    return {
        "case": request.case,
        "variant": variant,
        "samples_ms": samples,
        "first_call_ms": first_call_ms,
        "compile_ms": max(0.0, first_call_ms - statistics.median(samples)),
        "eager_python_ms": statistics.median(samples_ms(eager, request.min_time)),
        **more,
    }


def _from_stdin():
    for line in sys.stdin:
        if line.strip():
            yield line


def _from_arguments(options):
    config = dict(pair.split("=", 1) for pair in options.config)
    for case in options.case:
        yield json.dumps(
            {"case": case, "config": config, "min_time": options.min_time, "threads": options.threads}
        )


def run(peer, version, measure, description):
    """Says hello, then answers each request with measure(Request), a dictionary of docs/peers.md's fields."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--min-time", type=float, default=1.0, help="seconds of samples per case")
    parser.add_argument("--config", nargs="*", default=[], metavar="AXIS=VALUE", help="sizes other than a case's own")
    parser.add_argument("case", nargs="+", help="names of cases, or - for requests from standard input")
    options = parser.parse_args()
    if sys.platform == "linux":  # a case of minutes must not outlive the program that asked for it
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    say({"peer": peer, "version": version, "protocol": PROTOCOL})
    for line in _from_stdin() if options.case == ["-"] else _from_arguments(options):
        case = None
        try:
            asked = json.loads(line)
            case = asked["case"]
            known = {key: asked[key] for key in ("case", "config", "min_time", "threads") if key in asked}
            say(measure(Request(**known)))
        except Exception as error:  # one case's failure leaves the others
            say({"case": case, "variant": peer, "error": f"{type(error).__name__}: {error}"})
