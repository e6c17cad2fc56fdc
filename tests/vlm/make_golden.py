"""Write tests/golden/vlm.json: what transformers' video processors and qwen-vl-utils gave, asked for by their own code.

    .venv-vlm/bin/python -m tests.vlm.make_golden [--check]        (make vlm; in the project's folder)

--check compares with the file that is there, and exits with 1 where something differs. Nothing of framefeed is used:
it is what the tests of framefeed.vlm compare with. No weights: tokenizers are made here, pictures have no pixels (the
device "meta") or are black. Published values of models are in tests/vlm/configs, with where they were found.
"""

from __future__ import annotations

import argparse
import inspect
import json
import logging
import re
import sys
import types
import warnings
from collections.abc import Callable
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")
import torch  # noqa: E402
import transformers  # noqa: E402
from PIL import Image  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402
from transformers.video_utils import VideoMetadata  # noqa: E402

from tests.vlm.cases import (  # noqa: E402
    CALLS,
    METADATA,
    QWEN_COUNTS,
    QWEN_LISTS,
    QWEN_SIZES,
    QWEN_VIDEOS,
    SIZES,
    TOKENS,
    TOLD,
)
from tests.vlm.golden import GOLDEN, condense  # noqa: E402

CONFIGS = Path(__file__).parent / "configs"
PINNED = ("torch", "torchvision", "transformers", "qwen-vl-utils")
META = {"dtype": torch.uint8, "device": "meta"}

NOT_AVAILABLE = {
    "zai-org/GLM-4.6V": "No public copy of its preprocessor_config.json was found. It has no processor_config.json; "
    "GLM-OCR, whose classes are the same, publishes values of images only, which transformers takes for videos.",
    "OpenGVLab/InternVL3-*-hf video_preprocessor_config.json": "Not found; the values that the conversion script wrote "
    "into preprocessor_config.json are used, which transformers reads where no file of videos is.",
    "Qwen/Qwen2.5-Omni-7B": "Its preprocessor_config.json was not found in full; the class is Qwen2VLVideoProcessor.",
    "llava-hf/llava-onevision-*": "Not looked for: the defaults of the class are recorded.",
}

NAMES = """
    fps num_frames min_frames max_frames do_sample_frames max_duration initial_shift size min_pixels max_pixels
    max_image_size patch_size merge_size temporal_patch_size max_soft_tokens pooling_kernel_size cap_pixels_per_frame
    max_video_tokens do_resize resample do_center_crop crop_size do_rescale rescale_factor do_normalize image_mean
    image_std do_convert_rgb do_pad pad_size return_metadata default_to_square model_input_names
"""
METHODS = (
    "sample_frames",
    "resize",
    "get_num_of_video_patches",
    "aspect_ratio_preserving_resize",
    "fetch_videos",
    "patchify",
)


