"""Not sgl_kernel: see `import_only`."""

from import_only import stand_in

__version__ = "0.0.0+stand.in"
__getattr__ = stand_in(__name__)
