"""Make a tiny random Qwen2 model with a byte-level tokenizer, without a hub. usage: make_model.py FOLDER"""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCABULARY = 512  # a multiple of 64, so that vLLM pads nothing


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Train byte-pair encoding on sums and products."""
    corpus = [f"What is {a} + {b}? The answer is {a + b}." for a in range(100) for b in range(0, 100, 7)]
    corpus += [f"What is {a} * {b}? Answer with digits only: {a * b}" for a in range(100) for b in range(0, 100, 7)]
    corpus += ["system user assistant You are a helpful calculator."] * 50
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", model_max_length=512
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def main(folder: str) -> None:
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,  # heads of 32, the smallest that vLLM's CPU attention takes
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    Qwen2ForCausalLM(config).to(torch.float32).save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1])
