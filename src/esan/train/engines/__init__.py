"""Engines: one pass of training or prediction on a device, for one network, an ensemble or several processes."""
