"""The command line `glb`: parse, call, print."""
