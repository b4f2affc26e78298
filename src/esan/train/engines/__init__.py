"""Engines: the part of training that touches the device; one network, an ensemble, or several processes."""
