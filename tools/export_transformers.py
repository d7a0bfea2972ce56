#!/usr/bin/env python3
"""Exports transformer graphs of examples/graphs, without weights: tools/make_weights.py makes those.

usage: tools/export_transformers.py [-o DIR] [NAME...]        (needs torch 1.13, transformers 4.30; without names: all)

    python3 -m venv --system-site-packages venv      # Debian's torch
    venv/bin/pip install --no-deps transformers==4.30.2 huggingface-hub==0.16.4 tokenizers==0.13.3 safetensors==0.3.1 \\
        filelock fsspec tqdm regex packaging requests pyyaml typing_extensions
"""
import warnings

import torch
import transformers

import graph_export

BATCH, SEQUENCE = ("batch",), ("batch", "sequence")
TOKENS = {"input_ids": SEQUENCE, "attention_mask": SEQUENCE, "token_type_ids": SEQUENCE}
MINILM = dict(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
LARGE = dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)


class Sentence(torch.nn.Module):
    """A BERT, and the mean of its token embeddings where the mask is 1, with length 1."""

    def __init__(self, config):
        super().__init__()
        self.bert = transformers.BertModel(config, add_pooling_layer=False)

    def forward(self, input_ids, attention_mask, token_type_ids):
        tokens = self.bert(input_ids, attention_mask, token_type_ids)[0]
        mask = attention_mask.unsqueeze(-1).to(tokens.dtype)
        mean = (tokens * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return tokens, torch.nn.functional.normalize(mean, p=2.0, dim=1)


class Decoder(torch.nn.Module):
    """T5's decoder and the projection to its vocabulary, which is the embedding again."""

    def __init__(self, config):
        super().__init__()
        model = transformers.T5ForConditionalGeneration(config)
        self.decoder, self.lm_head, self.scale = model.decoder, model.lm_head, config.d_model ** -0.5

    def forward(self, decoder_input_ids, encoder_hidden_states, encoder_attention_mask):
        hidden = self.decoder(input_ids=decoder_input_ids, encoder_hidden_states=encoder_hidden_states,
                              encoder_attention_mask=encoder_attention_mask)[0]
        return self.lm_head(hidden * self.scale)


def ids(sequence=16):
    return torch.arange(2 * sequence).reshape(2, sequence) % 100 + 1


def bert(opset, **sizes):
    model = transformers.BertModel(transformers.BertConfig(**sizes))
    mask = torch.ones_like(ids())
    return graph_export.export(model, (ids(), mask, mask), TOKENS, {"last_hidden_state": SEQUENCE, "pooler_output": BATCH}, opset)


def minilm():
    mask = torch.ones_like(ids())
    return graph_export.export(Sentence(transformers.BertConfig(**MINILM)), (ids(), mask, mask), TOKENS,
                               {"token_embeddings": SEQUENCE, "sentence_embedding": BATCH}, 17)


def gpt2():
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False))
    return graph_export.export(model, ({"input_ids": ids(), "attention_mask": torch.ones_like(ids())},),
                               {"input_ids": SEQUENCE, "attention_mask": SEQUENCE}, {"logits": SEQUENCE}, 17)


def t5_encoder():
    model = transformers.T5EncoderModel(transformers.T5Config(use_cache=False))
    return graph_export.export(model, ({"input_ids": ids(), "attention_mask": torch.ones_like(ids())},),
                               {"input_ids": SEQUENCE, "attention_mask": SEQUENCE}, {"last_hidden_state": SEQUENCE}, 14)


def t5_decoder():
    model = Decoder(transformers.T5Config(use_cache=False))
    example = (ids(), torch.randn(2, 12, 512), torch.ones(2, 12, dtype=torch.long))
    inputs = {"decoder_input_ids": SEQUENCE, "encoder_hidden_states": ("batch", "encoder_sequence"),
              "encoder_attention_mask": ("batch", "encoder_sequence")}
    return graph_export.export(model, example, inputs, {"logits": SEQUENCE}, 14)


EXPORTERS = {
    "bert_base": lambda: bert(14),  # before opset 17 a LayerNormalization is nine nodes
    "bert_large": lambda: bert(17, **LARGE),
    "gpt2": gpt2,
    "minilm": minilm,
    "t5_small_encoder": t5_encoder,
    "t5_small_decoder": t5_decoder,
}

if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    graph_export.main(__doc__, EXPORTERS)
