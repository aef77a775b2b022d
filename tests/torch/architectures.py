"""Tables of architectures by their building blocks, as narrow and shallow as their structure allows."""

from __future__ import annotations

from typing import Any

from tests.torch.families import (
    Family,
    between,
    described,
    films,
    images,
    noise,
    spectra,
    text,
    translated,
    waves,
    words,
)

SHORT = ((2, 7), (3, 5))
LONGER = ((2, 7), (3, 11))  # lengths that are no multiples of a chunk
MANY = ((6, 7), (8, 5))  # where results have an element for each pair of examples: of few, an error says little
BATCHES = ((2, 32), (3, 32))  # images of one size, that of the learned position embeddings
SIDES = ((2, 32), (3, 48))
LARGE = ((2, 64), (3, 96))
EVEN = ((2, 64), (3, 128))  # that stay even when they are halved: how a border is split depends on it
SOUNDS = ((2, 400), (3, 640))

# --- language ------------------------------------------------------------------------------------------------------

SMALL = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 99, "num_hidden_layers": 1}
DECODER = SMALL | {"use_cache": False}
GROUPED = DECODER | {"num_key_value_heads": 2}
HEADS = GROUPED | {"head_dim": 8}
OLD = {"n_embd": 32, "n_layer": 1, "n_head": 4, "vocab_size": 99, "use_cache": False}
NARROW = SMALL | {"embedding_size": 16}
MARKS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
BOTH = {
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": 99, "use_cache": False,
}  # fmt: skip
T5 = {
    "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4, "vocab_size": 99, "use_cache": False,
    "decoder_start_token_id": 0,
}  # fmt: skip
NEO = {
    "hidden_size": 32, "num_layers": 2, "num_heads": 4, "vocab_size": 99, "intermediate_size": 64,
    "attention_types": [[["global", "local"], 1]], "use_cache": False,
}  # fmt: skip
OPT = {
    "hidden_size": 32, "num_attention_heads": 4, "ffn_dim": 64, "vocab_size": 99, "num_hidden_layers": 1,
    "word_embed_proj_dim": 32, "use_cache": False, "pad_token_id": 1,
}  # fmt: skip
DISTIL = {"dim": 32, "n_heads": 4, "hidden_dim": 64, "n_layers": 1, "vocab_size": 99}
XLNET = {"vocab_size": 99, "d_model": 32, "n_layer": 1, "n_head": 4, "d_inner": 64}


def language(settings: dict[str, dict[str, Any]], call: Any = text) -> dict[str, Family]:
    """Models of words, each named like its class."""
    return {name: Family(f"{name}Model", own, call, SHORT) for name, own in settings.items()}


ENCODERS = language({
    "Bert": SMALL, "Roberta": SMALL, "XLMRoberta": SMALL, "Camembert": SMALL, "Ernie": SMALL, "MPNet": SMALL,
    "LayoutLM": SMALL, "Electra": NARROW, "Albert": NARROW, "DistilBert": DISTIL, "Deberta": SMALL,
    "DebertaV2": SMALL, "RoFormer": SMALL | {"embedding_size": 32},
    "ConvBert": SMALL | {"embedding_size": 32, "conv_kernel_size": 3}, "XLNet": XLNET,
    "ModernBert": SMALL | MARKS | {"cls_token_id": 1, "sep_token_id": 2},
}) | language({"FNet": SMALL}, words)  # fmt: skip
DECODERS = language({
    "GPT2": OLD, "GPTJ": OLD | {"rotary_dim": 4}, "CodeGen": OLD | {"rotary_dim": 4}, "GPTNeoX": DECODER,
    "GPTNeo": NEO, "OPT": OPT, "Llama": GROUPED, "Mistral": GROUPED, "Qwen2": GROUPED, "Qwen3": HEADS, "Gemma": HEADS,
    "Gemma2": HEADS, "Gemma3Text": HEADS, "Phi": DECODER, "Phi3": GROUPED | {"pad_token_id": 0}, "StableLm": GROUPED,
    "Cohere": GROUPED, "Falcon": DECODER,
    "Bloom": {"vocab_size": 99, "hidden_size": 32, "n_layer": 1, "n_head": 4, "use_cache": False},
    "Mpt": {"vocab_size": 99, "d_model": 32, "n_layers": 1, "n_heads": 4, "use_cache": False},
})  # fmt: skip
TRANSLATORS = language({"T5": T5, "Bart": BOTH | {"max_position_embeddings": 64}}, translated(text))

