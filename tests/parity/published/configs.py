"""What stands in published directories, key by key; long lists of labels and of tasks are cut short.

TINY are the sizes that the tests put in their place, by model_type, and by model where it needs its own.
"""

from typing import Any

JSON = dict[str, Any]

_LABELS = {"id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}}
_ONE_LABEL = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}

_GPT2: JSON = {
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "bos_token_id": 50256,
    "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024,
    "resid_pdrop": 0.1, "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
    "summary_type": "cls_index", "summary_use_proj": True,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}, "vocab_size": 50257,
}  # fmt: skip
_BERT: JSON = {
    "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768,
    "initializer_range": 0.02, "intermediate_size": 3072, "layer_norm_eps": 1e-12, "max_position_embeddings": 512,
    "model_type": "bert", "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 0,
    "position_embedding_type": "absolute", "transformers_version": "4.6.0.dev0", "type_vocab_size": 2,
    "use_cache": True, "vocab_size": 30522,
}  # fmt: skip
_T5: JSON = {
    "architectures": ["T5ForConditionalGeneration"], "d_ff": 2048, "d_kv": 64, "d_model": 512,
    "decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1, "initializer_factor": 1.0,
    "is_encoder_decoder": True, "layer_norm_epsilon": 1e-06, "model_type": "t5", "n_positions": 512, "num_heads": 8,
    "num_layers": 6, "output_past": True, "pad_token_id": 0, "relative_attention_num_buckets": 32,
    "task_specific_params": {"translation_en_to_de": {
        "early_stopping": True, "max_length": 300, "num_beams": 4, "prefix": "translate English to German: ",
    }}, "vocab_size": 32128,
}  # fmt: skip
_GATED: JSON = {
    **_T5, "d_ff": 1024, "dense_act_fn": "gelu_new", "feed_forward_proj": "gated-gelu", "is_gated_act": True,
    "num_decoder_layers": 8, "num_heads": 6, "num_layers": 8, "relative_attention_max_distance": 128,
    "tie_word_embeddings": False, "transformers_version": "4.23.1", "use_cache": True,
}  # fmt: skip
_BART: JSON = {
    "activation_dropout": 0.1, "activation_function": "gelu", "add_bias_logits": False, "add_final_layer_norm": False,
    "attention_dropout": 0.1, "bos_token_id": 0, "classif_dropout": 0.1, "classifier_dropout": 0.0, "d_model": 768,
    "decoder_attention_heads": 12, "decoder_ffn_dim": 3072, "decoder_layerdrop": 0.0, "decoder_layers": 6,
    "decoder_start_token_id": 2, "dropout": 0.1, "early_stopping": True, "encoder_attention_heads": 12,
    "encoder_ffn_dim": 3072, "encoder_layerdrop": 0.0, "encoder_layers": 6, "eos_token_id": 2,
    "forced_bos_token_id": 0, "forced_eos_token_id": 2, "gradient_checkpointing": False, **_LABELS, "init_std": 0.02,
    "is_encoder_decoder": True, "max_position_embeddings": 1024, "model_type": "bart", "no_repeat_ngram_size": 3,
    "normalize_before": False, "num_beams": 4, "num_hidden_layers": 6, "pad_token_id": 1, "scale_embedding": False,
    "task_specific_params": {"summarization": {"length_penalty": 1.0, "max_length": 128, "min_length": 12}},
    "use_cache": True, "vocab_size": 50265,
}  # fmt: skip
_LLAMA: JSON = {
    "architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
    "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008, "max_position_embeddings": 4096,
    "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
    "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None, "tie_word_embeddings": False,
    "torch_dtype": "float16", "transformers_version": "4.31.0.dev0", "use_cache": True, "vocab_size": 32000,
}  # fmt: skip
_LATER: JSON = {**_LLAMA, "attention_bias": False, "attention_dropout": 0.0, "torch_dtype": "bfloat16"}
_PHI3: JSON = {
    "architectures": ["Phi3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
    "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"}, "bos_token_id": 1,
    "embd_pdrop": 0.0, "eos_token_id": 32000, "hidden_act": "silu", "hidden_size": 3072,
    "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 4096, "model_type": "phi3",
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
    "original_max_position_embeddings": 4096, "pad_token_id": 32000, "resid_pdrop": 0.0, "rms_norm_eps": 1e-05,
    "rope_scaling": None, "rope_theta": 10000.0, "sliding_window": 2047, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "transformers_version": "4.40.2", "use_cache": True, "vocab_size": 32064,
}  # fmt: skip
_MISTRAL: JSON = {
    "architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
    "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 32768,
    "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "transformers_version": "4.34.0.dev0", "use_cache": True, "vocab_size": 32000,
}  # fmt: skip
_VIT: JSON = {
    "attention_probs_dropout_prob": 0.0, "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "hidden_size": 768,
    "id2label": {"0": "tench, Tinca tinca", "1": "crane", "2": "crane"},
    "image_size": 224, "initializer_range": 0.02, "intermediate_size": 3072,
    "label2id": {"tench, Tinca tinca": 0, "crane": 2}, "layer_norm_eps": 1e-12, "model_type": "vit",
    "num_attention_heads": 12, "num_channels": 3, "num_hidden_layers": 12, "patch_size": 16, "qkv_bias": True,
    "transformers_version": "4.13.0.dev0",
}  # fmt: skip

