from benchmarks.archives.media import Sizes
from benchmarks.archives.suite import make_suite
from benchmarks.command import run_scaled

if __name__ == "__main__":
    raise SystemExit(run_scaled("archives", "1.5 GB", lambda scale: make_suite(Sizes.scaled(scale))))
