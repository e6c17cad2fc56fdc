"""Part 2, its peers, called directly: frames of TorchCodec's CUDA decoder and of PyNvVideoCodec, and their speeds."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.device.media import Clip, compare, open_clips, open_fast_clip
from benchmarks.device.rows import (
    Trial,
    Unavailable,
    describe,
    refuse_rehearsal,
    require_cuda,
    require_decoder,
    require_module,
)
from benchmarks.device.timing import run_threads, time_calls, warm_up

CLIP_FRAMES = 16
_CUDA_LIBRARIES = ("libcudart.so.13", "libnvrtc.so.13")
_ANNEX_B = {"h264": "h264_mp4toannexb", "hevc": "hevc_mp4toannexb"}
_NAMES = {"h264": "H264", "hevc": "HEVC", "av1": "AV1", "vp9": "VP9"}


def measure(trial: Trial) -> None:
    """Write the rows of both."""
    refuse_rehearsal(trial)
    warm_up(require_decoder())
    for clip in open_clips(trial, "plain"):
        labels = {"clip": clip.name, "trait": clip.trait}
        trial.run("TorchCodec, frames", lambda clip=clip: _compare_torchcodec(clip), **labels)
        trial.run("PyNvVideoCodec, frames", lambda clip=clip: _compare_video_codec(clip), **labels)
    for codec in ("h264", "hevc", "av1"):
        for threads in (1, 8):
            labels: dict[str, Any] = {"codec": codec, "threads": threads}
            trial.run(
                "TorchCodec, speed", lambda c=codec, n=threads: _time_torchcodec(open_fast_clip(trial, c), n), **labels
            )
            trial.run(
                "PyNvVideoCodec, speed",
                lambda c=codec, n=threads: _time_video_codec(open_fast_clip(trial, c), n),
                **labels,
            )


# ---- TorchCodec


def load_torchcodec() -> tuple[Any, str]:
    """Import TorchCodec's decoders; CUDA's libraries are loaded first, from where torch has them."""
    require_module("torch")
    folders = [Path(entry) for entry in sys.path if entry]
    for name in _CUDA_LIBRARIES:
        candidates = [name, *(str(path) for folder in folders for path in folder.glob(f"nvidia/*/lib/{name}"))]
        for candidate in candidates:
            try:
                ctypes.CDLL(candidate, mode=ctypes.RTLD_GLOBAL)
                break
            except OSError:
                continue
        else:
            raise Unavailable(f"no {name}, which TorchCodec's build for CUDA needs")
    package = require_module("torchcodec")
    decoders = require_module("torchcodec.decoders")
    return decoders, f"TorchCodec {package.__version__} with FFmpeg {package.ffmpeg_major_version}"


def open_torchcodec(clip: Clip, device: str = "cuda") -> Any:
    """Open a clip with our index as its frame mappings; a fall back to the CPU is an error."""
    require_cuda()
    decoders, _ = load_torchcodec()
    decoder = decoders.VideoDecoder(
        str(clip.path), device=device, custom_frame_mappings=clip.index.to_custom_frame_mappings()
    )
    if device != "cpu":
        decoder.get_frame_at(0)  # known after the first frame
        if decoder.cpu_fallback:
            raise Unavailable(f"TorchCodec decodes on the CPU: {decoder.cpu_fallback}")
    return decoder


def _compare_torchcodec(clip: Clip) -> dict[str, Any]:
    """Compare RGB with that of libavcodec and swscale on the CPU: formulas differ, so only identity is strict."""
    torch = require_cuda()
    decoder = open_torchcodec(clip)
    shifted, worst_mean, came = 0, 0.0, 0
    reference = {n: frame.to_ndarray(format="rgb24") for n, frame in clip.decode(clip.make_cpu_decoder(), clip.whole)}
    for ordinal in range(len(clip.index)):
        picture = decoder.get_frame_at(ordinal).data
        torch.cuda.synchronize()
        ours = picture.cpu().numpy().transpose(1, 2, 0)
        came += 1
        gap = _mean_gap(ours, reference[ordinal])
        worst_mean = max(worst_mean, gap)
        shifted += any(
            _mean_gap(ours, reference[n]) <= gap for n in (ordinal - 1, ordinal + 1) if n in reference
        )  # fmt: skip
    values = {"frames": came, "expected": len(clip.index), "nearer_to_neighbour": shifted}
    return {**values, "worst_mean_rgb": round(worst_mean, 3), "output": "RGB"}


def _mean_gap(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> float:
    rows, columns = min(ours.shape[0], theirs.shape[0]), min(ours.shape[1], theirs.shape[1])
    return float(np.abs(ours[:rows, :columns].astype(np.int16) - theirs[:rows, :columns]).mean())


def _time_torchcodec(clip: Clip, threads: int) -> dict[str, Any]:
    torch = require_cuda()
    decoders = [open_torchcodec(clip) for _ in range(threads)]
    chosen = [choose_frames(clip, seed) for seed in range(threads)]
    wait = torch.cuda.synchronize
    first = time_calls(lambda: open_torchcodec(clip), wait) if threads == 1 else None
    whole = time_calls(
        lambda: run_threads(lambda n: decoders[n].get_frames_in_range(0, len(clip.index)), threads), wait
    )
    random = time_calls(lambda: run_threads(lambda n: decoders[n].get_frames_at(chosen[n]), threads), wait)
    return {
        "first_frame_of_new": first,
        "sequential_fps": round(threads * len(clip.index) / whole["ms"] * 1e3, 1),
        "random_fps": round(threads * CLIP_FRAMES / random["ms"] * 1e3, 1),
        "random": random,
    }


def choose_frames(clip: Clip, seed: int) -> list[int]:
    """Choose the frames of one clip of the trial, ascending."""
    chosen = np.random.default_rng(seed).choice(len(clip.index), min(CLIP_FRAMES, len(clip.index)), replace=False)
    return sorted(chosen.tolist())


# ---- PyNvVideoCodec


def load_video_codec() -> tuple[Any, str]:
    """Import PyNvVideoCodec; where its check of the encoder fails, its extension alone, which decodes as well."""
    try:
        module = require_module("PyNvVideoCodec")
    except Unavailable as reason:
        return _load_extension(reason), "its extension alone"
    if not hasattr(module, "CreateDecoder"):
        raise Unavailable("PyNvVideoCodec has no CreateDecoder: its import failed without an error")
    return module, f"PyNvVideoCodec {getattr(module, '__version__', 'of unknown version')}"


def _load_extension(reason: Unavailable) -> Any:
    for folder in map(Path, filter(None, sys.path)):
        for path in folder.glob("PyNvVideoCodec/PyNvVideoCodec_130.*.so"):
            spec = importlib.util.spec_from_file_location("_PyNvVideoCodec", path)
            assert spec is not None
            assert spec.loader is not None
            try:
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
            except ImportError as error:
                raise Unavailable(f"no PyNvVideoCodec: {describe(error)}") from error
            return module
    raise reason


class VideoCodecDecoder:
    """PyNvVideoCodec's decoder fed with our packets, their numbers as times.

    Args:
        clip: Its stream.
        packets: As ``convert_packets`` gives them.
    """

    def __init__(self, clip: Clip, packets: list[bytes]) -> None:
        self._codecs = load_video_codec()[0]
        require_cuda()
        self._decoder = self._codecs.CreateDecoder(
            gpuid=0, codec=getattr(self._codecs.cudaVideoCodec, _NAMES[clip.codec]), usedevicememory=True
        )
        self._packets = packets

    def decode(self, send: range | list[int]) -> Iterator[tuple[int, Any]]:
        """Yield (packet number, frame) of these packets; a frame is valid until the next one is asked for."""
        for number in send:
            yield from self._send(self._packets[number], number, self._codecs.VideoPacketFlag.TIMESTAMP)
        yield from self._send(b"", 0, self._codecs.VideoPacketFlag.ENDOFSTREAM)

    def _send(self, data: bytes, number: int, flag: Any) -> Iterator[tuple[int, Any]]:
        packet = self._codecs.PacketData()
        buffer = ctypes.create_string_buffer(data, len(data)) if data else None
        packet.bsl_data = ctypes.addressof(buffer) if buffer is not None else 0
        packet.bsl, packet.pts, packet.decode_flag = len(data), number, int(flag)
        for frame in self._decoder.Decode(packet):
            yield frame.getPTS(), frame


def convert_packets(clip: Clip) -> list[bytes]:
    """Give the packets as NVCUVID's parser wants them: H.264 and HEVC with start codes and parameter sets."""
    if clip.codec not in _ANNEX_B:
        return clip.packet_bytes
    av = require_module("av")
    with av.open(str(clip.path)) as container:
        stream = container.streams[clip.index.stream.stream_index]
        converter = av.bitstream.BitStreamFilterContext(_ANNEX_B[clip.codec], stream)
        found = [b"".join(map(bytes, converter.filter(packet))) for packet in container.demux(stream) if packet.size]
    if len(found) != len(clip.index.packets):
        raise Unavailable(f"{clip.name}: {len(found)} packets with start codes, {len(clip.index.packets)} in the index")
    return found