# --- images --------------------------------------------------------------------------------------------------------

PATCHES = {
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 32,
    "patch_size": 8,
}  # fmt: skip
DINO = {name: value for name, value in PATCHES.items() if name != "intermediate_size"}
SHAPED = PATCHES | {"use_relative_position_bias": True}
STAGES = {
    "depths": [1] * 4,
    "hidden_sizes": [8, 16, 16, 32],
    "num_attention_heads": [1, 2, 2, 4],
    "mlp_ratios": [2] * 4,
}
DPT = {
    "is_hybrid": False, "num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3],
    "neck_hidden_sizes": [8, 8, 16, 16], "fusion_hidden_size": 8, "reassemble_factors": [4, 2, 1, 0.5],
}  # fmt: skip
SAM = PATCHES | {"patch_size": 4, "output_channels": 16, "window_size": 4, "global_attn_indexes": [0], "mlp_dim": 64}
VISION = {
    "ViT": Family("ViTModel", PATCHES, between, ((2, 48), (3, 64))),
    "DeiT": Family("DeiTModel", PATCHES, images, BATCHES),
    "BEiT": Family("BeitModel", SHAPED, images, BATCHES),
    "Data2VecVision": Family("Data2VecVisionModel", SHAPED, images, BATCHES),
    "DINOv2": Family("Dinov2Model", DINO, images, ((2, 48), (3, 64))),
    "DINOv2 with registers": Family("Dinov2WithRegistersModel", DINO, images, ((2, 48), (3, 64)), programs=2),
    "DINOv3": Family("DINOv3ViTModel", PATCHES, images, SIDES),
    "ViTMSN": Family("ViTMSNModel", PATCHES, between, ((2, 48), (3, 64))),
    "I-JEPA": Family("IJepaModel", PATCHES, images, BATCHES),
    "SAM's encoder": Family("SamVisionModel", SAM, images, BATCHES, "SamVisionConfig"),
    "VideoMAE": Family("VideoMAEModel", PATCHES | {"num_frames": 4}, films(4), BATCHES),
    "TimeSformer": Family("TimesformerModel", PATCHES | {"num_frames": 2}, films(2), BATCHES),
    "DPT": Family("DPTForDepthEstimation", PATCHES | DPT, images, BATCHES, "DPTConfig"),
}

WINDOWS = {
    "image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 2], "num_heads": [2, 4], "window_size": 4,
}  # fmt: skip
HIERA = {
    "embed_dim": 16, "image_size": [32, 32], "patch_size": [7, 7], "patch_stride": [4, 4], "patch_padding": [3, 3],
    "mlp_ratio": 2.0, "depths": [1, 1], "num_heads": [2, 4], "masked_unit_size": [4, 4], "query_stride": [2, 2],
    "num_query_pool": 1,
}  # fmt: skip
FOCAL = {
    "image_size": 32, "patch_size": 2, "embed_dim": 16, "hidden_sizes": [16, 32], "depths": [1, 1],
    "focal_levels": [2, 2], "focal_windows": [3, 3],
}  # fmt: skip
WINDOWED = {
    "Swin": Family("SwinModel", WINDOWS, images, SIDES),
    "Swinv2": Family("Swinv2Model", WINDOWS, images, SIDES),
    "DonutSwin": Family("DonutSwinModel", WINDOWS, images, SIDES),
    "FocalNet": Family("FocalNetModel", FOCAL, images, SIDES),
    "Hiera": Family("HieraModel", HIERA, images, BATCHES),
}

