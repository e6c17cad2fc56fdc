from benchmarks.command import main
from benchmarks.pictures.suite import SUITE

if __name__ == "__main__":
    raise SystemExit(main(SUITE))
