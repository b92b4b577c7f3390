"""Make tiny data in verl's format: sums as prompts, a rule as reward; sums with answers, to be imitated.

usage: make_data.py FOLDER
"""

import os
import random
import sys

import pandas as pd


def rows(split: str, count: int, random_numbers: random.Random) -> list[dict]:
    made = []
    for index in range(count):
        a, b = random_numbers.randint(0, 99), random_numbers.randint(0, 99)
        made.append(
            {
                "data_source": "tiny_sum",
                "prompt": [{"role": "user", "content": f"What is {a} + {b}?"}],
                "ability": "math",
                "reward_model": {"style": "rule", "ground_truth": str(a + b)},
                "extra_info": {"split": split, "index": index},
            }
        )
    return made


def conversations(prompts: list[dict]) -> list[dict]:
    answers = [{"role": "assistant", "content": row["reward_model"]["ground_truth"]} for row in prompts]
    return [{"messages": [*row["prompt"], answer]} for row, answer in zip(prompts, answers, strict=True)]


def main(folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    random_numbers = random.Random(0)
    for split, count in (("train", 32), ("test", 4)):
        made = rows(split, count, random_numbers)
        pd.DataFrame(made).to_parquet(f"{folder}/{split}.parquet")
        pd.DataFrame(conversations(made)).to_parquet(f"{folder}/sft-{split}.parquet")


if __name__ == "__main__":
    main(sys.argv[1])
