"""The command line `glb`: it parses options, calls the other packages and prints the results."""
