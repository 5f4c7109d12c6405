"""Build the image of the service, start a container, and try it.

    python tools/check_image.py

Needs docker. The container gets a free port of this machine, and is removed.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMAGE = "glbandits"


def main() -> None:
    """Build, start, try, remove."""
    docker("build", "--file", "deploy/Dockerfile", "--tag", IMAGE, ".")
    container = printed("run", "--detach", "--rm", "--publish", "127.0.0.1::8711", IMAGE)
    try:
        address = printed("port", container, "8711").splitlines()[0]
        key = printed("exec", container, "glb", "store", "keys", "create", "trial")
        program = [sys.executable, str(ROOT / "tools" / "try_service.py"), f"http://{address}", key]
        if subprocess.run(program, check=False).returncode != 0:
            docker("logs", container)
            sys.exit(1)
    finally:
        docker("stop", container)


def docker(*words: str) -> None:
    """Run docker. Raises CalledProcessError if it fails."""
    subprocess.run(["docker", *words], cwd=ROOT, check=True)


def printed(*words: str) -> str:
    """Return what docker prints."""
    return subprocess.check_output(["docker", *words], cwd=ROOT, text=True).strip()


if __name__ == "__main__":
    main()
