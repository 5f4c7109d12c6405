"""How results show themselves: text, HTML tables, figures, and the colours of all charts."""
