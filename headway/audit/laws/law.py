"""What a law is: a sentence, what a model must be able to do before it can be tried, and the trials."""

from collections.abc import Callable
from dataclasses import dataclass

from headway.audit.report import NOT_APPLICABLE, Finding
from headway.audit.search.scene import Scene


@dataclass(frozen=True)
class Law:
    """`needs` are words of `AdaptedModel.missing`; `test` tries it where they are met."""

    name: str
    sentence: str
    test: Callable[[Scene], Finding]
    needs: tuple[str, ...] = ()

    def tried(self, scene: Scene) -> Finding:
        """The finding; where the law cannot be tried, why."""
        why = scene.subject.missing(*self.needs)
        return self.test(scene) if why is None else Finding(self.name, NOT_APPLICABLE, why=why)
