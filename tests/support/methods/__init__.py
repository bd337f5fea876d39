"""One file per method: its reference implementation and the settings it is tested with, found by `variants`."""
