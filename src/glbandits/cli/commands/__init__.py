"""The commands of `glb`, a module each. `cli.lazy_commands` lists them."""
