"""Arrays: the device array, functions that make and assign arrays, and the import of other libraries' arrays.

Device arrays have NumPy's names for views, which share memory and queue nothing:

    >>> import numpy as np
    >>> import numbacc
    >>> x = numbacc.asarray(np.arange(6.0).reshape(2, 3))  # on a GPU
    >>> x.T.shape, x.transpose((1, 0)).shape, x.reshape(3, 2).shape, x.ravel().shape
    ((3, 2), (3, 2), (3, 2), (6,))
    >>> x.reshape(2, 1, 3).squeeze(1).shape, x.broadcast_to((4, 2, 3)).shape
    ((2, 3), (4, 2, 3))
    >>> str(x.view("int64").dtype)
    'int64'
    >>> x.is_c_contiguous(), x.T.is_f_contiguous()
    (True, True)

You read and write parts as in NumPy. Methods with a `stream=` argument use that stream:

    >>> x[0, 1] = 7
    >>> x.setitem((1, 2), 9, stream=numbacc.stream())
    >>> x.getitem((1, 2)).item(), x[0, 1:2].item()
    (9.0, 7.0)

Values are copied to the host, and from it:

    >>> x.copy_to_host()
    array([[0., 7., 2.],
           [3., 4., 9.]])
    >>> x.copy_to_device(np.zeros((2, 3)))
    >>> float(x.copy_to_host().sum())
    0.0
"""
