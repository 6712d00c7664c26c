#!/usr/bin/env python3
"""Which models of torchvision and transformers become model files: 18 of each, in tiny configurations, imported as
`import_pytorch.py --layers` does and checked there against the module.

    import_pytorch_coverage.py [--program build/sluice] [--python .venv-peers/bin/python] [--only NAME,...]

Prints a line a model: how many layers the file has, how many of them are Modules, and parameters; or why there is no
file. Where layers share weights, --untie is used, which the line says. Models whose library is not installed are
skipped; status 77 where neither is. Fails where fewer than 30 of the 36 are imported. --program: `sluice` reads every
file and plans two stages.
"""
import argparse
import collections
import os
import subprocess
import sys
import tempfile
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from import_pytorch_test import HOME, with_torch  # noqa: E402

GOAL = 30
IMAGE = (2, 3, 64, 64)
WORDS = dict(vocab_size=99, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48,
             max_position_embeddings=40, pad_token_id=0)


def vision(name, image=IMAGE, **options):
    def make(torch, library):
        return getattr(library.models, name)(**options), torch.randn(image)
    return make


def small_vision(torch, library):
    return library.models.VisionTransformer(image_size=32, patch_size=8, num_layers=3, num_heads=4, hidden_dim=32,
                                            mlp_dim=48, num_classes=10), torch.randn(2, 3, 32, 32)


def words(model, config, inputs=("input_ids",), **options):
    def make(torch, library):
        made = getattr(library, model)(getattr(library, config)(**options))
        if hasattr(made.config, "use_cache"):
            made.config.use_cache = False
        return made, (), {name: torch.randint(2, 99, (2, 16)) for name in inputs}
    return make


