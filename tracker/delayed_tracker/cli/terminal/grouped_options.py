"""Declares options that several commands share: a command takes them as one parameter."""

import functools
import inspect
from collections.abc import Callable, Sequence


def in_place_of(
    name: str, wrapper: Callable[..., None], command: Callable[..., None], *, first: Sequence[str] = ()
) -> Callable[..., None]:
    """Return the wrapper as the command that typer sees: with the options of both.

    Args:
        name: the command's parameter in whose place the wrapper's own ones are shown.
        wrapper: takes its own options by keyword and the others as ``**others``, and calls the command.
        command: a command, or the result of this function for another parameter.
        first: parameters that the help shows first, in this order, if the two have them; the others follow.
    """
    own = [
        option
        for option in inspect.signature(wrapper).parameters.values()
        if option.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        parameters += own if parameter.name == name else [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
    parameters.sort(key=lambda parameter: first.index(parameter.name) if parameter.name in first else len(first))
    functools.update_wrapper(wrapper, command)
    # typer reads both. What update_wrapper has set would show the command's own ones.
    wrapper.__dict__["__signature__"] = inspect.Signature(parameters)
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper
