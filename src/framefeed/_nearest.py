"""Answer names that do not exist: with the name that other libraries' habits mean here, or with the nearest one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

_CLIPS = "plan clips with ff.plan_clips and ff.Dense(..., {}=...)"
# Names of decord, TorchCodec, torchvision, PyTorch, OpenCV, PyAV and DALI, and what does the same here.
OTHER_NAMES = {
    "DataLoader": "use ff.torch.DataLoader in place of PyTorch's, or ff.ClipLoader, which gives NumPy arrays",
    **dict.fromkeys(
        ("AVReader", "AudioDecoder", "AudioEncoder", "AudioReader", "AudioSamples", "WavDecoder"),
        "framefeed does not decode sound: use torchcodec for it",
    ),
    **dict.fromkeys(
        ("VideoEncoder", "VideoWriter", "write_video"), "ff.map_video writes videos, each frame through a function"
    ),
    **dict.fromkeys(("VideoCapture", "VideoFileClip", "get_reader", "open"), "open one video with ff.VideoDecoder"),
    "VideoReader": "open one video with ff.VideoDecoder; framefeed.compat.decord has decord's VideoReader",
    **dict.fromkeys(
        ("Dataset", "ImageFolder", "Pipeline", "VideoDataset", "VideoLoader", "pipeline_def", "readers"),
        "many files take three steps: ff.scan, ff.plan_clips, and ff.ClipLoader or ff.torch.ClipDataset",
    ),
    **dict.fromkeys(
        ("HMDB51", "Kinetics", "RandomClipSampler", "UCF101", "UniformClipSampler", "VideoClips", "read_video"),
        "import torchvision's names from framefeed.compat.torchvision; or use ff.scan, ff.plan_clips and "
        "ff.torch.ClipDataset",
    ),
    **dict.fromkeys(
        ("Compose", "RandomHorizontalFlip", "Resize", "transforms"),
        "ff.plan_clips resizes, crops and flips (size=, crop=, horizontal_flip=); ff.ClipLoader and "
        "ff.torch.ClipDataset take transform=, mean= and std=",
    ),
    **dict.fromkeys(("Normalize", "ToTensor"), "ff.ClipLoader and ff.torch.ClipDataset take mean= and std="),
    **dict.fromkeys(
        ("cpu", "gpu", "get_nvdec_cache_capacity", "set_cuda_backend", "set_nvdec_cache_capacity"),
        "framefeed decodes on the CPU",
    ),
    "bridge": "ff.VideoDecoder gives NumPy arrays, ff.torch.VideoDecoder tensors; framefeed.compat.decord has decord's",
    "samplers": "plan clips with ff.plan_clips; torchcodec.samplers also accepts ff.torch.VideoDecoder",
    **dict.fromkeys(("clips_at_random_indices", "clips_at_regular_indices"), _CLIPS.format("stride")),
    **dict.fromkeys(("clips_at_random_timestamps", "clips_at_regular_timestamps"), _CLIPS.format("fps")),
}
_NUMBERED = "use [i], or get_frames_at(indices) for several frames, in any order"
OTHER_METHODS = {
    "get_batch": "use get_frames_at(indices)",
    **dict.fromkeys(("average_rate", "fps", "get_avg_fps"), "use metadata.average_fps"),
    **dict.fromkeys(("get_key_indices", "_get_key_frame_indices"), "use frame_index.key_frame_indices"),
    "get_frame_timestamp": "use get_frame_at(i).pts_seconds, or frame_index.pts_seconds for all frames",
    **dict.fromkeys(("asnumpy", "to_ndarray"), "frames need no conversion: use [i], or get_frames_at(indices).data"),
    **dict.fromkeys(
        ("decode", "demux", "grab", "iter_frames", "next", "read", "retrieve"),
        "iterate over the decoder, or use [i] for one frame",
    ),
    **dict.fromkeys(("seek", "seek_accurate", "set", "skip_frames"), _NUMBERED),
    "streams": "a decoder has one stream, which its argument stream_index= chooses",
    **dict.fromkeys(("_num_frames", "count_frames", "frame_count", "num_frames"), "use len(video)"),
    **dict.fromkeys(
        ("duration", "get", "get_meta_data", "height", "shape", "width"), "use metadata, which has height and width too"
    ),
    "isOpened": "a file that cannot be opened is an error",
    "release": "use close(), or a with block",
}
# The same of Frame and FrameBatch.
OTHER_FRAME_NAMES = {
    **dict.fromkeys(("asnumpy", "dtype", "numpy", "permute", "shape", "to", "to_ndarray"), "its pixels are in data"),
    **dict.fromkeys(("pts", "time", "timestamp", "timestamps"), "use pts_seconds"),
    "index": "use indices",
}


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'label'?" for the known name nearest to ``name``, or nothing if none is near."""
    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def make_absence(
    owner: object, name: str, known: Iterable[str], others: Mapping[str, str] = OTHER_METHODS
) -> AttributeError:
    """Make the error for a name that a decoder or one of its results does not have.

    ``others`` are names of other libraries -> what to use.
    """
    advice = f": {others[name]}" if name in others else did_you_mean(name, known)
    return AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}{advice}")
