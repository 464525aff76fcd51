"""cuDNN's answers for any GPU: whether it has a plan for a request, and which, without that GPU, or without any.

```
from numbacc import cudnn
for name in cudnn.devices():
    print(name, cudnn.supports(request, name))
```
"""

from .libraries.cudnn_elsewhere import Support
from .libraries.cudnn_support import devices, supports

__all__ = ["Support", "devices", "supports"]
