# SPDX-License-Identifier: MIT
"""What the auditor and the rules of `cuevent watch` include: the watched functions, and the meaning of the
words of their records."""
import functions
import roles

# What the hooks of the auditor call the types that the headers of CUDA 12.0 lack.
NEW_TYPES = {
    "CUgreenCtx": "GreenContext*", "CUgreenCtx*": "GreenContext**", "CUmemLocation": "MemoryLocation",
    "CUgraphNodeParams*": "NodeParameters*", "const CUgraphEdgeData*": "const Opaque*",
    "const CUgraphEdgeData**": "const Opaque**",
    **dict.fromkeys(["CUmemLocation*", "CUmemcpyAttributes*", "CUDA_MEMCPY3D_BATCH_OP*",
                     "CUDA_FABRIC_COPY_BATCH_OP*", "CUmemDecompressParams*", "CUgraphRecaptureCallback",
                     "CUctxCreateParams*", "CUdevResourceDesc", "CUgraphEdgeData*",
                     "CUstreamCigCaptureParams*", "CUfunctionLoadingState*", "CUgraphConditionalHandle*",
                     "const CUgraphEdgeData**", "EGLSyncKHR"], "Opaque"),
}
# Parameters whose value is a word of the record: handles, and numbers of 32 bits. protocol/words.hpp does the
# same by type, and a static_assert in auditor/hooks.cpp compares the two.
RECORDED = roles.WATCHED | {"mode", "device"}
NUMBERS = {"int", "unsigned int", "cuuint32_t",
           # Enumerations.
           "CUdevice_attribute", "CUfunc_cache", "CUfunction_attribute", "CUlimit", "CUmem_advise",
           "CUmemAllocationHandleType", "CUmemAllocationType", "CUmemPool_attribute", "CUpointer_attribute",
           "CUstreamAttrID"}
WORDS = 4  # of a record
NO_WORDS = {"lookup", "name_function"}  # that a rule needs
HAVE_TIME = {"event_synchronize", "stream_synchronize", "context_synchronize", "copy"}  # as their last word
NODES = {"node_add_event", "node_set_event", "exec_set_event", "node_add", "exec_change", "node_change"}
SUBMIT = {"work", "value_wait", "value_write", "graph_launch"}
HOST_FUNCTIONS = {"CUhostFn", "CUstreamCallback"}


def hook_type(parameter):
    """Lists that the call reads are opaque too: a pointer to handles would be taken for a result."""
    if parameter.given == "in" and roles.what_is(parameter.kind) in roles.WATCHED:
        return "Opaque"
    return NEW_TYPES.get(parameter.kind, parameter.kind).replace("unsigned int", "unsigned")


def is_word(parameter, role):
    if role.what in RECORDED:
        return not parameter.kind.startswith("const ") and hook_type(parameter) != "Opaque"
    return parameter.kind in NUMBERS


def field_of(parameter, role, taken):
    """Of rules/call.hpp. A handle of a kind that the call has already, and other numbers, have none."""
    if role.what == "value":
        return "flags" if parameter.name.lower() == "flags" else ""
    if role.use == "got" or role.with_parameter:
        return ""
    names = {"context": "named_context", "green context": "named_context"}
    field = "made_graph" if (role.what, role.use) == ("graph", "made") else names.get(role.what, role.what)
    if field == "event" and field in taken:
        field = "second_event"
    return "" if field in taken else field


