"""Graphs as cuDNN's descriptors, and the target of their plans: a GPU of this process, or one given by its properties.

Each descriptor has one owner, and is destroyed with it. The descriptors that it was made from must outlive it, so
owners keep references to them, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numbacc_bindings import cudnn as api
from numbacc_bindings.cudnn import AttributeName as Name
from numbacc_bindings.cudnn import DescriptorType, cudnn

from ..base.ownership import NotCopied
from .cudnn_devices import Gpu
from .cudnn_graph import CudnnGraph, Node, Tensor
from .cudnn_nodes import KINDS, put_dtype, put_int64
from .handles import Handle


class Descriptor(NotCopied):
    """A descriptor of cuDNN's backend, with the objects that it was made from.

    Args:
        kind: the kind of descriptor to create.
        value: the address of an existing descriptor from cuDNN, if none is created.
    """

    __slots__ = ("_made_of", "value")

    _instead = "make another"

    def __init__(self, kind: DescriptorType | None = None, value: int = 0):
        self.value = value if kind is None else api.create(kind)
        self._made_of: list[Any] = []

    def hold(self, *others: Any) -> None:
        """Keep other objects alive as long as this one."""
        self._made_of += others

    def put(self, name: Name, *others: Descriptor) -> None:
        """Set an attribute to other descriptors, and keep them alive."""
        api.set_descriptors(self.value, name, [other.value for other in others])
        self.hold(*others)

    def done(self) -> Descriptor:
        """Finalize the descriptor."""
        api.finalize(self.value)
        return self

    def __del__(self) -> None:
        if getattr(self, "value", 0):
            try:
                cudnn.cudnnBackendDestroyDescriptor(self.value)
            except Exception:
                pass  # at interpreter exit the library may be unloaded


class Site:
    """The target of plans: the GPU of a handle, or a GPU that this machine may lack.

    Args:
        handle: a handle of the calling thread; None to plan without a GPU.
        gpu: the GPU's properties, needed without a handle.
    """

    def __init__(self, handle: Handle | None, gpu: Gpu | None = None):
        self._handle = handle
        self._properties: Descriptor | None = None
        if gpu is not None:
            cudnn.require(Name.DEVICEPROP_JSON_REPRESENTATION)
            self._properties = Descriptor(DescriptorType.DEVICEPROP_DESCRIPTOR)
            api.set_text(self._properties.value, Name.DEVICEPROP_JSON_REPRESENTATION, gpu.to_json().encode())
            self._properties.done()

    def tell(self, descriptor: Descriptor, handle: Name | None, properties: Name | None) -> None:
        """Set the target in a descriptor, through its attribute for a handle or for properties, if it has one."""
        if self._properties is not None:
            if properties is not None:
                descriptor.put(properties, self._properties)
        elif handle is not None:
            assert self._handle is not None
            api.set_handle(descriptor.value, handle, self._handle.value)
            descriptor.hold(self._handle)


def uid_of(place: int) -> int:
    """Return the number under which cuDNN knows a tensor of a graph."""
    return place + 1


def _tensor(place: int, tensor: Tensor, others: Sequence[Descriptor]) -> Descriptor:
    made = Descriptor(DescriptorType.TENSOR_DESCRIPTOR)
    put_int64(made.value, Name.TENSOR_UNIQUE_ID, uid_of(place))
    put_dtype(made.value, Name.TENSOR_DATA_TYPE, tensor.dtype)
    put_int64(made.value, Name.TENSOR_BYTE_ALIGNMENT, tensor.alignment)
    api.set_int64s(made.value, Name.TENSOR_DIMENSIONS, tensor.shape)
    api.set_int64s(made.value, Name.TENSOR_STRIDES, tensor.strides)
    if tensor.virtual:
        api.set_bool(made.value, Name.TENSOR_IS_VIRTUAL, True)
    if tensor.by_value:
        api.set_bool(made.value, Name.TENSOR_IS_BY_VALUE, True)
    if tensor.offsets is not None:
        made.put(Name.TENSOR_RAGGED_OFFSET_DESC, others[tensor.offsets])
    return made.done()


def _operation(node: Node, tensors: Sequence[Descriptor]) -> Descriptor:
    kind, settings = KINDS[node.kind], dict(node.settings)
    made = Descriptor(kind.operation)
    inner = made if kind.inner is None else Descriptor(kind.inner)
    if "stride" in settings:
        put_int64(inner.value, Name.CONVOLUTION_SPATIAL_DIMS, len(settings["stride"]))
    for name, value in settings.items():
        setting = kind.settings[name]
        setting.put((inner if setting.inner else made).value, setting.name, value)
    if kind.holder is not None:
        made.put(kind.holder, inner.done())
    for name, place in node.tensors:
        made.put(kind.tensors[name], tensors[place])
    return made.done()


def describe(graph: CudnnGraph, site: Site) -> Descriptor:
    """Return the descriptor of a graph.

    Raises:
        CudnnError: cuDNN does not know an operation, or its tensors do not fit.
    """
    tensors: list[Descriptor] = []
    for place, tensor in enumerate(graph.tensors):
        tensors.append(_tensor(place, tensor, tensors))
    made = Descriptor(DescriptorType.OPERATIONGRAPH_DESCRIPTOR)
    site.tell(made, Name.OPERATIONGRAPH_HANDLE, None)
    made.put(Name.OPERATIONGRAPH_OPS, *[_operation(node, tensors) for node in graph.nodes])
    return made.done()
