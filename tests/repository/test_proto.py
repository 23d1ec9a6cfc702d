"""The proto files, from the view of authors of clients in other languages."""

import re
from collections.abc import Iterator

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.service.grpc.status import code_of
from delayed_tracker.snapshot.v1 import snapshot_pb2
from delayed_tracker.v1 import ledger_pb2, tracker_pb2
from tests.repository.project_tree import ROOT

API = (tracker_pb2.DESCRIPTOR, ledger_pb2.DESCRIPTOR)
FILES = (*API, snapshot_pb2.DESCRIPTOR)
CODE = re.compile(r"^//   (?P<code>[A-Z_]+|) +(?P<text>\S.*)$")
REASON = re.compile(r"\b[A-Z]+(?:_[A-Z]+)*\b")


def fields_of(file: FileDescriptor) -> Iterator[FieldDescriptor]:
    def walk(message: Descriptor) -> Iterator[FieldDescriptor]:
        yield from message.fields
        for nested in message.nested_types:
            yield from walk(nested)

    for message in file.message_types_by_name.values():
        yield from walk(message)


def singular(name: str) -> str:
    return name.removesuffix("s") if name.endswith("_ids") else name


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_generated_code_has_a_place_in_go_and_java(file: FileDescriptor):
    """Files of one package share their options: Go needs them, and without them Java makes one class of all."""
    options = file.GetOptions()
    version = file.package.removeprefix("delayed_tracker.")
    assert options.go_package.partition(";")[0] == f"delayed_tracker/{version.replace('.', '/')}"
    assert re.fullmatch(r"[a-z]+v1", options.go_package.partition(";")[2])
    assert options.java_package == f"delayedtracker.{version}"
    assert options.java_multiple_files


def test_columns_have_the_sign_of_the_same_values_elsewhere():
    """64-bit columns have the same sign as single values elsewhere, so that Java and Go clients need no conversion."""
    signs: dict[str, set[bool]] = {}
    for file in API:
        for field in fields_of(file):
            if field.cpp_type in {FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64}:
                is_signed = field.cpp_type == FieldDescriptor.CPPTYPE_INT64
                signs.setdefault(singular(field.name), set()).add(is_signed)
    assert {name for name, found in signs.items() if len(found) > 1} == set()
    assert signs["ledger_id"] == signs["entry_id"] == signs["deliver_at_ms"] == {True}


def codes_by_reason() -> dict[str, set[str]]:
    """Return the codes that the service answers for the reason of each error class."""
    codes: dict[str, set[str]] = {}
    wanted = [DelayedTrackerError]
    while wanted:
        kind = wanted.pop()
        wanted += kind.__subclasses__()
        # The code depends on the class alone.
        code = code_of(kind.__new__(kind)).name
        if "reason" in vars(kind) and kind.__module__.partition(".client")[1] == "" and code != "INTERNAL":
            codes.setdefault(kind.reason, set()).add(code)
    return codes


def stated_codes(file: FileDescriptor) -> dict[str, set[str]]:
    """Return the table in a file's first comment: reason -> codes."""
    stated: dict[str, set[str]] = {}
    code = ""
    known = codes_by_reason().keys()
    for line in (ROOT / "proto" / file.name).read_text(encoding="utf-8").splitlines():
        if line.startswith("package "):
            break
        if row := CODE.match(line):
            code = row["code"] or code
            for reason in set(REASON.findall(row["text"])) & known:
                stated.setdefault(reason, set()).add(code)
    return stated


@pytest.mark.parametrize("file", API, ids=lambda file: file.name)
def test_comments_state_the_codes_that_are_answered(file: FileDescriptor):
    """Each reason is listed with its status code; only FENCED has two, as its comment states."""
    actual = codes_by_reason()
    stated = stated_codes(file)
    assert len(stated) >= 8
    for reason, codes in stated.items():
        assert codes == actual[reason] | ({"ABORTED"} if reason == "FENCED" else set()), reason
