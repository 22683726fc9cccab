#!/usr/bin/env python3
"""Shows how long the tests of the last run took: the sum of each tier, and the 20 slowest tests.

    scripts/test-times.py [JUNIT [CPU]]

JUNIT is the file that nextest writes (default: target/nextest/default/junit.xml). The sums are larger than the time of the
run, because several tests run at the same time. CPU is the file that KUBEGC_CPU_TIMES named in the run (scripts/test-runner.sh):
then the seconds are those of the processor, which are what a busy machine has to spend.
"""

import re
import sys
import xml.etree.ElementTree

# The first pattern that matches the name of a test names its tier.
TIERS = [
    (r"^it .*on_node", "real node or API server"),
    (r"^it .*(containerd|on_crio)", "real containerd, CRI-O"),
    (r"^it .*(in_browser|promtool|prometheus|chart)", "browser, Prometheus, Helm"),
    (r"^it (matrix|faults|kill|properties|vectors|sim)", "simulated node: contract, faults, properties, vectors"),
    (r"^it ", "the binary"),
    (r"", "beside the code"),
]


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "target/nextest/default/junit.xml"
    try:
        root = xml.etree.ElementTree.parse(path).getroot()
    except OSError as error:
        sys.exit(f"test-times.py: cannot read {path}: {error.strerror}; cargo nextest writes it")
    tests = []
    for suite in root.iter("testsuite"):
        kind = suite.get("name").removeprefix("kubegc::")
        tests += [(float(case.get("time")), f"{kind} {case.get('name')}") for case in suite.iter("testcase")]
    if len(sys.argv) > 2:
        tests = spent(sys.argv[2], tests)
    tests.sort(reverse=True)
    print(f"{'seconds':>9}  {'tests':>5}  tier")
    for tier in dict.fromkeys(name for _, name in TIERS):
        times = [time for time, name in tests if tier_of(name) == tier]
        print(f"{sum(times):9.1f}  {len(times):5}  {tier}")
    print("\n  seconds  slowest tests")
    for time, name in tests[:20]:
        print(f"{time:9.1f}  {name}")


def spent(path, tests):
    names = {name.partition(" ")[2]: name for _, name in tests}
    with open(path, encoding="utf-8") as lines:
        pairs = [line.split() for line in lines]
    return [(float(seconds), names[test]) for seconds, test in pairs if test in names]


def tier_of(name):
    return next(tier for pattern, tier in TIERS if re.search(pattern, name))


main()
