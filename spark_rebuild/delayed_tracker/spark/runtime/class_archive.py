"""Keeps the classes that Spark loads at each start in one file, which Java maps instead of reading 280 jars.

    spark-rebuild warm  ->  Java of one small job, with -XX:ArchiveClassesAtExit  ->  delayed-tracker/spark/KEY-SIZE.jsa
    a local session     ->  Java with -XX:SharedArchiveFile, if there is a file of this key

Java compares the file with itself and with its class path, and its content with a checksum; a file that does not fit it does
not use, and starts as without one. But Java 17 ends with SIGBUS if the file is cut short, so its size is in its name. The
archive changes the time of a start and nothing else.

Source: JEP 350, Dynamic CDS Archives.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from delayed_tracker.spark.runtime.cache_directory import cache_directory

_SUFFIX: Final = ".jsa"
_BASE: Final = Path("lib", "server", "classes.jsa")
"""Archive of Java's own classes, in its home; the archive is a layer on top of it. Runtimes made by jlink have none."""
_OWN_CLASS_PATH: Final = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
"""Variables that put places of the user in front of Spark's jars."""
_OWN_OPTIONS: Final = ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare")


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """Archive for one Java and one Spark; there need not be a file."""

    directory: Path
    key: str

    @property
    def file(self) -> Path | None:
        """Path of the archive; None if there is none that is whole."""
        for file in self.directory.glob(f"{self.key}-*{_SUFFIX}"):
            size = file.stem.removeprefix(f"{self.key}-")
            if size.isdigit() and file.stat().st_size == int(size):
                return file
        return None

    @property
    def use(self) -> list[str]:
        """Options with which Java uses the archive; empty if there is none."""
        file = self.file
        return [] if file is None else [f"-XX:SharedArchiveFile={file}", "-Xshare:auto", "-XX:+VerifySharedSpaces"]

    @contextmanager
    def made(self) -> Iterator[list[str]]:
        """Yield the options with which Java makes the archive when it ends, which must be within the block.

        The archive then takes the place of all others in its directory. Without one, as on a full disk, they stay.

        Raises:
            OSError: the directory cannot be written.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        fresh = self.directory / f".{self.key}.{os.getpid()}"
        try:
            # Java lists some hundred classes that cannot be archived, such as generated ones.
            yield [f"-XX:ArchiveClassesAtExit={fresh}", "-Xlog:cds*=off"]
            file = self.directory / f"{self.key}-{fresh.stat().st_size}{_SUFFIX}"
            fresh.replace(file)
        finally:
            fresh.unlink(missing_ok=True)
        for other in self.directory.iterdir():
            if other != file:
                with suppress(OSError):
                    other.unlink()


def class_archive(
    java_home: Path,
    spark_home: Path,
    options: Mapping[str, str],
    environment: Mapping[str, str] = os.environ,
) -> ClassArchive | None:
    """Return the archive for a session; None if Java would not use it, or if the user has chosen another.

    Args:
        java_home: of the Java that runs Spark.
        spark_home: of Spark; its jars are the class path.
        options: settings of Spark.
        environment: variables that Spark's programs read.
    """
    java = (java_home / "bin" / "java").resolve()
    chosen = [options.get(f"spark.driver.{name}JavaOptions", "") for name in ("default", "extra")]
    if any(name in given for name in _OWN_OPTIONS for given in (*chosen, environment.get("SPARK_SUBMIT_OPTS", ""))):
        return None
    if "spark.driver.extraClassPath" in options or any(environment.get(name) for name in _OWN_CLASS_PATH):
        return None
    base = java.parent.parent / _BASE
    if not base.is_file():
        return None
    jars = sorted((spark_home / "jars").glob("*.jar"))
    key = sha256()
    for file in (base, *jars):
        of_file = file.stat()
        key.update(f"{file}\n{of_file.st_size}\n{of_file.st_mtime_ns}\n".encode())
    return ClassArchive(cache_directory(environment) / "spark", key.hexdigest()[:16])
