"""What every package may use: errors, array types, files, optional dependencies, parallel work, display."""