def _compare_video_codec(clip: Clip) -> dict[str, Any]:
    """Compare planes with those of libavcodec on the CPU."""
    torch = require_cuda()
    decoder = VideoCodecDecoder(clip, convert_packets(clip))
    height, came, worst, mean, extra = clip.index.stream.height, [], 0, 0.0, 0
    for number, frame in decoder.decode(range(len(clip.index.packets))):
        ordinal = clip.ordinal_of.get(number)
        if ordinal is None:
            extra += 1
            continue
        rows = torch.from_dlpack(frame)
        torch.cuda.synchronize()
        whole = rows.cpu().numpy()
        whole = whole.reshape(-1, whole.shape[-1] if whole.ndim == 2 else clip.index.stream.width)
        whole = whole >> 6 if whole.dtype == np.uint16 else whole
        chroma = whole[len(whole) * 2 // 3 :]
        gap = compare((whole[:height], chroma.reshape(len(chroma), -1, 2)), clip.reference[ordinal])
        came.append(ordinal)
        worst, mean = max(worst, gap.worst), max(mean, gap.mean)
    values = {"frames": len(came), "expected": len(clip.index), "not_in_index": extra}
    return {
        **values,
        "order_right": came == sorted(set(came)),
        "mean": round(mean, 5),
        "worst": worst,
        "output": "planes",
    }


def _time_video_codec(clip: Clip, threads: int) -> dict[str, Any]:
    torch = require_cuda()
    wait = torch.cuda.synchronize
    packets = convert_packets(clip)
    decoders = [VideoCodecDecoder(clip, packets) for _ in range(threads)]
    whole = range(len(clip.index.packets))
    plans = [clip.plan(choose_frames(clip, seed)) for seed in range(threads)]

    def decode_plan(number: int) -> None:
        for run in plans[number]:
            for _ in decoders[number].decode(list(run.send)):
                pass

    def decode_whole(number: int) -> None:
        for _ in decoders[number].decode(whole):
            pass

    def show_first() -> None:
        next(VideoCodecDecoder(clip, packets).decode(whole))

    first = time_calls(show_first, wait) if threads == 1 else None
    sequential = time_calls(lambda: run_threads(decode_whole, threads), wait)
    random = time_calls(lambda: run_threads(decode_plan, threads), wait)
    return {
        "first_frame_of_new": first,
        "sequential_fps": round(threads * len(clip.index) / sequential["ms"] * 1e3, 1),
        "random_fps": round(threads * CLIP_FRAMES / random["ms"] * 1e3, 1),
        "random": random,
    }
