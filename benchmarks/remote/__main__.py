from benchmarks.command import run_scaled
from benchmarks.remote.media import Sizes
from benchmarks.remote.suite import make_suite

if __name__ == "__main__":
    raise SystemExit(run_scaled("remote", "2.5 GB", lambda scale: make_suite(Sizes.scaled(scale))))
