"""Graphs as cuDNN's descriptors, and where they are planned for: a GPU of this process, or one by its properties.

Each descriptor has one owner, and is destroyed with it. What a descriptor was made of must outlive it, so owners hold
that, too.
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
    """A descriptor of the backend, and what it was made of.

    Args:
        kind: which, if it is to be created.
        value: the address of one that cuDNN has created for us.
    """

    __slots__ = ("_made_of", "value")

    _instead = "make another"

    def __init__(self, kind: DescriptorType | None = None, value: int = 0):
        self.value = value if kind is None else api.create(kind)
        self._made_of: list[Any] = []

    def hold(self, *others: Any) -> None:
        """Let others live as long as this does."""
        self._made_of += others

    def put(self, name: Name, *others: Descriptor) -> None:
        """Set an attribute to other descriptors, which are held."""
        api.set_descriptors(self.value, name, [other.value for other in others])
        self.hold(*others)

    def done(self) -> Descriptor:
        """Finalize it."""
        api.finalize(self.value)
        return self

    def __del__(self) -> None:
        if getattr(self, "value", 0):
            try:
                cudnn.cudnnBackendDestroyDescriptor(self.value)
            except Exception:
                pass  # at interpreter exit the library may be gone


class Site:
    """What graphs are planned for: the GPU of a handle, or one that need not be there.

    Args:
        handle: of the calling thread; None to plan without a GPU.
        gpu: the GPU's properties, where there is no handle.
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
        """Tell a descriptor by the attribute that it has for a handle, or for properties, if it has one."""
        if self._properties is not None:
            if properties is not None:
                descriptor.put(properties, self._properties)
        elif handle is not None:
            assert self._handle is not None
            api.set_handle(descriptor.value, handle, self._handle.value)
            descriptor.hold(self._handle)


def uid_of(place: int) -> int:
    """The number that cuDNN knows a tensor of a graph by."""
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
    """The descriptor of a graph.

    Raises:
        CudnnError: cuDNN knows no such operation, or its tensors do not fit.
    """
    tensors: list[Descriptor] = []
    for place, tensor in enumerate(graph.tensors):
        tensors.append(_tensor(place, tensor, tensors))
    made = Descriptor(DescriptorType.OPERATIONGRAPH_DESCRIPTOR)
    site.tell(made, Name.OPERATIONGRAPH_HANDLE, None)
    made.put(Name.OPERATIONGRAPH_OPS, *[_operation(node, tensors) for node in graph.nodes])
    return made.done()