def make_processors() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Make each video processor, with what is told of it: from the defaults of its class, and from published values."""
    defaults = {
        "qwen2_vl": "Qwen2VLVideoProcessor",
        "qwen3_vl": "Qwen3VLVideoProcessor",
        "glm4v": "Glm4vVideoProcessor",
        "glm46v": "Glm46VVideoProcessor",
        "gemma4": "Gemma4VideoProcessor",
        "internvl": "InternVLVideoProcessor",
        "llava_onevision": "LlavaOnevisionVideoProcessor",
    }
    made = {name: (getattr(transformers, cls)(), {"from": "class"}) for name, cls in defaults.items()}
    for path in sorted(CONFIGS.glob("*.json")):
        document = json.loads(path.read_text())
        cls = getattr(transformers, document["video_processor"])
        about = {
            "from": "published",
            "model": document["model"],
            "source": document["source"],
            "note": document["note"],
        }
        made[f"{path.stem}-published"] = cls.from_dict(document["config"]), about
        if "cap_pixels_per_frame" in cls.valid_kwargs.__annotations__:
            capped = cls.from_dict({**document["config"], "cap_pixels_per_frame": True})
            made[f"{path.stem}-capped"] = capped, {**about, "with": {"cap_pixels_per_frame": True}}
    return made


def plain(value: Any) -> Any:
    """Turn a value into what JSON has."""
    if isinstance(value, transformers.image_utils.SizeDict):
        return dict(value)
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def describe(video_processor: Any, about: dict[str, Any]) -> dict[str, Any]:
    """Give class, values and attributes of a video processor."""
    cls = type(video_processor)
    values = {key: plain(value) for key, value in video_processor.to_dict().items()}
    signatures = {
        name: list(inspect.signature(getattr(video_processor, name)).parameters)
        for name in METHODS
        if hasattr(video_processor, name)
    }
    attributes = {
        name: plain(getattr(video_processor, name)) for name in NAMES.split() if hasattr(video_processor, name)
    }
    return {
        **about,
        "class": cls.__name__,
        "module": cls.__module__,
        "to_dict": values,
        "attributes": attributes,
        "missing": [name for name in NAMES.split() if not hasattr(video_processor, name)],
        "type_of_resample": type(video_processor.resample).__name__,
        "type_of_size": type(video_processor.size).__name__,
        "methods": signatures,
    }


def ask(function: Callable[[], Any]) -> Any:
    """Call, and give the error as text where there is one."""
    try:
        return function()
    except Exception as error:  # whatever they raise is what is recorded
        return f"{type(error).__name__}: {error}"


def find_size(video_processor: Any, frames: int, height: int, width: int) -> tuple[int, int]:
    """Let a processor resize a clip without pixels, called as its `_preprocess` calls."""
    clip = torch.empty(1, frames, 3, height, width, **META)
    size, resample = video_processor.size, video_processor.resample
    if hasattr(video_processor, "aspect_ratio_preserving_resize"):
        patches = video_processor.max_soft_tokens * video_processor.pooling_kernel_size**2
        resized = video_processor.aspect_ratio_preserving_resize(
            clip[0], video_processor.patch_size, patches, video_processor.pooling_kernel_size, resample
        )
    elif hasattr(video_processor, "merge_size"):
        keywords = {"cap_pixels_per_frame": bool(getattr(video_processor, "cap_pixels_per_frame", None))}
        resized = video_processor.resize(
            clip,
            size=size,
            resample=resample,
            factor=video_processor.patch_size * video_processor.merge_size,
            temporal_factor=video_processor.temporal_patch_size,
            **keywords,
        )
    else:
        resized = video_processor.resize(clip, size=size, resample=resample)
    return int(resized.shape[-2]), int(resized.shape[-1])


def list_sizes(video_processor: Any) -> list[list[Any]]:
    """Give T, height and width of every case, with the height and width that come, or an error."""
    rows = []
    for case in SIZES:
        found = ask(lambda case=case: find_size(video_processor, *case))
        rows.append([*case, *([found] if isinstance(found, str) else found)])
    return rows


def prove_sizes(video_processor: Any) -> None:
    """Compare `find_size` with what the whole processor makes of small clips with pixels."""
    if not hasattr(video_processor, "merge_size"):
        return
    for frames, height, width in ((2, 120, 160), (5, 90, 200), (4, 20, 50)):
        clip = torch.zeros(frames, 3, height, width, dtype=torch.uint8)
        grid = video_processor([clip], do_sample_frames=False, return_tensors="pt")["video_grid_thw"][0].tolist()
        size = tuple(side * video_processor.patch_size for side in grid[1:])
        if size != find_size(video_processor, frames, height, width):
            raise AssertionError(f"{type(video_processor).__name__} made {size} of {frames} x {height} x {width}")


def find_indices(
    video_processor: Any, count: int, rate: Any, duration: float | None, arguments: dict[str, Any]
) -> list[int] | dict[str, Any]:
    """Let a processor choose frames."""
    told = VideoMetadata(total_num_frames=count, fps=None if rate is None else float(rate), duration=duration)
    return condense(video_processor.sample_frames(told, **arguments))


def list_indices(video_processor: Any) -> list[dict[str, Any]]:
    """Give the indices of every case of the class."""
    cases: list[tuple[int, Any, Any, dict[str, Any]]] = []
    calls = CALLS[type(video_processor).__name__]
    for videos, arguments in calls:
        cases += [(count, rate, float(count / Fraction(rate)), arguments) for count, rate in videos]
    cases += [(*told, calls[0][1]) for told in TOLD]
    rows = []
    for count, rate, duration, arguments in cases:
        found = ask(lambda case=(count, rate, duration, arguments): find_indices(video_processor, *case))
        row = {"N": count, "rate": None if rate is None else str(rate), "duration": duration, **arguments}
        rows.append({**row, "indices": found})
    return rows


def make_tokenizer(*words: str, **named: str) -> Any:
    """Make a tokenizer of a few words, all of which are special."""
    special = [*words, *named.values()]
    tokenizer = Tokenizer(
        models.WordLevel({word: at for at, word in enumerate(["<unk>", "<pad>", *special])}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(special)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>", extra_special_tokens=named
    )


def make_whole_processors() -> dict[str, Any]:
    """Make whole processors without weights, by the defaults of their classes."""
    qwen = "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"
    glm = "<|image|>", "<|video|>", "<|begin_of_video|>", "<|end_of_video|>", "<|begin_of_image|>", "<|end_of_image|>"
    t = transformers
    made = {
        name: getattr(t, name)(
            image_processor=t.Qwen2VLImageProcessor(), tokenizer=make_tokenizer(*qwen), video_processor=video()
        )
        for name, video in (
            ("Qwen2VLProcessor", t.Qwen2VLVideoProcessor),
            ("Qwen2_5_VLProcessor", t.Qwen2VLVideoProcessor),
            ("Qwen3VLProcessor", t.Qwen3VLVideoProcessor),
        )
    }
    made["Glm4vProcessor"] = t.Glm4vProcessor(t.Glm4vImageProcessor(), make_tokenizer(*glm), t.Glm4vVideoProcessor())
    made["Glm46VProcessor"] = t.Glm46VProcessor(
        t.Glm46VImageProcessor(), make_tokenizer(*glm), t.Glm46VVideoProcessor()
    )
    gemma = {"image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>"}
    gemma |= {"audio_token": "<|audio|>", "boa_token": "<|audio>", "eoa_token": "<audio|>"}
    made["Gemma4Processor"] = t.Gemma4Processor(
        feature_extractor=t.Gemma4AudioFeatureExtractor(),
        image_processor=t.Gemma4ImageProcessor(),
        tokenizer=make_tokenizer("<|video|>", **gemma),
        video_processor=t.Gemma4VideoProcessor(),
    )
    intern = {"start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>"}
    made["InternVLProcessor"] = t.InternVLProcessor(
        t.GotOcr2ImageProcessor(), make_tokenizer(**intern, video_token="<video>"), t.InternVLVideoProcessor()
    )
    made["LlavaOnevisionProcessor"] = t.LlavaOnevisionProcessor(
        t.LlavaOnevisionImageProcessor(),
        make_tokenizer("<image>", "<video>"),
        t.LlavaOnevisionVideoProcessor(),
        num_image_tokens=729,
        vision_feature_select_strategy="full",
        patch_size=14,
    )
    omni = {
        f"{kind}_token": f"<|{kind.upper()}|>"
        for kind in ("image", "audio", "video", "vision_bos", "vision_eos", "audio_bos", "audio_eos")
    }
    made["Qwen2_5OmniProcessor"] = t.Qwen2_5OmniProcessor(
        image_processor=t.Qwen2VLImageProcessor(),
        video_processor=t.Qwen2VLVideoProcessor(),
        feature_extractor=t.WhisperFeatureExtractor(feature_size=128),
        tokenizer=make_tokenizer(**omni),
    )
    return made


def list_tokens(video_processor: Any, whole: Any) -> list[list[Any]]:
    """Give patches, where they are counted, and tokens of each case; whole is a processor around the same class."""
    whole.video_processor = video_processor
    rows: list[list[Any]] = []
    for case in TOKENS:
        patches = None
        if hasattr(video_processor, "get_num_of_video_patches"):
            patches = ask(lambda case=case: video_processor.get_num_of_video_patches(*case, {}))
        tokens = ask(
            lambda case=case: whole._get_num_multimodal_tokens(video_sizes=[list(case)])["num_video_tokens"][0]
        )
        rows.append([*case, patches, tokens])
    return rows


SIDES = {"InternVLProcessor": 384, "LlavaOnevisionProcessor": 384, "Gemma4Processor": 96, "Qwen3VLProcessor": 64}


def write_text(whole: Any, told: dict[str, Any], side: int) -> dict[str, Any]:
    """Give the text that goes to the tokenizer, a run of one token as token*count, and the seconds beside it."""
    texts: list[str] = []
    kind = type(whole.tokenizer)

    class Listening(kind):  # type: ignore[misc, valid-type]
        def __call__(self, text: Any = None, *rest: Any, **keywords: Any) -> Any:
            texts.extend([text] if isinstance(text, str) else text)
            return super().__call__(text, *rest, **keywords)

    clip = torch.zeros(len(told["frames_indices"]), 3, side, side, dtype=torch.uint8)
    about = {
        **told,
        "frames_indices": list(told["frames_indices"]),
        "width": side,
        "height": side,
        "video_backend": "framefeed",
    }
    whole.tokenizer.__class__ = Listening
    try:
        out = whole(
            text=[f"before {whole.video_token} after"],
            videos=[clip],
            video_metadata=[about],
            do_sample_frames=False,
            do_resize=False,
            return_tensors="pt",
        )
    finally:
        whole.tokenizer.__class__ = kind
    text = texts[-1]
    token = next(token for token in (whole.video_token, whole.image_token) if token in texts[-1])
    runs = re.compile(f"(?:{re.escape(token)})+")
    counts = [len(run) // len(token) for run in runs.findall(texts[-1])]
    text = runs.sub(lambda run: f"{token}*{len(run[0]) // len(token)}", texts[-1])
    row: dict[str, Any] = {"text": text, "tokens": sum(counts), "prompt": out["input_ids"].shape[1]}
    for name in ("second_per_grid_ts", "video_second_per_grid"):
        if name in out:
            row[name] = [float(value) for value in out[name]]
    if "video_grid_thw" in out:
        row["video_grid_thw"] = out["video_grid_thw"].tolist()
    return row


def list_texts(name: str, whole: Any) -> list[Any]:
    """Give the text for each dict of METADATA."""
    side = SIDES.get(name, 56)
    return [ask(lambda told=told: write_text(whole, told, side)) for told in METADATA]


def fetch(count: int, rate: Any, height: int, width: int, element: dict[str, Any], patch: int) -> dict[str, Any]:
    """Let qwen-vl-utils fetch a video of a file that does not exist: TorchCodec's decoder is one without pixels."""
    from qwen_vl_utils import vision_process

    class Decoder:
        def __init__(self, *_: Any, **__: Any) -> None:
            self.metadata = types.SimpleNamespace(average_fps=float(rate), num_frames=count)

        def get_frames_at(self, indices: list[int]) -> Any:
            return types.SimpleNamespace(data=torch.empty(len(indices), 3, height, width, **META))

    def fail(_: Any) -> Any:
        raise failure[0]

    def read(ele: Any) -> Any:
        try:
            return real(ele)
        except Exception as error:
            failure.append(error)
            raise

    failure: list[Exception] = []
    real = vision_process._read_video_torchcodec
    decoders = types.ModuleType("torchcodec.decoders")
    decoders.VideoDecoder = Decoder  # type: ignore[attr-defined]
    sys.modules["torchcodec.decoders"] = decoders
    backends = vision_process.VIDEO_READER_BACKENDS
    backends["torchcodec"], backends["torchvision"] = read, fail
    vision_process.get_video_reader_backend = lambda: "torchcodec"
    (video, metadata), rate_of_samples = vision_process.fetch_video(
        {"video": "none.mp4", **element},
        image_patch_size=patch,
        return_video_sample_fps=True,
        return_video_metadata=True,
    )
    told = {"fps": metadata["fps"], "total_num_frames": metadata["total_num_frames"]}
    size = [int(side) for side in video.shape[-2:]]
    return {
        "n": len(video),
        "size": size,
        "indices": condense(metadata["frames_indices"]),
        "sample_fps": rate_of_samples,
        **told,
    }