CONFIGS: dict[str, JSON] = {
    "gpt2": _GPT2,
    "distilgpt2": {**_GPT2, "_num_labels": 1, **_ONE_LABEL, "n_layer": 6},
    "bert-base-uncased": {**_BERT, "architectures": ["BertForMaskedLM"], "gradient_checkpointing": False},
    "bert_uncased_L-2_H-128_A-2": {
        "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 128,
        "initializer_range": 0.02, "intermediate_size": 512, "max_position_embeddings": 512, "model_type": "bert",
        "num_attention_heads": 2, "num_hidden_layers": 2, "type_vocab_size": 2, "vocab_size": 30522,
    },
    "ms-marco-MiniLM-L-6-v2": {
        **_BERT, "_name_or_path": "nreimers/MiniLM-L6-H384-uncased", "architectures": ["BertForSequenceClassification"],
        "gradient_checkpointing": False, "hidden_size": 384, **_ONE_LABEL,
        "sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity",
        "sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity", "version": "4.0.1"},
    },
    "all-MiniLM-L6-v2": {
        **_BERT, "_name_or_path": "nreimers/MiniLM-L6-H384-uncased", "architectures": ["BertModel"],
        "gradient_checkpointing": False, "hidden_size": 384, "num_hidden_layers": 6,
    },
    "bge-small-en": {
        **_BERT, "_name_or_path": "/root/.cache/torch/sentence_transformers/BAAI_bge-small-en/",
        "architectures": ["BertModel"], "classifier_dropout": None, "hidden_size": 384, **_ONE_LABEL,
        "torch_dtype": "float32",
    },
    "t5-small": _T5,
    "flan-t5-small": _GATED,
    "t5-v1_1-small": {**_GATED, "is_gated_act": True, "output_past": True},
    "bart-base": {
        **_BART, "_name_or_path": "bart-base", "architectures": ["BartModel"], "normalize_embedding": True,
        "torch_dtype": "float32",
    },
    "bart-large-cnn": {
        **_BART, "_num_labels": 3, "architectures": ["BartForConditionalGeneration"],
        "force_bos_token_to_be_generated": True, "length_penalty": 2.0, "max_length": 142, "min_length": 56,
        "output_past": True, "prefix": " ", "extra_pos_embeddings": 2, "vocab_size": 50264,
    },
    "opus-mt-en-de": {
        "_name_or_path": "/tmp/Helsinki-NLP/opus-mt-en-de", "_num_labels": 3, "activation_dropout": 0.0,
        "activation_function": "swish", "add_bias_logits": False, "add_final_layer_norm": False,
        "architectures": ["MarianMTModel"], "attention_dropout": 0.0, "bad_words_ids": [[58100]], "bos_token_id": 0,
        "classif_dropout": 0.0, "classifier_dropout": 0.0, "d_model": 512, "decoder_attention_heads": 8,
        "decoder_ffn_dim": 2048, "decoder_layerdrop": 0.0, "decoder_layers": 6, "decoder_start_token_id": 58100,
        "decoder_vocab_size": 58101, "dropout": 0.1, "encoder_attention_heads": 8, "encoder_ffn_dim": 2048,
        "encoder_layerdrop": 0.0, "encoder_layers": 6, "eos_token_id": 0, "forced_eos_token_id": 0,
        "gradient_checkpointing": False, **_LABELS, "init_std": 0.02, "is_encoder_decoder": True, "max_length": 512,
        "max_position_embeddings": 512, "model_type": "marian", "normalize_before": False,
        "normalize_embedding": False, "num_beams": 6, "num_hidden_layers": 6, "pad_token_id": 58100,
        "scale_embedding": True, "share_encoder_decoder_embeddings": True, "static_position_embeddings": True,
        "transformers_version": "4.22.0.dev0", "use_cache": True, "vocab_size": 58101,
    },
    "Llama-2-7b-hf": {**_LLAMA, "_name_or_path": "meta-llama/Llama-2-7b-hf"},
    "Llama-3.2-1B": {
        **_LATER, "bos_token_id": 128000, "eos_token_id": 128001, "head_dim": 64, "mlp_bias": False,
        "max_position_embeddings": 131072, "num_key_value_heads": 8, "rope_scaling": {
            "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        }, "rope_theta": 500000.0, "tie_word_embeddings": True,
    },
    "TinyLlama-1.1B-Chat-v1.0": {**_LATER, "num_key_value_heads": 4, "rope_theta": 10000.0},
    "SmolLM2-135M": {
        **_LATER, "bos_token_id": 0, "eos_token_id": 0, "is_llama_config": True, "num_key_value_heads": 3,
        "rope_interleaved": False, "rope_theta": 100000, "tie_word_embeddings": True,
    },
    "Mistral-7B-v0.1": _MISTRAL,
    "Mistral-7B-v0.3": {**_MISTRAL, "rope_theta": 1000000.0, "sliding_window": None, "attention_dropout": 0.0},
    "Qwen2-0.5B": {
        "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
        "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
        "intermediate_size": 4864, "max_position_embeddings": 131072, "max_window_layers": 24, "model_type": "qwen2",
        "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0, "sliding_window": 131072, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "transformers_version": "4.40.1", "use_cache": True, "use_mrope": False, "use_sliding_window": False,
        "vocab_size": 151936,
    },
    "Qwen3-0.6B": {
        "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024,
        "initializer_range": 0.02, "intermediate_size": 3072, "max_position_embeddings": 40960,
        "max_window_layers": 28, "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28,
        "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000000,
        "sliding_window": None, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "transformers_version": "4.51.0", "use_cache": True, "use_sliding_window": False, "vocab_size": 151936,
    },
    "granite-3.1-2b-base": {
        "architectures": ["GraniteForCausalLM"], "attention_bias": False, "attention_dropout": 0.1,
        "attention_multiplier": 0.015625, "bos_token_id": 0, "embedding_multiplier": 12.0, "eos_token_id": 0,
        "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192,
        "logits_scaling": 8.0, "max_position_embeddings": 131072, "mlp_bias": False, "model_type": "granite",
        "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8, "pad_token_id": 0,
        "residual_multiplier": 0.22, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 5000000.0,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": "4.47.0", "use_cache": True,
        "vocab_size": 49155,
    },
    "SmolLM3-3B-Base": {
        "architectures": ["SmolLM3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": None, "eos_token_id": 128001, "hidden_act": "silu", "hidden_size": 2048,
        "initializer_range": 0.02, "intermediate_size": 11008, "layer_types": ["full_attention"] * 36,
        "max_position_embeddings": 65536, "max_window_layers": 28, "mlp_bias": False, "model_type": "smollm3",
        "no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0] * 9, "num_attention_heads": 16,
        "num_hidden_layers": 36, "num_key_value_heads": 4, "pad_token_id": 128004, "pretraining_tp": 2,
        "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 5000000.0, "sliding_window": None,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": "4.53.0", "use_cache": True,
        "use_sliding_window": False, "vocab_size": 128256,
    },
    "OLMo-2-1124-7B": {
        "architectures": ["Olmo2ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "eos_token_id": 100257, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
        "intermediate_size": 11008, "max_position_embeddings": 4096, "model_type": "olmo2",
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "pad_token_id": 100277,
        "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 500000, "tie_word_embeddings": False,
        "torch_dtype": "float32", "transformers_version": "4.47.0.dev0", "use_cache": True, "vocab_size": 100352,
    },
    "Phi-3-mini-4k-instruct": _PHI3,
    "Phi-3-mini-128k-instruct": {
        **_PHI3, "max_position_embeddings": 131072, "sliding_window": 262144,
        "rope_scaling": {"long_factor": [1.08, 64.76], "short_factor": [1.0, 3.13], "type": "longrope"},
    },
    "gemma-2-2b": {
        "architectures": ["Gemma2ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "attn_logit_softcapping": 50.0, "bos_token_id": 2, "cache_implementation": "hybrid", "eos_token_id": 1,
        "final_logit_softcapping": 30.0, "head_dim": 256, "hidden_act": "gelu_pytorch_tanh",
        "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304, "initializer_range": 0.02,
        "intermediate_size": 9216, "max_position_embeddings": 8192, "model_type": "gemma2", "num_attention_heads": 8,
        "num_hidden_layers": 26, "num_key_value_heads": 4, "pad_token_id": 0, "query_pre_attn_scalar": 256,
        "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096, "torch_dtype": "float32",
        "transformers_version": "4.42.4", "use_cache": True, "vocab_size": 256000,
    },
    "gemma-3-1b-pt": {
        "architectures": ["Gemma3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "attn_logit_softcapping": None, "bos_token_id": 2, "cache_implementation": "hybrid", "eos_token_id": 1,
        "final_logit_softcapping": None, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 1152, "initializer_range": 0.02, "intermediate_size": 6912, "max_position_embeddings": 32768,
        "model_type": "gemma3_text", "num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1,
        "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000,
        "rope_scaling": None, "rope_theta": 1000000, "sliding_window": 512, "sliding_window_pattern": 6,
        "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0", "use_cache": True, "vocab_size": 262144,
    },
    "pythia-70m": {
        "architectures": ["GPTNeoXForCausalLM"], "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "gelu",
        "hidden_size": 512, "initializer_range": 0.02, "intermediate_size": 2048, "layer_norm_eps": 1e-05,
        "max_position_embeddings": 2048, "model_type": "gpt_neox", "num_attention_heads": 8, "num_hidden_layers": 6,
        "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": False, "torch_dtype": "float16",
        "transformers_version": "4.24.0", "use_cache": True, "use_parallel_residual": True, "vocab_size": 50304,
    },
    "opt-350m": {
        "activation_dropout": 0.0, "activation_function": "relu", "architectures": ["OPTForCausalLM"],
        "attention_dropout": 0.0, "bos_token_id": 2, "do_layer_norm_before": False, "dropout": 0.1, "eos_token_id": 2,
        "ffn_dim": 4096, "hidden_size": 1024, "init_std": 0.02, "layerdrop": 0.0, "max_position_embeddings": 2048,
        "model_type": "opt", "num_attention_heads": 16, "num_hidden_layers": 24, "pad_token_id": 1,
        "prefix": "</s>", "torch_dtype": "float16", "transformers_version": "4.21.0.dev0", "use_cache": True,
        "vocab_size": 50272, "word_embed_proj_dim": 512,
    },
    "vit-base-patch16-224": {**_VIT, "_name_or_path": "google/vit-base-patch16-224-in21k",
        "architectures": ["ViTForImageClassification"]},
    "deit-base-distilled-patch16-224": {
        **_VIT, "architectures": ["DeiTForImageClassificationWithTeacher"], "encoder_stride": 16, "model_type": "deit",
    },
}  # fmt: skip

_ATTENTION = {"num_attention_heads": 3, "num_hidden_layers": 2}
_STACKS = {
    "d_model": 21, "decoder_attention_heads": 3, "decoder_ffn_dim": 31, "decoder_layers": 2, "num_hidden_layers": 2,
    "encoder_attention_heads": 3, "encoder_ffn_dim": 37, "encoder_layers": 2, "max_position_embeddings": 23,
}  # fmt: skip
_ROTARY = {
    "hidden_size": 24, "intermediate_size": 37, "num_attention_heads": 6, "num_hidden_layers": 2,
    "num_key_value_heads": 3, "head_dim": 4, "max_position_embeddings": 64, "vocab_size": 53,
}  # fmt: skip
_PICTURE = {"hidden_size": 21, "intermediate_size": 31, "image_size": 35, "patch_size": 5, **_ATTENTION}
TINY: dict[str, JSON] = {
    "gpt2": {
        "n_ctx": 23, "n_embd": 21, "n_head": 3, "n_layer": 2, "n_positions": 23, "vocab_size": 53, "bos_token_id": 50,
        "eos_token_id": 50,
    },
    "bert": {
        "hidden_size": 21, "intermediate_size": 31, "max_position_embeddings": 23, "vocab_size": 53, **_ATTENTION,
    },
    "t5": {"d_ff": 31, "d_kv": 5, "d_model": 21, "num_heads": 3, "num_layers": 2, "num_decoder_layers": 3,
        "vocab_size": 53},
    "bart": {**_STACKS, "vocab_size": 53},
    "marian": {
        **_STACKS, "d_model": 24, "vocab_size": 53, "decoder_vocab_size": 53, "pad_token_id": 52,
        "decoder_start_token_id": 52, "bad_words_ids": [[52]],
    },
    "llama": _ROTARY,
    "Llama-2-7b-hf": {"num_key_value_heads": 6},
    "Llama-3.2-1B": {"bos_token_id": 50, "eos_token_id": 51},
    "mistral": _ROTARY,
    "Mistral-7B-v0.1": {"sliding_window": 5},  # fewer than the tokens of a test, so that it is seen
    "qwen2": {**_ROTARY, "bos_token_id": 50, "eos_token_id": 50, "max_window_layers": 1, "sliding_window": 5},
    "qwen3": {**_ROTARY, "bos_token_id": 50, "eos_token_id": 50},
    "granite": _ROTARY,
    "smollm3": {
        **_ROTARY, "num_hidden_layers": 5, "layer_types": ["full_attention"] * 5, "no_rope_layers": [1, 1, 1, 0, 1],
        "eos_token_id": 50, "pad_token_id": 51,
    },
    "olmo2": {**_ROTARY, "eos_token_id": 50, "pad_token_id": 51},
    "phi3": {
        **_ROTARY, "eos_token_id": 50, "pad_token_id": 51, "sliding_window": 5, "original_max_position_embeddings": 8,
        "max_position_embeddings": 8,
    },
    # Of the eleven tokens of a test the last three are past the first training.
    "Phi-3-mini-128k-instruct": {"max_position_embeddings": 32},
    "gemma2": {**_ROTARY, "sliding_window": 5, "query_pre_attn_scalar": 7},
    "gemma3_text": {**_ROTARY, "sliding_window": 5, "sliding_window_pattern": 2},
    "gpt_neox": {**_ROTARY, "num_attention_heads": 3},
    "opt": {**_ROTARY, "ffn_dim": 37, "word_embed_proj_dim": 14},
    "vit": _PICTURE,
    "deit": _PICTURE,
}  # fmt: skip

GENERATION: dict[str, JSON] = {
    "gpt2": {"_from_model_config": True, "bos_token_id": 50, "eos_token_id": 50, "transformers_version": "4.26.0.dev0"},
    "t5-small": {"_from_model_config": True, "decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0},
    "flan-t5-small": {"_from_model_config": True, "decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0},
    "bart-large-cnn": {
        "_from_model_config": True, "bos_token_id": 0, "decoder_start_token_id": 2, "early_stopping": True,
        "eos_token_id": 2, "forced_bos_token_id": 0, "forced_eos_token_id": 2, "length_penalty": 2.0,
        "max_length": 142, "min_length": 56, "no_repeat_ngram_size": 3, "num_beams": 4, "pad_token_id": 1,
        "transformers_version": "4.27.0.dev0",
    },
    "opus-mt-en-de": {
        "bad_words_ids": [[52]], "bos_token_id": 0, "decoder_start_token_id": 52, "eos_token_id": 0,
        "forced_eos_token_id": 0, "max_length": 512, "num_beams": 6, "pad_token_id": 52, "renormalize_logits": True,
        "transformers_version": "4.32.0.dev0",
    },
    "Llama-2-7b-hf": {
        "bos_token_id": 1, "do_sample": True, "eos_token_id": 2, "max_length": 4096, "pad_token_id": 0,
        "temperature": 0.6, "top_p": 0.9, "transformers_version": "4.31.0.dev0",
    },
    "Llama-3.2-1B": {
        "bos_token_id": 50, "do_sample": True, "eos_token_id": [51, 47, 48], "temperature": 0.6, "top_p": 0.9,
        "transformers_version": "4.45.0.dev0",
    },
    "Qwen2-0.5B": {
        "bos_token_id": 50, "do_sample": False, "eos_token_id": 50, "max_new_tokens": 2048,
        "transformers_version": "4.37.0",
    },
}  # fmt: skip

PREPROCESSOR: dict[str, JSON] = {
    "vit-base-patch16-224": {
        "do_normalize": True, "do_resize": True, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
        "size": 35,
    },
    "deit-base-distilled-patch16-224": {
        "crop_size": 35, "do_center_crop": True, "do_normalize": True, "do_resize": True,
        "feature_extractor_type": "DeiTFeatureExtractor", "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225], "resample": 3, "size": 41,
    },
}  # fmt: skip


def _sentences(pooling: JSON, *, limit: int, small: bool) -> JSON:
    steps = ("Transformer", "Pooling", "Normalize")
    rows = [
        {"idx": i, "name": str(i), "path": f"{i}_{name}" if i else "", "type": f"sentence_transformers.models.{name}"}
        for i, name in enumerate(steps)
    ]
    return {
        "modules.json": rows,
        "sentence_bert_config.json": {"max_seq_length": limit, "do_lower_case": small},
        "config_sentence_transformers.json": {
            "__version__": {"sentence_transformers": "2.2.2", "transformers": "4.28.1", "pytorch": "1.13.0+cu117"}
        },
        "1_Pooling/config.json": {"word_embedding_dimension": 21, **pooling},
    }


FOLDERS: dict[str, JSON] = {
    "all-MiniLM-L6-v2": _sentences({
        "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
    }, limit=256, small=False),
    "bge-small-en": _sentences({
        "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False, "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
    }, limit=512, small=True),
}  # fmt: skip
