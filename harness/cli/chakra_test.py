"""Reads what `sluice export --format chakra` writes with Google's protobuf package, and holds it against the order of
the same system in `sluice schedule --json`. Without that package (python3-protobuf) the test is skipped.

    chakra_test.py SLUICE

Field numbers and names are those of schema/protobuf/et_def.proto of MLCommons Chakra
(https://github.com/mlcommons/chakra, Apache License 2.0), as far as the files need them.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.internal import decoder
except ImportError:
    print("skipped: no Python package protobuf")
    sys.exit(77)

NODE_TYPES = ["INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE", "COMM_SEND_NODE",
              "COMM_RECV_NODE", "COMM_COLL_NODE"]


def classes():
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package="ChakraProtoMsg", syntax="proto3")
    enum = file.enum_type.add(name="NodeType")
    for number, name in enumerate(NODE_TYPES):
        enum.value.add(name=name, number=number)

    def add(message, name, number, kind, repeated=False, type_name=None, oneof=None):
        label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
        f = message.field.add(name=name, number=number, type=kind, label=label)
        if type_name:
            f.type_name = ".ChakraProtoMsg." + type_name
        if oneof is not None:
            f.oneof_index = oneof

    attribute = file.message_type.add(name="AttributeProto")
    attribute.oneof_decl.add(name="value")
    add(attribute, "name", 1, field.TYPE_STRING)
    for name, number, kind in (("int32_val", 7, field.TYPE_INT32), ("int64_val", 9, field.TYPE_INT64),
                               ("uint64_val", 13, field.TYPE_UINT64), ("bool_val", 27, field.TYPE_BOOL),
                               ("string_val", 29, field.TYPE_STRING)):
        add(attribute, name, number, kind, oneof=0)
    metadata = file.message_type.add(name="GlobalMetadata")
    add(metadata, "version", 1, field.TYPE_STRING)
    add(metadata, "attr", 2, field.TYPE_MESSAGE, repeated=True, type_name="AttributeProto")
    node = file.message_type.add(name="Node")
    add(node, "id", 1, field.TYPE_UINT64)
    add(node, "name", 2, field.TYPE_STRING)
    add(node, "type", 3, field.TYPE_ENUM, type_name="NodeType")
    add(node, "ctrl_deps", 4, field.TYPE_UINT64, repeated=True)
    add(node, "data_deps", 5, field.TYPE_UINT64, repeated=True)
    add(node, "start_time_micros", 6, field.TYPE_UINT64)
    add(node, "duration_micros", 7, field.TYPE_UINT64)
    add(node, "attr", 10, field.TYPE_MESSAGE, repeated=True, type_name="AttributeProto")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    make = getattr(message_factory, "GetMessageClass", None) or message_factory.MessageFactory(pool).GetPrototype
    return [make(pool.FindMessageTypeByName("ChakraProtoMsg." + name)) for name in ("GlobalMetadata", "Node")]


def no_unknown_fields(message):
    plain = type(message)()
    plain.CopyFrom(message)
    plain.DiscardUnknownFields()
    assert plain.ByteSize() == message.ByteSize(), f"fields that the schema does not have: {message}"


def read(path):
    metadata_class, node_class = classes()
    content = open(path, "rb").read()
    messages, at = [], 0
    while at < len(content):
        size, at = decoder._DecodeVarint(content, at)
        message = (node_class if messages else metadata_class).FromString(content[at:at + size])
        no_unknown_fields(message)
        messages.append(message)
        at += size
    assert at == len(content)
    return messages[0], messages[1:]


def attributes(node):
    return {a.name: getattr(a, a.WhichOneof("value")) for a in node.attr}


def main():
    sluice = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix=f"sluice-chakra-{os.getpid()}-") as folder:
        prefix = os.path.join(folder, "trace")
        subprocess.run([sluice, "export", "--format", "chakra", "-s", "1f1b", "-w", "vgg16", "-c", "flat:4", "-b", "64",
                        "-m", "8", "--out", prefix], check=True, stdout=subprocess.DEVNULL)
        ops = json.loads(subprocess.run([sluice, "schedule", "-s", "1f1b", "-n", "4", "-m", "8", "--json"], check=True,
                                        capture_output=True, text=True).stdout)["ops"]
        sent, taken = {}, {}
        for rank in range(4):
            metadata, nodes = read(f"{prefix}.{rank}.et")
            assert metadata.version, "no version"
            assert [n.id for n in nodes] == list(range(len(nodes)))
            computed = [n.name for n in nodes if NODE_TYPES[n.type] == "COMP_NODE"]
            assert computed == ops[str(rank)] + [f"step {rank}"], computed
            for n in nodes:
                values = attributes(n)
                assert values["is_cpu_op"] is False
                assert all(dep < n.id for dep in n.data_deps)
                kind = NODE_TYPES[n.type]
                if kind == "COMP_NODE":
                    assert n.duration_micros > 0
                    continue
                assert values["comm_size"] > 1
                key = (values["comm_src"], values["comm_dst"], values["comm_tag"])
                held = {"COMM_SEND_NODE": sent, "COMM_RECV_NODE": taken}[kind]
                assert values["comm_src" if held is sent else "comm_dst"] == rank
                assert key not in held
                held[key] = values["comm_size"]
        assert sent == taken and len(sent) == 2 * 3 * 8, (len(sent), len(taken))  # both ways over 3 cuts, 8 each
    print("4 files read")


main()