def fetch_list(count: int, height: int, width: int, element: dict[str, Any], patch: int) -> dict[str, Any]:
    """Let qwen-vl-utils take a list of pictures as a video."""
    from qwen_vl_utils import vision_process

    first: list[list[int]] = []
    real = vision_process.fetch_image

    def listen(ele: Any, image_patch_size: int) -> Any:
        image = real(ele, image_patch_size)
        first.append([image.height, image.width])
        return image

    vision_process.fetch_image = listen
    try:
        (video, metadata), rate = vision_process.fetch_video(
            {"video": [Image.new("RGB", (width, height))] * count, **element},
            image_patch_size=patch,
            return_video_sample_fps=True,
            return_video_metadata=True,
        )
    finally:
        vision_process.fetch_image = real
    size = [int(side) for side in video.shape[-2:]]
    told = {"fps": metadata["fps"], "total_num_frames": metadata["total_num_frames"]}
    return {
        "n": len(video),
        "first": first[0],
        "size": size,
        "sample_fps": rate,
        "indices": metadata["frames_indices"],
        **told,
    }


def list_qwen_vl_utils() -> dict[str, Any]:
    """Give what qwen-vl-utils computes."""
    from qwen_vl_utils import vision_process

    vision_process.logger.setLevel(logging.CRITICAL)
    sizes = []
    for height, width, factor, limits in QWEN_SIZES:
        found = ask(lambda case=(height, width, factor), limits=limits: vision_process.smart_resize(*case, **limits))
        sizes.append([height, width, factor, limits, *([found] if isinstance(found, str) else found)])
    counts = []
    for count, rate, element in QWEN_COUNTS:
        found = ask(lambda case=(element, count, float(rate)): vision_process.smart_nframes(*case))
        counts.append([count, str(rate), element, found])
    videos = []
    lists = []
    for patch in (14, 16):
        for count, rate, height, width, element in QWEN_VIDEOS:
            found = ask(lambda case=(count, rate, height, width, element, patch): fetch(*case))
            videos.append(
                {
                    "N": count,
                    "rate": str(rate),
                    "h": height,
                    "w": width,
                    "element": element,
                    "patch": patch,
                    "result": found,
                }
            )
        for case in QWEN_LISTS:
            found = ask(lambda case=(*case, patch): fetch_list(*case))
            lists.append(
                {"frames": case[0], "h": case[1], "w": case[2], "element": case[3], "patch": patch, "result": found}
            )
    return {"smart_resize": sizes, "smart_nframes": counts, "fetch_video": videos, "fetch_video_of_frames": lists}


