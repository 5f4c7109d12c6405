"""The commands of `glb`. `cli.app` lists them."""
