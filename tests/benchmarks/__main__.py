"""Run every benchmark and write their numbers into README.md beside this file: ``python -m tests.benchmarks``."""

import sys
from pathlib import Path

import pytest

from tests.benchmarks.measure import REPEATS, ROWS, machine

HERE = Path(__file__).parent
OPTIONS = ["-o", "python_files=bench_*.py", "-s", "-q", "--timeout=1800", str(HERE)]
README = """# Benchmarks

`make bench` prints these numbers; `python -m tests.benchmarks` also writes them into this file. Seeds are fixed, the median
of {repeats} repeats is shown with the lowest and the highest in brackets, and the output of each repeat is verified.
What is measured is described in `bench_*.py`. The peer is a heap and a dict in the same process and the same run
(`heap_and_dict.py`); other peers come later.

Machine: {machine}

```
{rows}
```
"""


def main() -> int:
    """The exit code is pytest's; README.md is written only if every output was right."""
    code = int(pytest.main(OPTIONS))
    if code == 0:
        text = README.format(repeats=REPEATS, machine=machine(), rows="\n".join(ROWS))
        (HERE / "README.md").write_text(text, encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
