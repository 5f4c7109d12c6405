"""Catalogues: arms that are stored once, and the choice of one of them."""
