# SPDX-License-Identifier: MIT
"""What a parameter is to its function. README.md, "Roles", explains the words."""
import re
import typing

HANDLES = {
    "CUevent": "event", "CUstream": "stream",
    "CUgraph": "graph", "CUgraphExec": "exec", "CUgraphNode": "node",
    "CUcontext": "context", "CUgreenCtx": "green context", "CUdevice": "device", "CUfunction": "function",
    "CUkernel": "kernel", "CUmodule": "module", "CUlibrary": "library", "CUmemoryPool": "pool",
    "CUuserObject": "user object",
    **dict.fromkeys([
        "CUarray", "CUmipmappedArray", "CUtexref", "CUsurfref", "CUtexObject", "CUsurfObject", "CUlinkState",
        "CUmemGenericAllocationHandle", "CUexternalMemory", "CUexternalSemaphore", "CUgraphicsResource",
        "CUlogicalEndpointId", "CUgraphConditionalHandle", "CUlogIterator", "CUcheckpointOperationHandle",
        "CUdevResourceDesc", "CUasyncCallbackHandle", "CUcoredumpCallbackHandle", "CUlogsCallbackHandle",
    ], "other handle"),
}
# `cuevent watch` has to know when one of these is made or ends.
WATCHED = {"event", "stream", "graph", "exec", "node", "context", "green context"}
HOST_FUNCTIONS = {"CUhostFn", "CUstreamCallback", "CUoccupancyB2DSize", "CUasyncCallback", "CUlogsCallback",
                  "CUgraphRecaptureCallback", "CUcoredumpStatusCallback"}
MEMORY = {"CUdeviceptr", "CUdeviceptr_v1"}
# What structures hold for the function that gets them.
HOLDERS = {"const CUlaunchConfig*": "launch", "CUDA_LAUNCH_PARAMS*": "launch list",
           "CUgraphNodeParams*": "node parameters", "CUipcEventHandle": "exported event",
           "CUstreamCigCaptureParams*": "graphics capture", "CUstreamCaptureMode": "mode",
           "CUstreamCaptureMode*": "mode"}
ALONE = {"in", "out", "made", "got", "ends", "data"}
WITH_PARAMETER = re.compile(r"(reads|writes|of) (.+)$")


class Role(typing.NamedTuple):
    what: str  # a word of HANDLES or HOLDERS, "memory", "host memory", "host function", "data", or "value"
    use: str   # "used", "made", "got", "ends", "in", "out", "reads" or "writes"
    with_parameter: str = ""  # the size of what it reads or writes, or whose context or device it is


def what_is(kind):
    base = re.sub(r"const |\*", "", kind)
    if kind in HOLDERS:
        return HOLDERS[kind]
    if base in HANDLES:
        return HANDLES[base]
    if base in MEMORY:
        return "memory"
    if base in HOST_FUNCTIONS:
        return "host function"
    return "host memory" if base == "void" else "value"


def derived(kind, asks):
    """The use that follows from the type, or "". Where it does not, the row says it."""
    what = what_is(kind)
    is_handle = what in HANDLES.values()
    if what in HOLDERS.values() or what == "host function":
        return "in"
    if "*" not in kind:
        if what == "memory":
            return "in" if asks else ""
        return "used" if is_handle else "in"
    if kind.startswith("const ") and "void" not in kind and not kind.endswith("**"):
        return "in"
    if is_handle:
        return "got" if asks else "made"
    if what == "memory" and not asks:
        return "made"
    return "out" if asks and kind != "void*" and kind != "const void*" else ""


def role_of(parameter, function):
    """Of a parameter. None if nothing tells it. Raises ValueError for a word that is none."""
    what = what_is(parameter.kind)
    found = WITH_PARAMETER.match(parameter.given)
    if found:
        names = {each.name for each in function.parameters}
        for word in re.findall(r"[A-Za-z]\w*", found[2]):
            if word not in names:
                raise ValueError(f"`{word}` is no parameter")
        return Role(what, "used" if found[1] == "of" else found[1], found[2])
    if parameter.given:
        if parameter.given not in ALONE:
            raise ValueError(f"`{parameter.given}` is not a role: see README.md")
        return Role("data" if parameter.given == "data" else what,
                    "in" if parameter.given == "data" else parameter.given)
    use = derived(parameter.kind, "asks" in function.effects)
    return Role(what, use) if use else None
