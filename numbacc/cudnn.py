"""Ask whether cuDNN has a plan for a request on a GPU, and which plan, on a machine without that GPU or any GPU.

```
from numbacc import cudnn
for name in cudnn.devices():
    print(name, cudnn.supports(request, name))
```
"""

from .base.docstrings import import_in_examples
from .libraries.cudnn_elsewhere import Support
from .libraries.cudnn_support import devices, supports

__all__ = ["Support", "devices", "supports"]

import_in_examples([Support, devices, supports])