def small_images(torch, library):
    sizes = {k: WORDS[k] for k in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")}
    config = library.ViTConfig(image_size=32, patch_size=8, **sizes)
    return library.ViTForImageClassification(config), (), {"pixel_values": torch.randn(2, 3, 32, 32)}


MODELS = {
    "torchvision": {
        "alexnet": vision("alexnet"), "vgg11_bn": vision("vgg11_bn"), "squeezenet": vision("squeezenet1_1"),
        "resnet18": vision("resnet18"), "resnext50": vision("resnext50_32x4d"), "densenet121": vision("densenet121"),
        "googlenet": vision("googlenet", aux_logits=False, init_weights=False),
        "inception_v3": vision("inception_v3", (2, 3, 96, 96), aux_logits=False, init_weights=False),
        "mobilenet_v2": vision("mobilenet_v2"), "mobilenet_v3": vision("mobilenet_v3_small"),
        "mnasnet": vision("mnasnet0_5"), "shufflenet": vision("shufflenet_v2_x0_5"),
        "efficientnet": vision("efficientnet_b0"), "regnet": vision("regnet_y_400mf"),
        "convnext": vision("convnext_tiny"), "vit": small_vision, "swin": vision("swin_t"),
        "maxvit": vision("maxvit_t", (2, 3, 224, 224)),
    },
    "transformers": {
        "bert": words("BertForMaskedLM", "BertConfig", **WORDS),
        "roberta": words("RobertaForMaskedLM", "RobertaConfig", **WORDS),
        "electra": words("ElectraForMaskedLM", "ElectraConfig", embedding_size=32, **WORDS),
        "albert": words("AlbertForMaskedLM", "AlbertConfig", embedding_size=32, **WORDS),
        "distilbert": words("DistilBertForMaskedLM", "DistilBertConfig", vocab_size=99, dim=32, n_layers=3, n_heads=4,
                            hidden_dim=48, max_position_embeddings=40),
        "xlnet": words("XLNetLMHeadModel", "XLNetConfig", vocab_size=99, d_model=32, n_layer=3, n_head=4, d_inner=48),
        "gpt2": words("GPT2LMHeadModel", "GPT2Config", vocab_size=99, n_positions=40, n_embd=32, n_layer=3, n_head=4,
                      bos_token_id=1, eos_token_id=1),
        "gpt_neox": words("GPTNeoXForCausalLM", "GPTNeoXConfig", **WORDS),
        "opt": words("OPTForCausalLM", "OPTConfig", vocab_size=99, hidden_size=32, num_hidden_layers=3,
                     num_attention_heads=4, ffn_dim=48, max_position_embeddings=40, word_embed_proj_dim=32),
        "bloom": words("BloomForCausalLM", "BloomConfig", vocab_size=99, hidden_size=32, n_layer=3, n_head=4),
        "llama": words("LlamaForCausalLM", "LlamaConfig", num_key_value_heads=2, **WORDS),
        "mistral": words("MistralForCausalLM", "MistralConfig", num_key_value_heads=2, **WORDS),
        "qwen2": words("Qwen2ForCausalLM", "Qwen2Config", num_key_value_heads=2, **WORDS),
        "gemma": words("GemmaForCausalLM", "GemmaConfig", num_key_value_heads=2, head_dim=8, **WORDS),
        "mixtral": words("MixtralForCausalLM", "MixtralConfig", num_key_value_heads=2, num_local_experts=4, **WORDS),
        "t5": words("T5ForConditionalGeneration", "T5Config", ("input_ids", "decoder_input_ids"), vocab_size=99,
                    d_model=32, d_kv=8, d_ff=48, num_layers=3, num_heads=4),
        "bart": words("BartForConditionalGeneration", "BartConfig", ("input_ids", "decoder_input_ids"), vocab_size=99,
                      d_model=32, encoder_layers=3, decoder_layers=3, encoder_attention_heads=4,
                      decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=40,
                      pad_token_id=0, bos_token_id=1, eos_token_id=1, decoder_start_token_id=1, forced_eos_token_id=1),
        "vit": small_images,
    },
}


def imported(make, torch, library, program, folder, untie):
    """What is said of one model. Throws Rejection."""
    import import_pytorch as importer
    torch.manual_seed(1)
    made = make(torch, library)
    recording = importer.record(*importer.examples("model", made))
    importer.add_loss(recording, "cross_entropy")
    model, _, files = importer.layers_of(recording, "model", untie, folder="model.modules")
    importer.write_modules(folder, files)
    importer.write(f"{folder}/model.json", model)
    parameters = sum(p.numel() for p in made[0].parameters())
    if program:
        run = subprocess.run([program, "plan", "-s", "gpipe", "-w", f"{folder}/model.json", "-c", "flat:2"],
                             capture_output=True, text=True)
        if run.returncode != 0:
            raise importer.Rejection(f"sluice does not read the file: {run.stderr}")
    return f"{len(model['layers'])} layers, {len(files)} of them Modules; {parameters:,} parameters"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="sluice")
    parser.add_argument("--python", default=os.path.join(HOME, ".venv-peers/bin/python"))
    parser.add_argument("--only", help="names, separated by commas")
    a = parser.parse_args()
    with_torch(a.python)
    warnings.simplefilter("ignore")
    import torch
    from pytorch_import.recording import Rejection
    torch.set_num_threads(1)
    counts = collections.Counter()
    for library, models in MODELS.items():
        try:
            module = __import__(library)
        except ImportError:
            print(f"{library} is not installed: {len(models)} models are skipped")
            continue
        for name, make in models.items():
            if a.only and f"{library}/{name}" not in a.only.split(","):
                continue
            counts["tried"] += 1
            with tempfile.TemporaryDirectory() as folder:
                try:
                    try:
                        said = imported(make, torch, module, a.program, folder, untie=False)
                    except Rejection as e:
                        if "--untie accepts that" not in str(e):
                            raise
                        said = imported(make, torch, module, a.program, folder, untie=True) + "; with --untie"
                    counts[library] += 1
                except Rejection as e:
                    said = f"not imported: {e}"
            print(f"{library}/{name}: {said}", flush=True)
    if not counts["tried"]:
        return 77
    print(f"imported: torchvision {counts['torchvision']}, transformers {counts['transformers']} of {counts['tried']}")
    everything = counts["tried"] == sum(map(len, MODELS.values()))
    return 1 if everything and counts["torchvision"] + counts["transformers"] < GOAL else 0


if __name__ == "__main__":
    sys.exit(main())
