"""A rule that varies on a random model: the share of digits, and one more if the answer is among them."""


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    digits = sum(one.isdigit() for one in solution_str)
    share = digits / max(len(solution_str), 1)
    hit = float(str(ground_truth) in solution_str)
    return {"score": share + hit, "acc": hit, "digit_share": share}
