"""`apportion snapshot`: write down the cluster, so that questions about it can be answered elsewhere.

In: a live cluster, read only. Out: a List of all objects that the operator decides by, reduced to what decides, with the server's version, on standard output.
Exit status: 0 written, 2 the cluster cannot be read, or the answer not be written.
"""

import sys
from typing import Annotated

import orjson
import typer

from apportion.cli import document
from apportion.cli.world.anonymous import anonymized
from apportion.cli.world.levels import DEEPEST, cut, is_writable
from apportion.cli.world.live import read_live
from apportion.cli.world.needed import needed
from apportion.cli.world.objects import LEFT_OUT, VOLUME_KINDS, contents_of, key_of, kind_of
from apportion.cli.world.options import Context, File, Kubeconfig, keep_quiet
from apportion.dra.reading import Json
from apportion.errors import ApportionError, BrokenInput


def snapshot(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    file: File = None,
    anonymize: Annotated[  # noqa: FBT002 - typer makes a flag of it
        bool,
        typer.Option(
            "--anonymize",
            help="Number the names of nodes, namespaces, pods, claims and so on, values of labels, and UUIDs of devices.",
        ),
    ] = False,
) -> None:
    """Write all that the operator decides by to standard output, for --world."""
    keep_quiet()
    try:
        if file is not None:
            objects, version, volumes = contents_of(file)
        else:
            (objects, version, volumes), _ = read_live(kubeconfig, context=context)
        objects = [_reduced(each) for each in objects if kind_of(each) is not None]
        if anonymize:
            objects = anonymized(objects)
    except ApportionError as error:
        raise document.refuse(str(error)) from None
    left_out = [] if volumes else [kind.plural for kind in VOLUME_KINDS]
    found = {
        "apiVersion": "v1",
        "kind": "List",
        "kubernetesVersion": version,
        LEFT_OUT: left_out,
        "items": objects,
    }
    sys.stdout.write(orjson.dumps(found).decode() + "\n")


def _reduced(raw: Json) -> Json:
    """Return what decides something of an object, and name on standard error what of it is nested too deeply. Raises BrokenInput."""
    kind, namespace, name = key_of(raw)
    made = needed(raw)
    if is_writable(made):
        return made
    whose, made = f"{kind} {'/'.join(filter(None, (namespace, name)))}", cut(made)
    if not is_writable(made):
        raise BrokenInput("it has a value that JSON cannot say", field=whose)
    typer.echo(f"left out: {whose}: what is nested more than {DEEPEST} levels deep", err=True)
    return made
