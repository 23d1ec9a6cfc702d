"""Archive of Spark's classes: its options, its key, its bounds; an unusable one changes nothing."""

import subprocess
from pathlib import Path

import pytest

from delayed_tracker.spark.runtime.class_archive import ClassArchive, class_archive
from delayed_tracker.spark.runtime.java import find_java


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Path, Path]:
    """Return the directories of a Java with an archive of its own classes, and of a Spark with two jars."""
    java, spark = tmp_path / "java", tmp_path / "spark"
    for file in (
        java / "bin" / "java",
        java / "lib" / "server" / "classes.jsa",
        *(spark / "jars" / f"{n}.jar" for n in "ab"),
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"content")
    return java, spark


def archive(homes, tmp_path, options=None, **environment) -> ClassArchive | None:
    return class_archive(*homes, options or {}, {"XDG_CACHE_HOME": str(tmp_path / "a cache"), **environment})


def keep(found: ClassArchive | None, content: bytes) -> Path:
    assert found is not None
    with found.made() as (making, *_):
        Path(making.removeprefix("-XX:ArchiveClassesAtExit=")).write_bytes(content)
    assert found.file is not None
    return found.file


def test_java_is_told_of_an_archive_that_is_whole(homes, tmp_path):
    """Without a file no option is given, nor with one that is cut short, at which Java 17 would crash."""
    found = archive(homes, tmp_path)
    assert found is not None
    assert found.use == []
    file = keep(found, b"classes")
    assert found.use == [f"-XX:SharedArchiveFile={file}", "-Xshare:auto", "-XX:+VerifySharedSpaces"]
    file.write_bytes(b"cla")
    assert found.use == []


def test_another_java_or_another_spark_has_another_archive(homes, tmp_path):
    """A changed jar, a new jar, and another version of Java each give another file."""
    java, spark = homes
    files = [archive(homes, tmp_path)]
    (spark / "jars" / "a.jar").write_bytes(b"another version")
    files.append(archive(homes, tmp_path))
    (spark / "jars" / "c.jar").touch()
    files.append(archive(homes, tmp_path))
    (java / "lib" / "server" / "classes.jsa").write_bytes(b"a newer Java")
    files.append(archive(homes, tmp_path))
    assert len(set(files)) == len(files)
    assert archive(homes, tmp_path) == files[-1]


@pytest.mark.parametrize(
    "options",
    [
        {"spark.driver.extraJavaOptions": "-XX:SharedArchiveFile=/mine.jsa"},
        {"spark.driver.defaultJavaOptions": "-Xshare:off"},
        {"spark.driver.extraClassPath": "/my.jar"},
    ],
)
def test_a_choice_of_the_user_leaves_it_out(homes, tmp_path, options):
    """Another archive, no archive, and another class path are the user's."""
    assert archive(homes, tmp_path, options) is None


def test_variables_of_the_user_leave_it_out(homes, tmp_path):
    """Directories of settings are part of the class path."""
    assert archive(homes, tmp_path, HADOOP_CONF_DIR="/etc/hadoop") is None
    assert archive(homes, tmp_path, SPARK_SUBMIT_OPTS="-Xshare:off") is None


def test_a_java_without_classes_of_its_own_has_none(homes, tmp_path):
    """A runtime made by jlink lacks the archive below."""
    (homes[0] / "lib" / "server" / "classes.jsa").unlink()
    assert archive(homes, tmp_path) is None


def test_a_new_archive_takes_the_place_of_all_others(homes, tmp_path):
    """One file stays, whatever was there."""
    found = archive(homes, tmp_path)
    assert found is not None
    found.directory.mkdir(parents=True)
    for name in ("older-1.jsa", ".older.17"):
        (found.directory / name).touch()
    keep(found, b"old")
    assert [keep(found, b"classes")] == list(found.directory.iterdir())


def test_an_archive_that_java_did_not_write_is_an_error_and_leaves_the_old_one(homes, tmp_path):
    """As on a full disk: the old archive is as it was."""
    found = archive(homes, tmp_path)
    file = keep(found, b"old")
    with pytest.raises(FileNotFoundError), found.made():
        pass
    assert list(file.parent.iterdir()) == [file]
    assert file.read_bytes() == b"old"


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"no archive" * 1000])
def test_java_starts_with_a_damaged_archive(tmp_path, content):
    """Java passes over a file that is none, and prints nothing where its output is read."""
    damaged = ClassArchive(tmp_path, "damaged")
    keep(damaged, content)
    command = [find_java() / "bin" / "java", *damaged.use, "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "version" in done.stderr
    assert done.stdout == ""
