from benchmarks.command import main, tidy_when_ended
from benchmarks.map.suite import SUITE

if __name__ == "__main__":
    tidy_when_ended()
    raise SystemExit(main(SUITE))
