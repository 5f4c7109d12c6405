"""The paper's figures and its table, one file each."""
