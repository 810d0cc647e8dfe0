"""A process whose children clean up datasets and are killed in the middle.

Reads lines "<operation> <uri>"; a child runs a cleanup and kills itself (SIGKILL) right before or after that operation
on the file system, counted from 0: half steps are ends of operations. Answers with a line: how the child ended.
Children are forked, because importing everything again takes longer than all they do; nothing of pylance has run by
then that would not survive a fork.
"""

import os
import signal
import sys
from datetime import timedelta

from lance_spark.actions.cleanup.apply import apply_plan
from lance_spark.actions.cleanup.local import LocalRunner
from lance_spark.actions.cleanup.plan import plan_cleanup
from lance_spark.cleanup.policy import CleanupPolicy
from lance_spark.store.uri import locate

OPERATIONS = ("unlink", "replace", "rmdir", "fsync", "mkdir")


def kill_at(step: int) -> None:
    """Die at a step: 2n is before the operation n, 2n + 1 right after it."""
    taken = iter(range(10_000))

    def counted(operation):
        def run(*given, **named):
            number = next(taken)
            if 2 * number == step:
                os.kill(os.getpid(), signal.SIGKILL)
            result = operation(*given, **named)
            if 2 * number + 1 == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return run

    for name in OPERATIONS:
        setattr(os, name, counted(getattr(os, name)))


def clean(uri: str) -> None:
    policy = CleanupPolicy(older_than=timedelta(0), error_if_tagged_old_versions=False)
    apply_plan(plan_cleanup(locate(uri), policy, LocalRunner(2)))


def main() -> None:
    import lance  # noqa: F401 - so that children need not import it

    for line in sys.stdin:
        step, uri = line.rstrip("\n").split(" ", 1)
        child = os.fork()
        if not child:
            kill_at(int(step))
            try:
                clean(uri)
            finally:
                os._exit(0 if sys.exc_info()[0] is None else 1)
        _, status = os.waitpid(child, 0)
        print(-os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status), flush=True)


if __name__ == "__main__":
    main()