def make_golden() -> dict[str, Any]:
    """Ask all."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    processors = make_processors()
    wholes = make_whole_processors()
    by_class = {
        type(whole.video_processor).__name__: name for name, whole in wholes.items() if name != "Qwen2_5OmniProcessor"
    }
    described, sizes, indices, tokens = {}, {}, {}, {}
    seen: dict[str, str] = {}
    for name, (video_processor, about) in processors.items():
        prove_sizes(video_processor)
        described[name] = describe(video_processor, about)
        sizes[name] = list_sizes(video_processor)
        rows = list_indices(video_processor)
        alike = seen.setdefault(json.dumps(rows), name)
        indices[name] = rows if alike == name else alike
        whole = by_class.get(type(video_processor).__name__)
        if whole is not None:
            tokens[name] = list_tokens(video_processor, wholes[whole])
    texts = {name: list_texts(name, whole) for name, whole in make_whole_processors().items()}
    return {
        "made_with": {package: version(package).split("+")[0] for package in PINNED},
        "not_available": NOT_AVAILABLE,
        "processors": described,
        "sizes": sizes,
        "indices": indices,
        "tokens": tokens,
        "texts": {"metadata": METADATA, "processors": texts},
        "qwen_vl_utils": list_qwen_vl_utils(),
    }


def dump(document: dict[str, Any]) -> str:
    """Write one line for each thing that was asked: small, and a change is a line of a diff."""

    def lines(value: Any, depth: int) -> str:
        if depth == 0 or not isinstance(value, (dict, list)) or not value:
            return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        if isinstance(value, dict):
            return (
                "{\n" + ",\n".join(f"{json.dumps(key)}:{lines(item, depth - 1)}" for key, item in value.items()) + "\n}"
            )
        return "[\n" + ",\n".join(lines(item, 0) for item in value) + "\n]"

    return lines(document, 4) + "\n"


def find_differences(was: Any, now: Any, where: str = "") -> list[str]:
    """List where two documents differ."""
    if isinstance(was, dict) and isinstance(now, dict):
        return [
            line for key in {**was, **now} for line in find_differences(was.get(key), now.get(key), f"{where}/{key}")
        ]
    if isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        return [
            line
            for at, pair in enumerate(zip(was, now, strict=True))
            for line in find_differences(*pair, f"{where}/{at}")
        ]
    return [] if was == now else [f"{where}: {str(was)[:200]} -> {str(now)[:200]}"]


def main(arguments: list[str] | None = None) -> int:
    """Write the file, or compare with it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare with the file, and write nothing")
    options = parser.parse_args(arguments)
    text = dump(make_golden())
    if not options.check:
        GOLDEN.write_text(text)
        print(f"wrote {GOLDEN.name}: {len(text):,} characters")
        return 0
    differences = find_differences(json.loads(GOLDEN.read_text()), json.loads(text))
    print("\n".join(differences[:50]) or "as recorded")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