CVT = {"embed_dim": [16, 32, 48], "num_heads": [1, 2, 3], "depth": [1, 2, 3], "mlp_ratio": [2.0] * 3}
LEVIT = {
    "image_size": 64, "hidden_sizes": [16, 32, 48], "num_attention_heads": [1, 2, 3], "depths": [1, 1, 1],
    "key_dim": [8, 8, 8],
}  # fmt: skip
MOBILE = {
    "image_size": 64, "hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 12, 16, 16, 24, 32],
    "num_attention_heads": 2,
}  # fmt: skip
HYBRID = {
    "LeViT": Family("LevitModel", LEVIT, images, ((2, 64), (3, 64))),
    "CvT": Family("CvtModel", CVT, images, SIDES),
    "PVT": Family("PvtModel", STAGES | {"image_size": 64}, images, ((2, 64), (3, 64))),
    "PVTv2": Family("PvtV2Model", STAGES | {"image_size": 64}, images, LARGE),
    "SegFormer": Family("SegformerModel", STAGES, images, LARGE),
    "GLPN": Family("GLPNForDepthEstimation", STAGES | {"decoder_hidden_size": 8}, images, LARGE, "GLPNConfig"),
    "MobileViT": Family("MobileViTModel", MOBILE, images, LARGE, programs=2),
}

RESIDUAL = {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1]}
NEXT = {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2}
EFFICIENT = {
    "width_coefficient": 0.5, "depth_coefficient": 0.5, "kernel_sizes": [3, 3, 5], "in_channels": [32, 16, 24],
    "out_channels": [16, 24, 32], "strides": [1, 2, 2], "num_block_repeats": [1, 1, 1], "expand_ratios": [1, 6, 6],
    "hidden_dim": 640,
}  # fmt: skip
POOLING = {"hidden_sizes": [8, 16, 16, 32], "depths": [1] * 4, "mlp_ratio": 2.0}
SWIFT = {"image_size": 64, "depths": [1] * 4, "embed_dims": [8, 16, 16, 32], "mlp_ratio": 2}
TEXTNET = {"stem_out_channels": 8, "hidden_sizes": [8, 8, 16, 16, 32]}
CNNS = {
    "ResNet": Family("ResNetModel", RESIDUAL | {"layer_type": "basic"}, images, SIDES),
    "RegNet": Family("RegNetModel", RESIDUAL | {"groups_width": 8}, images, SIDES),
    "BiT": Family("BitModel", RESIDUAL | {"num_groups": 4}, images, SIDES),
    "TextNet": Family("TextNetModel", TEXTNET, images, LARGE),
    "PoolFormer": Family("PoolFormerModel", POOLING, images, LARGE),
}
DEPTHWISE = {
    "ConvNeXt": Family("ConvNextModel", NEXT, images, SIDES),
    "ConvNeXtV2": Family("ConvNextV2Model", NEXT, images, SIDES),
    "MobileNetV1": Family("MobileNetV1Model", {"depth_multiplier": 0.25}, images, EVEN),
    "MobileNetV2": Family("MobileNetV2Model", {"depth_multiplier": 0.25}, images, EVEN, programs=2),
    "EfficientNet": Family("EfficientNetModel", EFFICIENT, images, SIDES),
    "SwiftFormer": Family("SwiftFormerModel", SWIFT, images, LARGE),
}

QUERIES = {name: n for name, n in BOTH.items() if name not in ("vocab_size", "use_cache")} | {"num_queries": 6}


def detector(config: str) -> Any:
    """A detector's configuration with a small ResNet as its backbone."""

    def made(library: Any) -> Any:
        backbone = library.ResNetConfig(**RESIDUAL, layer_type="basic", out_features=["stage2"])
        return getattr(library, config)(backbone_config=backbone, **QUERIES)

    return made


