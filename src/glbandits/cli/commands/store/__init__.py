"""The commands of `glb store`: all of them take the store of a service as `--store`."""
