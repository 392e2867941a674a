"""Which rows wait for nothing but the application, which a trial start does not run."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def waiting_for(
    absent: Collection[str],
    missing: Mapping[str, Collection[str]],
    provides: Mapping[str, str | None],
) -> tuple[frozenset[str], bool]:
    """The rows that lack only `absent` services, or what other such rows would provide.

    `missing` is what each waiting row lacks, `provides` the service that it says it provides. Also
    returns whether one that lacks absent services says nothing: then rows that wait for more may
    wait for what it would provide.
    """
    away, waiting = {*absent}, dict.fromkeys(missing)
    while True:
        more = [row for row in waiting if away >= {*missing[row]}]
        if not more:
            break
        for row in more:
            del waiting[row]
            service = provides[row]
            if service is not None:
                away.add(service)
    excused = frozenset(missing.keys() - waiting)
    silent = any(provides[row] is None for row in excused if {*absent} >= {*missing[row]})
    if silent:
        excused |= {row for row in waiting if {*absent} & {*missing[row]}}
    return excused, silent