DETECTORS = {
    "DETR": Family("DetrForObjectDetection", detector("DetrConfig"), images, LARGE),
    "Conditional DETR": Family("ConditionalDetrModel", detector("ConditionalDetrConfig"), images, LARGE),
    "Table Transformer": Family("TableTransformerModel", detector("TableTransformerConfig"), images, LARGE),
    "YOLOS": Family("YolosModel", PATCHES | {"image_size": [32, 32], "num_detection_tokens": 5}, images,
                    ((2, 48), (3, 64))),
}  # fmt: skip

# --- sound ---------------------------------------------------------------------------------------------------------

FRONT = {
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64,
    "conv_dim": [16, 16, 16], "conv_stride": [5, 2, 2], "conv_kernel": [10, 3, 3], "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4, "vocab_size": 32,
}  # fmt: skip
WHISPER = BOTH | MARKS | {
    "num_mel_bins": 16, "max_source_positions": 20, "max_target_positions": 20, "decoder_start_token_id": 1,
}  # fmt: skip
LISTENER = BOTH | {
    "input_feat_per_channel": 16, "conv_channels": 16, "max_source_positions": 100, "max_target_positions": 50,
    "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2,
}  # fmt: skip
CONFORMER = SMALL | {"feature_projection_input_dim": 16, "conv_depthwise_kernel_size": 7}
AUDIO = {
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64, "patch_size": 4,
    "frequency_stride": 4, "time_stride": 4, "max_length": 24, "num_mel_bins": 16,
}  # fmt: skip
PARAKEET = {
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64, "num_mel_bins": 16,
    "subsampling_conv_channels": 8, "conv_kernel_size": 5,
}  # fmt: skip
VOICE = {
    "model_in_dim": 16, "upsample_initial_channel": 16, "upsample_rates": [4, 2], "upsample_kernel_sizes": [8, 4],
    "resblock_kernel_sizes": [3], "resblock_dilation_sizes": [[1, 3]],
}  # fmt: skip


def whisper(batch: int, length: int) -> dict[str, Any]:
    """Sound (batch, 16 bands, 40 frames), whose strided convolution fills the model's 20 positions, and words."""
    return {"input_features": noise(batch, 16, 40), "decoder_input_ids": words(batch, length)["input_ids"]}


def spectrogram(batch: int, length: int) -> dict[str, Any]:
    """The input of a vocoder (batch, length, bands)."""
    return {"spectrogram": noise(batch, length, 16)}


SPEECH = {
    "Whisper": Family("WhisperModel", WHISPER, whisper, ((2, 5), (3, 9))),
    **{name: Family(f"{name}Model", FRONT, waves, SOUNDS)
       for name in ("Wav2Vec2", "Hubert", "WavLM", "UniSpeech", "UniSpeechSat", "SEW", "Wav2Vec2Conformer")},
    "Data2VecAudio": Family("Data2VecAudioModel", FRONT | {"num_conv_pos_embeddings": 2, "conv_pos_kernel_size": 5},
                            waves, SOUNDS),
    "Wav2Vec2Bert": Family("Wav2Vec2BertModel", CONFORMER, spectra(16), ((2, 20), (3, 31))),
    "Audio spectrogram transformer": Family(
        "ASTModel", AUDIO, lambda batch, length: {"input_values": noise(batch, length, 16)}, ((2, 24), (3, 24))),
    "Speech2Text": Family("Speech2TextModel", LISTENER, translated(spectra(16), 4), ((2, 28), (3, 36))),
    "Parakeet's encoder": Family("ParakeetEncoder", PARAKEET, spectra(16), ((2, 40), (3, 57)), "ParakeetEncoderConfig"),
    "HiFi-GAN": Family("SpeechT5HifiGan", VOICE, spectrogram, ((2, 8), (3, 11)), "SpeechT5HifiGanConfig"),
}  # fmt: skip

# --- images and words ----------------------------------------------------------------------------------------------

READER = SMALL | {"max_position_embeddings": 40}
READ = READER | {"projection_dim": 16, "eos_token_id": 2, "pad_token_id": 1, "bos_token_id": 0}
SEEN = PATCHES | {"projection_dim": 16}


def pair(config: str, words: dict[str, Any], seen: dict[str, Any], **own: Any) -> Any:
    """The configuration of a model of words and images."""
    return lambda library: getattr(library, config)(text_config=words, vision_config=seen, **own)


def captioner(library: Any) -> Any:
    """A ViT whose patches a decoder reads."""
    decoder = library.TrOCRConfig(vocab_size=99, d_model=32, decoder_layers=1, decoder_attention_heads=4,
                                  decoder_ffn_dim=64, cross_attention_hidden_size=32, use_cache=False)  # fmt: skip
    encoder = library.ViTConfig(**PATCHES)
    return library.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)


def captioned(batch: int, length: int) -> dict[str, Any]:
    """Images, and the words so far."""
    return images(batch, 32) | {"decoder_input_ids": words(batch, length)["input_ids"]}


BLIP = READER | {"encoder_hidden_size": 32, "projection_dim": 16, "use_cache": False}
PAIRS = {
    "CLIP": Family("CLIPModel", pair("CLIPConfig", READ, SEEN, projection_dim=16), described(32), MANY),
    "SigLIP": Family("SiglipModel", pair("SiglipConfig", READER, PATCHES), described(32), MANY),
    "BLIP": Family("BlipForImageTextRetrieval", pair("BlipConfig", BLIP, PATCHES, projection_dim=16,
                                                     image_text_hidden_size=16), described(32), MANY),
    "Chinese CLIP": Family("ChineseCLIPModel", pair("ChineseCLIPConfig", READER, SEEN, projection_dim=16),
                           described(32), MANY),
    "AltCLIP": Family("AltCLIPModel", pair("AltCLIPConfig", READER | {"project_dim": 16}, SEEN, projection_dim=16),
                      described(32), MANY),
    "ALIGN": Family("AlignModel", pair("AlignConfig", READER, EFFICIENT, projection_dim=16), described(32), MANY),
    "TrOCR": Family("VisionEncoderDecoderModel", captioner, captioned, MANY),
}  # fmt: skip

# --- states instead of attention -----------------------------------------------------------------------------------

STATES = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 1, "use_cache": False}
RWKV = STATES | {"context_length": 32, "num_hidden_layers": 2, "rescale_every": 0}  # or a call changes weights
MAMBA2 = STATES | {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 4}
RECURRENT = {
    "Mamba": Family("MambaModel", STATES | {"state_size": 4}, words, LONGER, programs=2),
    "FalconMamba": Family("FalconMambaModel", STATES | {"state_size": 4}, words, LONGER, programs=2),
    "Mamba2": Family("Mamba2Model", MAMBA2, words, LONGER),
    "RWKV": Family("RwkvModel", RWKV, words, LONGER, programs=2),
}

KINDS = {
    "encoders": ENCODERS, "decoders": DECODERS, "encoder-decoders": TRANSLATORS, "vision transformers": VISION,
    "windowed transformers": WINDOWED, "convolution and attention": HYBRID, "CNNs": CNNS, "depthwise CNNs": DEPTHWISE,
    "detectors": DETECTORS, "speech": SPEECH, "images and words": PAIRS, "state-space": RECURRENT,
}  # fmt: skip
FAMILIES = {name: family for families in KINDS.values() for name, family in families.items()}
# Those that were only seen to agree in the interpreter.
UNCOMPILED = {
    "ConvBert", "XLNet", "FNet", "SAM's encoder", "VideoMAE", "TimeSformer", "DPT", "DonutSwin", "FocalNet", "Hiera",
    "LeViT", "CvT", "PVT", "PVTv2", "GLPN", "MobileViT", "TextNet", "SwiftFormer", "Conditional DETR",
    "Table Transformer", "Speech2Text", "Parakeet's encoder", "HiFi-GAN", "BLIP", "ALIGN", "FalconMamba", "RWKV",
}  # fmt: skip