def words_of(function):
    """The field that each word of a record of the function is, or ""."""
    verb, found = function.uses["watch"], function.roles()
    kinds = [role.what for role in found]
    if verb in NO_WORDS:
        return []
    if verb == "work":  # the stream comes first: the null stream if the call names none
        has_host_function = any(each.kind in HOST_FUNCTIONS for each in function.parameters)
        return (["stream"] + ["function"] * ("function" in kinds or "launch list" in kinds) +
                ["address"] * has_host_function + ["event", "second_event"] * ("launch" in kinds))
    if verb in ("value_wait", "value_write"):
        return ["stream", "address", "value", "flags"]
    fields = []
    for parameter, role in zip(function.parameters, found):
        if is_word(parameter, role):
            fields.append(field_of(parameter, role, fields))
    if verb == "graph_launch":
        fields.append("number")
    if "node parameters" in kinds:
        fields += ["event", "node_type"]
    room = WORDS - (verb in HAVE_TIME)
    if any(fields[room:]):
        raise functions.BadTable(f"{function.symbol}: a record has no room for {', '.join(fields[room:])}")
    return fields[:room]


def effects_of(function):
    """The bits of Effect in protocol/calls.hpp."""
    found = function.roles()
    has = {(role.what, role.use) for role in found}
    kinds = {each.kind for each in function.parameters}
    bits = {
        "adds_order": function.effects.get("orders") == "",
        "makes_context": bool(has & {("context", "made"), ("green context", "made")}),
        "ends_code": bool(has & {("module", "ends"), ("library", "ends")}),
        "opens_event": ("exported event", "in") in has,
        "relaxed_capture": ("graphics capture", "in") in has,
        "value_of_64_bits": function.work() == "values" and "cuuint64_t" in kinds,
        # A kernel whose parameters are not in the arguments of the call.
        "hides_memory": function.effects.get("submits") == "kernel" and "void**" not in kinds,
        "stays_on_device": stays_on_device(function, has),
        "ends_object": any(use == "ends" for _, use in has),
        "tells_context": function.effects.get("context") == "told",
        "returns_early": function.effects.get("waits") == "early",
    }
    return [name for name, is_set in bits.items() if is_set]


def stays_on_device(function, has):
    """It copies or sets memory of the device, or ends it, and the call does not wait for the work."""
    if function.uses["watch"] == "memory_free":
        return function.effects.get("waits") == "no"
    writes = {what for what, use in has if use == "writes"}
    may_wait = function.effects.get("waits", "no") != "no" and ("host memory", "reads") not in has
    return function.work() in ("copy", "fill") and writes == {"memory"} and not may_wait


def check(function):
    """What the verb says of the function is what its effects say."""
    verb = function.uses["watch"]
    if (verb in SUBMIT) != ("submits" in function.effects) and verb != "copy":
        raise functions.BadTable(f"{function.symbol}: `watch {verb}`, and it submits "
                                 f"{function.effects.get('submits', 'nothing')}")
    if (verb in NODES) != ("node" in function.effects):
        raise functions.BadTable(f"{function.symbol}: `watch {verb}` does not fit its effect `node`")
    begins_or_ends = verb in ("capture_begin", "capture_into_graph", "capture_end")
    if begins_or_ends != ("captures" in function.effects):
        raise functions.BadTable(f"{function.symbol}: `watch {verb}` does not fit its effect `captures`")


def written(table):
    rows = []
    for function in table:
        verb = function.uses.get("watch")
        if verb is None:
            if function.effects.get("context", "no") != "no" and "unwatched" not in function.uses:
                raise functions.BadTable(f"{function.symbol}: a call without a current context is refused, "
                                         "so it is watched: `watch brief`")
            continue
        check(function)
        types = ", ".join(map(hook_type, function.parameters))
        suffix = f'"_{function.suffix}"' if function.suffix else "nullptr"
        work = f"Work::{function.work() or 'none'}"
        effects = " | ".join(effects_of(function)) or "0"
        words = ", ".join(f"Field::{word or 'none'}" for word in words_of(function))
        for name, version in filter(None, [(function.name, function.version), function.other_name]):
            rows.append(f'Entry<CUresult({types})>{{{{Verb::{verb}, {work}, {effects}, {{{{{words}}}}}, '
                        f'"{function.symbol}", "{name}", {version}, {suffix}}}}}')
    return ",\n".join(rows)
