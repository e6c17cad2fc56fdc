from benchmarks.cache.suite import SUITE
from benchmarks.command import main, tidy_when_ended

if __name__ == "__main__":
    tidy_when_ended()
    raise SystemExit(main(SUITE))
