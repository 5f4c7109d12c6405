"""`glb demo`: a server, and a simulated shop that asks it for offers."""
